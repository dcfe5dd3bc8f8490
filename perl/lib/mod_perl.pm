package mod_perl;

# `use mod_perl;`, the name of old.

use strict;
use warnings;
use mod_perl2 ();

our $VERSION = $mod_perl2::VERSION;

sub hook    { return 1 }
sub hooks   { return () }
sub import  { return }

1;
