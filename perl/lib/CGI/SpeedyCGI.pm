package CGI::SpeedyCGI;

# What a script can ask of SpeedyCGI. It can be loaded anywhere; outside of a persistent interpreter i_am_speedy is false.

use strict;
use warnings;

our $VERSION = '2.22';

my %DEFAULTS = (
    TIMEOUT => 3600, MAXRUNS => 500, MAXBACKENDS => 0, GROUP => 'none',
    BUFSIZGET => 131072, BUFSIZPOST => 131072, BACKENDPROG => '', TMPBASE => '', VERSION => 0,
);
my $shutdown_handler;

sub new {
    my ($class) = @_;
    return bless {}, ref $class || $class;
}

sub i_am_speedy { return defined &Tsubame::Speedy::run ? 1 : 0 }

# Replaces every handler that was set before; add_shutdown_handler adds one more.
sub set_shutdown_handler {
    my ( undef, $code ) = @_;
    @Tsubame::Run::shutdowns = defined $code ? ($code) : ();
}

sub add_shutdown_handler {
    my ( undef, $code ) = @_;
    push @Tsubame::Run::shutdowns, $code;
}

sub register_cleanup {
    my ( undef, $code ) = @_;
    push @Tsubame::Run::cleanups, $code;
}

sub setopt {
    my ( undef, $name, $value ) = @_;
    $name = uc $name;
    return 0 if !exists $DEFAULTS{$name};
    my $before = getopt( undef, $name );
    $Tsubame::Speedy::options{$name} = $value;
    return $before;
}

sub getopt {
    my ( undef, $name ) = @_;
    $name = uc $name;
    return defined $Tsubame::Speedy::options{$name} ? $Tsubame::Speedy::options{$name} : $DEFAULTS{$name};
}

# The interpreter ends when this run has ended.
sub shutdown_next_time { $Tsubame::Persistent::last = 1; return }

# It ends at once: the run is over.
sub shutdown_now {
    $Tsubame::Persistent::last = 1;
    exit 0;
}

1;
