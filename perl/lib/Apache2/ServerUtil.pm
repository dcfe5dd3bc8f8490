package Apache2::ServerUtil;

# The server as a whole.

use strict;
use warnings;
use Apache2::ServerRec ();

my $server = bless {}, 'Apache2::ServerRec';

sub server                   { return $Tsubame::ModPerl::current ? $Tsubame::ModPerl::current->server : $server }
sub server_root              { my $r = $Tsubame::ModPerl::current; return $r ? $r->{request}{root} : '/' }
sub server_root_relative     { my ( undef, $file ) = @_; return $file =~ m{\A/} ? $file : server_root() . "/$file" }
sub restart_count            { return 2 }
sub group_id                 { return ( split ' ', $( )[0] }
sub user_id                  { return $< }
sub exists_config_define     { return 0 }
sub get_server_version       { return $ENV{SERVER_SOFTWARE} // 'Tsubame' }
sub get_server_description   { return get_server_version() }
sub get_server_banner        { return get_server_version() }
sub server_shutdown_cleanup_register { my ($code) = @_; push @Tsubame::Run::shutdowns, $code; return }

sub Apache2::ServerUtil::dir_config { shift; return server()->dir_config(@_) }

1;
