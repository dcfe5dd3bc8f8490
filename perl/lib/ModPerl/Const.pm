package ModPerl::Const;

# mod_perl's own constant.

use strict;
use warnings;
use ModPerl::Util ();

sub EXIT () { return APR::Error::EXIT_CODE() }

sub import {
    my ( undef, @names ) = @_;
    return if @names && $names[0] =~ /\A-?compile\z/;
    my $caller = caller;
    no strict 'refs';
    *{"${caller}::EXIT"} = \&EXIT if grep { $_ eq 'EXIT' || $_ eq ':common' } @names;
}

1;
