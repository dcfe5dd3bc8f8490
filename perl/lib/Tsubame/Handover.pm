package Tsubame::Handover;

# Replacing the process by a fresh perl of the same process id, with open descriptors and some state handed over.

use strict;
use warnings;
use Fcntl ();
use Tsubame::System ();

# The environment that the server gave: scripts change theirs.
our %given;
for my $name ( keys %ENV ) {
    next if $name =~ /\ATSUBAME_/;
    ( $given{$name} ) = $ENV{$name} =~ /\A(.*)\z/s;
}

# Executes the runtime anew, as the server started it; the variable $name tells it where the state is.
sub restart {
    my ( $name, $state, $listener, $keep, @switches ) = @_;
    my ( undef, @arguments ) = arguments();
    my ($position) = grep { $arguments[$_] =~ m{/fd/\d+\z} } 0 .. $#arguments;
    my @missing = grep {
        my $switch = $_;
        !grep { $_ eq $switch } @arguments
    } @switches;
    splice @arguments, 0, 0, @missing if defined $position;
    enter( $name, $state, $listener, $keep, @arguments );
}

# Executes perl with these arguments. Descriptor 0 is the listening socket, as at the first start.
sub enter {
    my ( $name, $state, $listener, $keep, @arguments ) = @_;
    my $file = write_state(%$state);
    for my $handle ( $file, @$keep ) {
        fcntl $handle, Fcntl::F_SETFD(), 0 or die "cannot keep a descriptor: $!\n";
    }
    Tsubame::System::dup2( fileno $listener, 0 );
    %ENV = ( %given, $name => fileno $file );
    my $perl = -x '/proc/self/exe' ? readlink '/proc/self/exe' : $^X;
    ($perl) = $perl =~ /\A(.*)\z/s;
    exec {$perl} $perl, @arguments or die "cannot execute $perl: $!\n";
}

# The command line of this process: perl's name, its switches, the program, its arguments. Read now, because `$0 = ...` changes it.
my @arguments = command_line();
sub arguments { return @arguments }

sub command_line {
    open my $file, '<', '/proc/self/cmdline' or die "cannot read the command line: $!\n";
    local $/;
    my ($line) = <$file> =~ /\A(.*)\z/s;
    return split /\0/, $line;
}

# What restart or enter left, as a reference to a hash.
sub state {
    my ($name) = @_;
    my $number = clean( delete $ENV{$name} );
    open my $file, '+<&=', $number or die "the state of the process before is lost: $!\n";
    seek $file, 0, 0;
    local $/;
    return { unpack '(N/a*)*', <$file> };
}

# A text that -T lets be used for opening, executing and so on: what the server says about files, and what a process before
# said. What comes from the client stays tainted.
sub clean {
    my ($text) = @_;
    return defined $text && $text =~ /\A(.*)\z/s ? $1 : undef;
}

sub close_on_exec {
    fcntl $_, Fcntl::F_SETFD(), Fcntl::FD_CLOEXEC() for @_;
}

sub write_state {
    open my $file, '+>', undef or die "cannot write a temporary file: $!\n";
    binmode $file;
    print {$file} pack '(N/a*)*', @_ or die "cannot write a temporary file: $!\n";
    Tsubame::System::flush($file);
    return $file;
}

1;
