package Apache2::URI;

# URLs of the server's own.

use strict;
use warnings;

package Apache2::RequestRec;

sub construct_server {
    my ( $r, $name, $port ) = @_;
    $name = $r->get_server_name if !defined $name;
    $port = $r->get_server_port if !defined $port;
    my $default = ( $ENV{HTTPS} || '' ) eq 'on' ? 443 : 80;
    return $port == $default ? $name : "$name:$port";
}

sub construct_url {
    my ( $r, $uri ) = @_;
    return ( ( $ENV{HTTPS} || '' ) eq 'on' ? 'https' : 'http' ) . '://' . $r->construct_server . ( defined $uri ? $uri : $r->uri );
}

sub Apache2::URI::unescape_url {
    $_[0] =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
    return 0;
}

1;
