package APR::Error;

# Exceptions of mod_perl's calls, and the one that `exit` throws where it cannot jump.

use strict;
use warnings;
use overload
    '0+'     => sub { $_[0]{rc} },
    'bool'   => sub { 1 },
    '""'     => sub { "$_[0]{func}: ($_[0]{rc}) " . APR::Error::strerror( $_[0]{rc} ) . " at $_[0]{file} line $_[0]{line}" },
    '=='     => sub { ( ref $_[0] ? $_[0]{rc} : $_[0] ) == ( ref $_[1] ? $_[1]{rc} : $_[1] ) },
    '!='     => sub { ( ref $_[0] ? $_[0]{rc} : $_[0] ) != ( ref $_[1] ? $_[1]{rc} : $_[1] ) },
    fallback => 1;

use constant EXIT_CODE => 120_000;

our $EXIT = bless { rc => EXIT_CODE, func => 'ModPerl::Util::exit', file => '-', line => 0 }, __PACKAGE__;

sub is_exit { return $_[0]{rc} == EXIT_CODE }

sub strerror {
    my ($code) = @_;
    return 'the script called exit' if $code == EXIT_CODE;
    local $! = $code;
    return "$!";
}

sub file { return $_[0]{file} }
sub line { return $_[0]{line} }
sub func { return $_[0]{func} }
sub rc   { return $_[0]{rc} }

# Throws an error of the operating system for the caller of the function.
sub throw {
    my ( undef, $code, $function ) = @_;
    my ( undef, $file, $line ) = caller 1;
    die bless { rc => $code + 0, func => $function, file => $file, line => $line }, __PACKAGE__;
}

1;
