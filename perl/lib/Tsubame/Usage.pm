package Tsubame::Usage;

# Processor time of a request in microseconds: what this process, and if it started any the processes it waited for, have
# used since the last one.

use strict;
use warnings;
use Tsubame::System ();

my @own   = ( 0, 0 );
my @other = ( 0, 0 );

# User and system time since the last call, with those of children if $children is true.
sub since {
    my ($children) = @_;
    my @now = Tsubame::System::used(0);
    my @used = ( $now[0] - $own[0], $now[1] - $own[1] );
    @own = @now;
    if ($children) {
        @now = children();
        $used[$_] += $now[$_] - $other[$_] for 0, 1;
        @other = @now;
    }
    return @used;
}

sub children { return Tsubame::System::used(-1) }

1;
