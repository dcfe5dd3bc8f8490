package ModPerl::Util;

# mod_perl's helpers: leaving a script, packages, where one is.

use strict;
use warnings;
use Tsubame::Run ();
use Tsubame::Classes ();

sub exit { Tsubame::Run::leave( @_ ? $_[0] : 0 ) }
sub untaint { $_ = defined $_ && /\A(.*)\z/s ? $1 : $_ for @_; return }
sub unload_package { Tsubame::Classes::empty_package( $_[0] ); return }
sub current_callback { return 'PerlResponseHandler' }
sub current_perl_id { return '0x0' }

# ModPerl::EXIT is the code of the exception that exit throws where it cannot jump.
sub ModPerl::EXIT () { return APR::Error::EXIT_CODE() }

1;
