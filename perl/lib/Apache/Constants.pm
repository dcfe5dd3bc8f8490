package Apache::Constants;

# mod_perl 1's name; what is there of it is in Apache2::compat.

use strict;
use warnings;
use Apache2::compat ();

1;
