package Apache2::Module;

# httpd's modules, of which none is here. Scripts ask whether one is loaded.

use strict;
use warnings;

sub loaded     { return $_[0] =~ /\A(?:mod_cgi|mod_perl|core|http_core)\.c\z/ ? 1 : 0 }
sub top_module { return undef }
sub get_config { die "Apache2::Module::get_config is not available here: directives of one's own need httpd's process\n" }
sub add        { die "Apache2::Module::add is not available here: directives of one's own need httpd's process\n" }

1;
