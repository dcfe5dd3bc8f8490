package Apache2::RequestRec;

# `$r`: a request as a script sees it, and what it says about the answer. The other modules of Apache2:: add methods.

use strict;
use warnings;
use APR::Table ();

# Not kept in a table of its own, so that a request that asks for nothing costs nothing.
sub begin {
    my ($request) = @_;
    return bless { request => $request, status => 200, parse => $request->{parse_headers} ? 1 : 0, time => time }, __PACKAGE__;
}

# --- What the client asked

sub method       { return field( $_[0], 'method',       @_ > 1 ? $_[1] : () ) }
sub uri          { return field( $_[0], 'uri',          @_ > 1 ? $_[1] : () ) }
sub unparsed_uri { return field( $_[0], 'unparsed_uri', @_ > 1 ? $_[1] : () ) }
sub protocol     { return field( $_[0], 'protocol' ) }
sub path_info    { return field( $_[0], 'path_info',    @_ > 1 ? $_[1] : () ) }
sub filename     { return field( $_[0], 'file',         @_ > 1 ? $_[1] : () ) }
sub user         { return $_[0]->known( 'user',      @_ > 1 ? $_[1] : () ) }
sub ap_auth_type { return $_[0]->known( 'auth_type', @_ > 1 ? $_[1] : () ) }

sub args {
    my ( $r, @new ) = @_;
    my $old = $r->{request}{args};
    $r->{request}{args} = $new[0] if @new;
    return $old if !wantarray || !$Apache2::compat::loaded;
    return map { defined $_ ? APR::Table::unescape($_) : '' } map { ( split /=/, $_, 2 )[ 0, 1 ] } split /[&;]/, $old // '';
}

# The fields of the request as the client sent them.
sub headers_in {
    my ($r) = @_;
    return $r->{headers_in} ||= do {
        my $table = APR::Table::make();
        $table->add( split /:\s*/, $_, 2 ) for Tsubame::Persistent::repeated( $r->{request}, 'header' );
        $table;
    };
}

sub request_time   { return $_[0]{time} }
sub hostname       { return $_[0]->get_server_name }
sub header_only    { return $_[0]{request}{method} eq 'HEAD' ? 1 : 0 }
sub the_request    { my $q = $_[0]{request}; return join ' ', $q->{method}, $q->{unparsed_uri}, $q->{protocol} }
sub method_number  { my $name = 'Apache2::Const::M_' . $_[0]->method; no strict 'refs'; return defined &$name ? &$name() : 26 }
sub proto_num      { return $_[0]->protocol =~ m{(\d+)\.(\d+)} ? $1 * 1000 + $2 : 9 }
sub is_initial_req { return defined $ENV{REDIRECT_STATUS} && $ENV{REDIRECT_STATUS} ne '200' ? 0 : 1 }
sub main           { return undef }
sub prev           { return undef }
sub next           { return undef }
sub proxyreq       { return 0 }
sub handler        { return 'perl-script' }
sub finfo          { require APR::Finfo; return $_[0]{finfo} ||= APR::Finfo->of( $_[0]{request}{file} ) }
sub pool           { require APR::Pool; return bless { request => $_[0] }, 'APR::Pool' }
sub connection     { return $_[0]{connection} ||= bless { request => $_[0]{request} }, 'Apache2::Connection' }
sub server         { return $_[0]{server}     ||= bless { request => $_[0]{request} }, 'Apache2::ServerRec' }

# --- What the answer is to be

sub status {
    my ( $r, @new ) = @_;
    my $old = $r->{status};
    if (@new) {
        $r->{status} = $new[0];
        delete $r->{status_line};
    }
    return $old;
}

sub status_line {
    my ( $r, @new ) = @_;
    my $old = $r->{status_line};
    if (@new) {
        $r->{status_line} = $new[0];
        $r->{status} = $1 if defined $new[0] && $new[0] =~ /\A(\d{3})\b/;
    }
    return $old;
}

# Saying the type means that the script makes the header through $r: what it prints is the body.
sub content_type {
    my ( $r, @new ) = @_;
    my $old = $r->{content_type};
    if (@new) {
        $r->{content_type} = $new[0];
        $r->{parse} = 0 if defined $new[0];
    }
    return $old;
}

sub content_encoding  { return header_field( $_[0], 'Content-Encoding', @_ > 1 ? $_[1] : () ) }
sub content_languages { return header_field( $_[0], 'Content-Language', @_ > 1 ? join ', ', @{ $_[1] } : () ) }
sub headers_out       { return $_[0]{headers_out}     ||= APR::Table::make() }
sub err_headers_out   { return $_[0]{err_headers_out} ||= APR::Table::make() }
sub notes             { return table_or_value( 'notes', @_ ) }
sub subprocess_env    { return environment(@_) }
sub bytes_sent        { return $Tsubame::Stdio::sent }

sub no_cache {
    my ( $r, @new ) = @_;
    my $old = $r->{no_cache} || 0;
    if (@new) {
        $r->{no_cache} = $new[0] ? 1 : 0;
        for my $field (qw(Pragma Cache-Control)) {
            $new[0] ? $r->headers_out->set( $field => 'no-cache' ) : $r->headers_out->unset($field);
        }
    }
    return $old;
}

