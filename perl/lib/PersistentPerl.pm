package PersistentPerl;

# SpeedyCGI's other name.

use strict;
use warnings;
use CGI::SpeedyCGI ();

our @ISA     = ('CGI::SpeedyCGI');
our $VERSION = '2.22';

sub i_am_persistent_perl { return $_[0]->i_am_speedy }
sub i_am_persistent      { return $_[0]->i_am_speedy }

1;
