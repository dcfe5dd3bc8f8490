package APR::Pool;

# Memory is Perl's affair; what a pool is good for here is a clean-up at its end, which is the request's.

use strict;
use warnings;

sub new { return bless {}, ref $_[0] || $_[0] }

sub cleanup_register {
    my ( undef, $code, @arguments ) = @_;
    $code = \&$code if !ref $code;
    push @Tsubame::Run::cleanups, [ $code, @arguments ];
    return;
}

sub destroy { return }
sub clear   { return }
sub tag     { return }

1;
