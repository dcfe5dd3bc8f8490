package Tsubame::Usage;

# Processor time of a request in microseconds: what this process, and if it started any the processes it waited for, have
# used since the last one. The system call is asked directly because Perl's `times` counts in hundredths of a second.

use strict;
use warnings;

# getrusage(2) by the kernel's name of the architecture.
my %NUMBER = ( x86_64 => 98, aarch64 => 165, riscv64 => 165, loongarch64 => 165, ppc64 => 77, ppc64le => 77, s390x => 77 );
my ( $number, $buffer ) = ( undef, "\0" x 256 );
my @own   = ( 0, 0 );
my @other = ( 0, 0 );

if ( $^O eq 'linux' && length( pack 'l!', 0 ) == 8 ) {
    require POSIX;
    $number = $NUMBER{ ( POSIX::uname() )[4] };
}

# User and system time since the last call, with those of children if $children is true.
sub since {
    my ($children) = @_;
    my @now = $number ? rusage(0) : ticks(0);
    my @used = ( $now[0] - $own[0], $now[1] - $own[1] );
    @own = @now;
    if ($children) {
        @now = children();
        $used[$_] += $now[$_] - $other[$_] for 0, 1;
        @other = @now;
    }
    return @used;
}

sub children { return $number ? rusage(-1) : ticks(2) }

sub rusage {
    syscall( $number, $_[0], $buffer ) == 0 or return ( 0, 0 );
    my ( $user, $micro, $system, $more ) = unpack 'l!4', $buffer;
    return ( $user * 1_000_000 + $micro, $system * 1_000_000 + $more );
}

sub ticks {
    my ($from) = @_;
    my @times = times;
    return map { int $_ * 1_000_000 } @times[ $from, $from + 1 ];
}

1;
