package Tsubame::Launch;

# Mode `fork`: waits for the first request, which names the script, and becomes a perl that compiles it (Tsubame::Template).

use strict;
use warnings;
use Errno ();
use IO::Handle ();
use Tsubame::Classes ();
use Tsubame::Handover ();

use constant { HANDLER => 1, ENVIRONMENT => 2, LONGEST => 1 << 20 };

our $given;    # the switches for perl that the server gave

sub start {
    open my $listener, '+<&', \*STDIN or die "no listening socket on descriptor 0: $!\n";
    $SIG{TERM} = sub { exit 0 };
    while (1) {
        my $connection;
        if ( !accept $connection, $listener ) {
            next if $! == Errno::EINTR;
            die "the Perl runtime cannot accept connections: $!\n";
        }
        my ( $bytes, $handler, $environment ) = first_request($connection) or next;
        my %state = ( connections => pack '(N/a*)*', pack '(N/a*)*', fd => fileno $connection, in => $bytes );
        become( \%state, $handler, $environment, $listener, [$connection] );
    }
}

# What was read of the connection when HANDLER and ENVIRONMENT are there, and both; or nothing when it ends before or carries rubbish.
sub first_request {
    my ($connection) = @_;
    my $bytes = '';
    while (1) {
        my ( $handler, $environment ) = peek( \$bytes ) or return;
        return ( $bytes, $handler, $environment ) if defined $environment;
        my $count = sysread $connection, $bytes, 65536, length $bytes;
        return if !$count && ( defined $count || $! != Errno::EINTR );
    }
}

# The payloads of HANDLER and ENVIRONMENT in the bytes, undef while they are not complete; nothing when the bytes are rubbish.
# Frames before HANDLER, which a request before has left, are removed.
sub peek {
    my ($bytes) = @_;
    my ( $at, $handler ) = 0;
    while ( length($$bytes) - $at >= 8 ) {
        my ( $type, $length ) = unpack 'N N', substr $$bytes, $at, 8;
        return if $length > LONGEST;
        last if length($$bytes) - $at < 8 + $length;
        if ( $type == HANDLER ) {
            $handler = substr $$bytes, $at + 8, $length;
        }
        elsif ( $type == ENVIRONMENT && defined $handler ) {
            return ( $handler, substr( $$bytes, $at + 8, $length ), $at + 8 + $length );
        }
        elsif ( !defined $handler ) {
            substr $$bytes, 0, 8 + $length, '';
            next;
        }
        $at += 8 + $length;
    }
    return ( undef, undef );
}

sub list {
    my @list = split /\0/, $_[0], -1;
    pop @list;
    push @list, '' if @list % 2;
    return @list;
}

sub given {
    my ( undef, @arguments ) = Tsubame::Handover::arguments();
    my @switches;
    push @switches, shift @arguments while @arguments && $arguments[0] !~ m{\A/proc/self/fd/\d+\z};
    return \@switches;
}

# Replaces this process by a perl that compiles the script.
sub become {
    my ( $state, $handler, $environment, $listener, $keep ) = @_;
    my %request = list($handler);
    my $file = Tsubame::Handover::clean( $request{file} );
    my ($directory) = $file =~ m{\A(.*)/}s;
    chdir( length $directory ? $directory : '/' );
    @$state{qw(handler environment)} = ( $handler, $environment );
    my ( @switches, $program );
    my $text = Tsubame::Classes::slurp($file);
    # perl reports a file that it cannot open before anything of ours is loaded.
    my $instead;
    if ( !defined $text ) {
        $instead = "BEGIN { die q\0cannot read $file: $!\n\0 }";
    }
    else {
        my ($words) = Tsubame::Classes::shebang($text);
        @switches = map { /\A-[a-zA-Z]*([tT])/ ? "-$1" : () } @$words;
        # perl would execute what such a first line names.
        if ( $text =~ /\A#!(?!.*(?:perl|indir))/ ) {
            ( $instead = $text ) =~ s/\A[^\n]*\n?/#line 2 "$file"\n/;
            push @switches, '-w' if grep { /\A-[a-zA-Z]*w/ } @$words;
        }
    }
    $program = $file;
    if ( defined $instead ) {
        open my $copy, '+>', undef or die "cannot write a temporary file: $!\n";
        print {$copy} $instead;
        IO::Handle::flush($copy);
        push @$keep, $copy;
        $program = '/proc/self/fd/' . fileno $copy;
    }
    # Those that the server gave, and not those of the script before.
    $given ||= given();
    $state->{given} = pack '(N/a*)*', @$given;
    my @own = @$given;
    for my $switch (@switches) { unshift @own, $switch if !grep { $_ eq $switch } @own }
    Tsubame::Handover::enter(
        'TSUBAME_TEMPLATE', $state, $listener, $keep, @own,
        '-Mstrict ();BEGIN{require "/proc/self/fd/3"}',
        '--', $program, map { Tsubame::Handover::clean($_) } Tsubame::Classes::words( $request{args} )
    );
}

1;
