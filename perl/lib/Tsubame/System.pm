package Tsubame::System;

# What the runtime needs of the kernel that is only in large modules. Every interpreter loads what is here, and POSIX, Socket and
# IO::Handle take longer to load than all the rest of the runtime.

use strict;
use warnings;
use Config ();

# Numbers of system calls by the name of the architecture that this perl was built for: dup3(2) and getrusage(2).
my %NUMBERS = (
    x86_64      => [ 292, 98 ],
    aarch64     => [ 24,  165 ],
    riscv64     => [ 24,  165 ],
    loongarch64 => [ 24,  165 ],
    ppc64       => [ 316, 77 ],
    ppc64le     => [ 316, 77 ],
    powerpc64   => [ 316, 77 ],
    powerpc64le => [ 316, 77 ],
    s390x       => [ 326, 77 ],
);
my ($machine) = $Config::Config{archname} =~ /\A(\w+)-linux/;
my ( $dup3, $getrusage ) = defined $machine && length( pack 'l!', 0 ) == 8 && $NUMBERS{$machine} ? @{ $NUMBERS{$machine} } : ();

# Makes descriptor $new one of the same file as $old.
sub dup2 {
    my ( $old, $new ) = @_;
    return $new if $old == $new;
    return syscall( $dup3, $old + 0, $new + 0, 0 ) >= 0 if $dup3;
    require POSIX;
    return POSIX::dup2( $old, $new );
}

# Writes what is buffered for a handle. With `$|` there is nothing: it is written with each print.
sub flush {
    my ($handle) = @_;
    my $selected = select $handle;
    $| = 1, $| = 0 if !$|;
    select $selected;
}

# Of processes: 0 is this one, -1 those that it has waited for. Microseconds in user mode and in the kernel.
my $buffer = "\0" x 256;

sub used {
    my ($whose) = @_;
    if ( !$getrusage ) {
        my @times = times;
        return map { int $_ * 1_000_000 } $whose ? @times[ 2, 3 ] : @times[ 0, 1 ];
    }
    syscall( $getrusage, $whose, $buffer ) == 0 or return ( 0, 0 );
    my ( $user, $micro, $system, $more ) = unpack 'l!4', $buffer;
    return ( $user * 1_000_000 + $micro, $system * 1_000_000 + $more );
}

# The flag of send(2) that keeps SIGPIPE away.
use constant NO_SIGNAL => $^O eq 'linux' ? 0x4000 : do { require Socket; Socket::MSG_NOSIGNAL() };

1;
