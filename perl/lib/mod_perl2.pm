package mod_perl2;

# `use mod_perl2;`: the version whose interface this is.

use strict;
use warnings;

our $VERSION = '2.000012';
our $VERSION_TRIPLET = '2.0.12';
$mod_perl::VERSION = $VERSION;

sub import { return }

1;
