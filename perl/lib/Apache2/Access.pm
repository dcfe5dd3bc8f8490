package Apache2::Access;

# What the access phases have found out; they are the server's.

use strict;
use warnings;

package Apache2::RequestRec;

sub allow_options { return 255 }
sub auth_type     { return $_[0]->ap_auth_type }
sub auth_name     { return $_[0]{request}{auth_name} }
sub satisfies     { return 0 }
sub some_auth_required { return defined $_[0]->user ? 1 : 0 }

sub get_remote_host { return $_[0]{request}{remote_ip} }

sub get_basic_auth_pw {
    my ($r) = @_;
    my $field = $r->headers_in->get('Authorization');
    return ( 401, undef ) if !defined $field || $field !~ /\ABasic\s+(\S+)/i;
    require MIME::Base64;
    my ( $user, $password ) = split /:/, MIME::Base64::decode_base64($1), 2;
    $r->user($user);
    return ( 0, $password );
}

sub note_basic_auth_failure {
    my ($r) = @_;
    my $realm = $r->auth_name // 'private';
    $r->err_headers_out->set( 'WWW-Authenticate' => qq{Basic realm="$realm"} );
    return;
}

1;
