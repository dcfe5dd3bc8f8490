#!/usr/bin/perl
# A FastCGI application that works for 50 ms.
use strict;
use warnings;
use FCGI;

my $request = FCGI::Request();
while ( $request->Accept() >= 0 ) {
    select undef, undef, undef, 0.05;
    print "Content-Type: text/plain\r\n\r\nwell rested\n";
}
