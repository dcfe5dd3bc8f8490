package Apache2::ServerRec;

# `$r->server`: what a script may know of the virtual host.

use strict;
use warnings;
use Apache2::Log ();

sub server_hostname { return $_[0]{request}{server_name} }
sub server_admin    { return $_[0]{request}{server_admin} }
sub port            { return $_[0]{request}{port} }
sub is_virtual      { return 0 }
sub error_fname     { return undef }
sub timeout         { return 60_000_000 }
sub keep_alive      { return 1 }
sub loglevel        { return 4 }
sub dir_config      { my $self = shift; return Apache2::RequestUtil->request->dir_config(@_) }
sub method_register { return }
sub add_version_component { return }

# Handlers that belong to the life of an interpreter.
sub push_handlers {
    my ( undef, $phase, $handlers ) = @_;
    my @handlers = ref $handlers eq 'ARRAY' ? @$handlers : $handlers;
    if ( $phase eq 'PerlChildExitHandler' ) {
        push @Tsubame::Run::shutdowns, map { ref $_ eq 'CODE' ? $_ : Tsubame::ModPerl::handler($_) } @handlers;
    }
    elsif ( $phase eq 'PerlCleanupHandler' ) {
        Apache2::RequestUtil->request->push_handlers( $phase => \@handlers );
    }
    elsif ( $phase eq 'PerlChildInitHandler' ) {
        Tsubame::Run::call( ref $_ eq 'CODE' ? $_ : Tsubame::ModPerl::handler($_) ) for @handlers;
    }
    return 1;
}

# `Apache2::ServerRec::warn("text")` is a function, too.
{
    no warnings 'redefine';
    *warn = sub { shift if ref $_[0]; Apache2::Log::line( 'warn', @_ ) };
}

1;
