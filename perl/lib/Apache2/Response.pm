package Apache2::Response;

# What the answer's header can be told beside its fields.

use strict;
use warnings;

package Apache2::RequestRec;

# The page for a status: a text, or a path that is asked for instead. Without a page: what it is.
sub custom_response {
    my ( $r, $status, $page ) = @_;
    $r->{custom}{$status} = $page if @_ > 2;
    return $r->{custom}{$status};
}

# A header as a CGI script prints it, perhaps with the beginning of the body.
sub send_cgi_header {
    my ( $r, $text ) = @_;
    while ( $text =~ s/\A([^\r\n]+)\r?\n// ) {
        my ( $name, $value ) = split /:\s*/, $1, 2;
        next if !defined $value;
        if    ( lc $name eq 'status' )       { $r->status_line($value) }
        elsif ( lc $name eq 'content-type' ) { $r->content_type($value) }
        else                                 { $r->headers_out->add( $name => $value ) }
    }
    $r->{parse} = 0;
    $r->print($text) if $text =~ s/\A\r?\n// && length $text;
    return;
}

sub set_content_length { my ( $r, $length ) = @_; $r->headers_out->set( 'Content-Length' => $length ); return }
sub set_etag           { my ($r) = @_; $r->headers_out->set( ETag => $r->make_etag ) if $r->make_etag; return }
sub set_keepalive      { return 1 }

sub make_etag {
    my ($r) = @_;
    my @stat = stat $r->filename or return '';
    return sprintf '"%x-%x"', $stat[7], $stat[9];
}

sub update_mtime {
    my ( $r, $time ) = @_;
    $r->{mtime} = $time if defined $time && $time > ( $r->{mtime} || 0 );
    return;
}

sub set_last_modified {
    my ( $r, $time ) = @_;
    $r->update_mtime($time) if defined $time;
    my $modified = $r->{mtime} || ( stat $r->filename )[9] or return;
    require Apache2::Util;
    $r->headers_out->set( 'Last-Modified' => Apache2::Util::http_time($modified) );
    return;
}

# 0, or the status (304, 412) that the request's conditions ask for.
sub meets_conditions {
    my ($r) = @_;
    my ( $in, $out ) = ( $r->headers_in, $r->headers_out );
    my $etag     = $out->get('ETag');
    my $modified = $out->get('Last-Modified');
    require Apache2::Util;
    my $time = defined $modified ? Apache2::Util::parse_http( scalar $modified ) : undef;
    my $reads = $r->method eq 'GET' || $r->method eq 'HEAD';
    if ( defined( my $match = $in->get('If-Match') ) ) {
        return 412 if $match ne '*' && !( defined $etag && grep { $_ eq $etag } $match =~ /((?:W\/)?"[^"]*")/g );
    }
    elsif ( defined( my $since = $in->get('If-Unmodified-Since') ) ) {
        my $limit = Apache2::Util::parse_http($since);
        return 412 if defined $limit && ( !defined $time || $time > $limit );
    }
    if ( defined( my $none = $in->get('If-None-Match') ) ) {
        ( my $strong = defined $etag ? $etag : '' ) =~ s/\AW\///;
        return $reads ? 304 : 412 if $none eq '*' || length $strong && grep { $_ eq $strong } $none =~ /("[^"]*")/g;
        return 0;
    }
    if ( $reads && defined $time && defined( my $since = $in->get('If-Modified-Since') ) ) {
        my $limit = Apache2::Util::parse_http($since);
        return 304 if defined $limit && $time <= $limit && $limit <= time;
    }
    return 0;
}

1;
