package Apache2::SubRequest;

# Requests inside of requests. A backend cannot make them in the server, so only redirects work.

use strict;
use warnings;

package Apache2::RequestRec;

# The server goes on with another path of its own. What was printed is thrown away.
sub internal_redirect {
    my ( $r, $path ) = @_;
    die "\$r->internal_redirect: the answer has already begun\n" if $Tsubame::Stdio::sent;
    Tsubame::Stdio::discard();
    $r->{parse} = 0;
    my $handle = Tsubame::Stdio::handle_out();
    CORE::print {$handle} one_line( "Location: $path", "\r\n\r\n" );
    $r->{redirected} = 1;
    return;
}

{
    no warnings 'once';
    *internal_redirect_handler = \&internal_redirect;
}

for my $name (qw(lookup_uri lookup_file lookup_method_uri)) {
    no strict 'refs';
    *$name = sub {
        my ( undef, $file, $line ) = caller;
        die "\$r->$name is not available here: a backend cannot ask the server for another request at $file line $line.\n";
    };
}

1;
