package ModPerl::RegistryCooker;

# The classes of the Registry family, for those who load them or call their handlers. Their steps cannot be overridden here.

use strict;
use warnings;
use Tsubame::Registry ();

our $VERSION = '2.000012';
our $NameWithVirtualHost = 1;

for my $class ( keys %Tsubame::Registry::CLASSES ) {
    no strict 'refs';
    *{"${class}::handler"} = sub {
        my $r = $_[-1];
        my $rc = Tsubame::Registry::run( $r, $class, $Tsubame::Registry::CLASSES{$class} );
        return $rc;
    };
    @{"${class}::ISA"} = (__PACKAGE__);
}

sub handler {
    my $class = ref $_[0] || $_[0];
    die "$class: a class of one's own below ModPerl::RegistryCooker is not available here\n";
}

1;
