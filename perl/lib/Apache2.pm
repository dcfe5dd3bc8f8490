package Apache2;

# `use Apache2;` put mod_perl 2's modules into @INC, once upon a time. They are there.

use strict;
use warnings;

sub warn { shift; Apache2::Log::line( 'warn', @_ ) }

1;
