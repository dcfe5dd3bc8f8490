#!/usr/bin/perl
# The same in a language that has to be loaded first.
use strict;
use warnings;

print "Content-Type: text/html\n\n";
print "<html><head><title>hello</title></head><body><p>hello world</p></body></html>\n";
