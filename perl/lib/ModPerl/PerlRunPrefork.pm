package ModPerl::PerlRunPrefork;

# A class of the Registry family; all of them are in Tsubame::Registry.

use strict;
use warnings;
use ModPerl::RegistryCooker ();

1;
