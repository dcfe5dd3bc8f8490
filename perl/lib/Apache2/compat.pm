package Apache2::compat;

# The part of mod_perl 1's interface that scripts use most, on top of mod_perl 2's.

use strict;
use warnings;
use Apache2::RequestRec ();
use Apache2::RequestIO ();
use Apache2::RequestUtil ();
use Apache2::Response ();
use Apache2::ServerUtil ();
use Apache2::Connection ();
use Apache2::Access ();
use Apache2::Util ();
use Apache2::URI ();
use Apache2::Const ();
use Apache2::Log ();
use ModPerl::Util ();

our $loaded = 1;

# mod_perl 1's names of modules are there with this one.
$INC{$_} ||= __FILE__ for qw(Apache.pm Apache/Constants.pm Apache/Util.pm Apache/Table.pm Apache/File.pm Apache/Log.pm Apache/Server.pm Apache/Connection.pm Apache/URI.pm);

package Apache;

our $Server = bless {}, 'Apache2::ServerRec';
our $VERSION = '1.27';

sub request              { shift; return Apache2::RequestUtil->request(@_) }
sub server               { return Apache2::ServerUtil->server }
sub exit                 { shift if @_ && ( ref $_[0] || $_[0] eq 'Apache' ); ModPerl::Util::exit( $_[0] || 0 ) }
sub warn                 { shift if @_ && ( ref $_[0] || $_[0] eq 'Apache' ); Apache2::Log::line( 'warn', @_ ) }
sub log_error            { shift if @_ && ( ref $_[0] || $_[0] eq 'Apache' ); Apache2::Log::line( 'error', @_ ) }
sub server_root_relative { my ( undef, $file ) = @_; return Apache2::ServerUtil::server_root_relative( undef, defined $file ? $file : '' ) }
sub untaint              { shift; ModPerl::Util::untaint(@_) }
sub module               { my ( undef, $name ) = @_; require Apache2::Module; return Apache2::Module::loaded($name) }
sub define               { return 0 }
sub unescape_url         { return APR::Table::unescape( do { ( my $text = $_[-1] ) =~ s{\+}{%2B}g; $text } ) }
sub unescape_url_info    { return APR::Table::unescape( $_[-1] ) }
sub httpd_conf           { return }

package Apache2::RequestRec;

sub send_http_header {
    my ( $r, $type ) = @_;
    $r->content_type( defined $type ? $type : defined $r->content_type ? $r->content_type : 'text/html' );
    return;
}

# header_in, header_out, err_header_out: one field, read or set.
for my $name (qw(header_in header_out err_header_out)) {
    ( my $table = $name ) =~ s/header/headers/;
    no strict 'refs';
    *$name = sub {
        my ( $r, $field, @new ) = @_;
        my $old = $r->$table->get($field);
        if (@new) {
            defined $new[0] ? $r->$table->set( $field => $new[0] ) : $r->$table->unset($field);
        }
        return $old;
    };
}

# cgi_env and cgi_var: one variable, or all of them as a list.
sub cgi_env {
    my ( $r, @arguments ) = @_;
    return %ENV if !@arguments;
    $ENV{ $arguments[0] } = $arguments[1] if @arguments > 1;
    return $ENV{ $arguments[0] };
}

sub content {
    my ($r) = @_;
    my $length = $ENV{CONTENT_LENGTH} || 0;
    my $body = '';
    $r->read( $body, $length ) if $length;
    return $body if !wantarray;
    return map { defined $_ ? APR::Table::unescape($_) : '' } map { ( split /=/, $_, 2 )[ 0, 1 ] } split /[&;]/, $body;
}

sub register_cleanup   { my ( $r, $code ) = @_; return $r->push_handlers( PerlCleanupHandler => $code ) }
sub post_connection    { my ( $r, $code ) = @_; return $r->push_handlers( PerlCleanupHandler => $code ) }
sub get_remote_logname { return undef }
sub parse_args         { shift; return map { APR::Table::unescape($_) } map { ( split /=/, $_, 2 )[ 0, 1 ] } split /[&;]/, $_[0] // '' }
sub server_root_relative { my ( $r, $file ) = @_; return Apache2::ServerUtil::server_root_relative( undef, $file ) }
sub send_fd {
    my ( $r, $handle ) = @_;
    while ( CORE::read $handle, my $piece, 65536 ) { $r->print($piece) }
    return 1;
}
{
    no warnings 'once';
    *cgi_var         = \&cgi_env;
    *cgi_header_out  = \&header_out;
    *chdir_file      = sub { my ( $r, $file ) = @_; chdir $1 if ( defined $file ? $file : $r->filename ) =~ m{\A(.*)/} };
    *exit            = sub { ModPerl::Util::exit( $_[1] || 0 ) };
}

package Apache::Constants;

sub import {
    my ( undef, @names ) = @_;
    my %groups = ( common => [qw(OK DECLINED DONE NOT_FOUND FORBIDDEN AUTH_REQUIRED SERVER_ERROR REDIRECT)] );
    $groups{response} = [ @{ $groups{common} }, qw(HTTP_OK HTTP_MOVED_PERMANENTLY HTTP_MOVED_TEMPORARILY HTTP_NOT_MODIFIED HTTP_BAD_REQUEST) ];
    $groups{http} = [ grep { /^HTTP_/ } keys %Apache2::Const::VALUES ];
    $groups{methods} = [ grep { /^M_/ } keys %Apache2::Const::VALUES ];
    $groups{options} = [ grep { /^OPT_/ } keys %Apache2::Const::VALUES ];
    my %old = ( DOCUMENT_FOLLOWS => 200, MOVED => 301, USE_LOCAL_COPY => 304, BAD_REQUEST => 400, BAD_GATEWAY => 502,
        NOT_IMPLEMENTED => 501, METHOD_NOT_ALLOWED => 405, NOT_MODIFIED => 304 );
    my $caller = caller;
    for my $name ( map { /\A:(.*)/ ? @{ $groups{$1} || [] } : $_ } @names ? @names : ':common' ) {
        my $value = exists $old{$name} ? $old{$name} : $Apache2::Const::VALUES{$name};
        die "Apache::Constants has no constant $name\n" if !defined $value;
        no strict 'refs';
        *{"${caller}::$name"} = *{"Apache::Constants::$name"} = sub () { $value };
    }
}
__PACKAGE__->import(':common');

package Apache::Util;

sub import {
    my ( undef, @names ) = @_;
    my $caller = caller;
    no strict 'refs';
    *{"${caller}::$_"} = \&{"Apache::Util::$_"} for @names;
}

sub escape_html {
    my ($text) = @_;
    my %entities = ( '&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;' );
    $text =~ s/([&<>"])/$entities{$1}/g;
    return $text;
}

sub escape_uri   { return Apache2::Util::escape_path( $_[0] ) }
sub unescape_uri { my ($text) = @_; $text =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge; return $text }
sub unescape_uri_info { return APR::Table::unescape( $_[0] ) }
sub ht_time      { return Apache2::Util::ht_time( undef, @_ ) }
sub parsedate    { return Apache2::Util::parse_http( $_[0] ) }

package Apache::Table;

sub new { return APR::Table::make() }

package Apache::Server;

our $CWD = '/';

1;