sub no_local_copy { my ( $r, @new ) = @_; my $old = $r->{no_local_copy} || 0; $r->{no_local_copy} = $new[0] if @new; return $old }
sub assbackwards  { my ( $r, @new ) = @_; my $old = $r->{assbackwards}  || 0; $r->{assbackwards}  = $new[0] if @new; return $old }
sub mtime         { my ( $r, @new ) = @_; my $old = $r->{mtime}         || 0; $r->{mtime}         = $new[0] if @new; return $old }

# --- The header, made when the first output is sent

# What belongs before the output: a whole header, or the fields set through $r before the header that the script prints.
sub header_text {
    my ($r) = @_;
    return '' if $r->{assbackwards};
    my $text = '';
    if ( !$r->{parse} ) {
        $text = 'Status: ' . $r->status_text . "\r\n";
        $text .= one_line("Content-Type: $r->{content_type}") if defined $r->{content_type};
    }
    elsif ( $r->{status} != 200 || defined $r->{status_line} ) {
        $text = 'Status: ' . $r->status_text . "\r\n";
    }
    for my $table ( @$r{qw(err_headers_out headers_out)} ) {
        $table->do( sub { $text .= one_line("$_[0]: $_[1]") if lc $_[0] ne 'content-type' || $r->{parse}; 1 } ) if $table;
    }
    $text .= "\r\n" if !$r->{parse};
    utf8::encode($text) if utf8::is_utf8($text);
    return $text;
}

sub status_text {
    my ($r) = @_;
    return one_line( $r->{status_line}, '' ) if defined $r->{status_line};
    return Tsubame::Status::line( $r->{status} );
}

# An answer without output of the script: a status that the handler returned.
sub answer_status {
    my ( $r, $status ) = @_;
    my $output = $status < 400 ? $r->{headers_out} : undef;
    local $r->{headers_out} = $output;
    local $r->{content_type} = $output ? $r->{content_type} : undef;
    $r->{parse} = 0;
    $r->status($status) if !defined $r->{status_line} || $r->{status} != $status;
    Tsubame::Stdio::answer( $r->header_text );
}

# A page that custom_response was given: a text, or a path for an internal redirect.
sub answer_custom {
    my ( $r, $status, $custom ) = @_;
    if ( $custom =~ m{\A(?:/|https?://)} ) {
        Tsubame::Stdio::answer("Location: $custom\r\n\r\n");
        return;
    }
    $custom =~ s/\A"//;
    utf8::encode($custom) if utf8::is_utf8($custom);
    $r->{content_type} = 'text/html' if !defined $r->{content_type};
    $r->answer_with( $status, $custom );
}

sub answer_with {
    my ( $r, $status, $body ) = @_;
    $r->{parse} = 0;
    $r->status($status) if $r->{status} != $status;
    Tsubame::Stdio::answer( $r->header_text . $body );
}

# --- Helpers

# A field must not smuggle a second one in.
sub one_line {
    my ( $text, $end ) = @_;
    $text =~ tr/\r\n\0/   /;
    return $text . ( defined $end ? $end : "\r\n" );
}

sub field {
    my ( $r, $name, @new ) = @_;
    my $old = $r->{request}{$name};
    $r->{request}{$name} = $new[0] if @new;
    return $old;
}

# A field that is undef when it is empty.
sub known {
    my ( $r, $name, @new ) = @_;
    my $old = field( $r, $name, @new );
    return defined $old && length $old ? $old : undef;
}

sub header_field {
    my ( $r, $name, @new ) = @_;
    my $old = $r->headers_out->get($name);
    $r->headers_out->set( $name => $new[0] ) if @new;
    return $old;
}

# $r->notes is a table; with arguments it is a shorthand for get and set, as in mod_perl 1.
sub table_or_value {
    my ( $name, $r, @arguments ) = @_;
    my $table = $r->{$name} ||= APR::Table::make();
    return $table if !@arguments;
    $table->set(@arguments) if @arguments > 1;
    return scalar $table->get( $arguments[0] );
}

sub environment {
    my ( $r, @arguments ) = @_;
    if ( !@arguments ) {
        return $r->{subprocess_env} ||= do {
            my $table = APR::Table::make();
            $table->set( $_ => $ENV{$_} ) for keys %ENV;
            $table;
        };
    }
    $r->subprocess_env->set(@arguments) if @arguments > 1;
    return $ENV{ $arguments[0] } = $arguments[1] if @arguments > 1;
    return scalar $r->subprocess_env->get( $arguments[0] );
}

our $AUTOLOAD;

# Calls that need the inside of Apache's process say so instead of doing something else.
sub AUTOLOAD {
    my ($name) = $AUTOLOAD =~ /(\w+)\z/;
    return if $name eq 'DESTROY';
    my ( undef, $file, $line ) = caller;
    die "\$r->$name is not available here: it needs the inside of Apache httpd's process, and this is Tsubame's Perl runtime at $file line $line.\n";
}

# For `can`: AUTOLOAD must not hide a request's missing DESTROY.
sub DESTROY { }

1;
