package Tsubame::Pump;

# What a template does beside forking: frames from the server become what scripts read, what they write becomes frames, and
# the ends of scripts become END. One loop serves all connections; none of them can hold up the others.

use strict;
use warnings;
use Errno ();
use Fcntl ();
use IO::Handle ();
use POSIX ();
use Time::HiRes ();
use Tsubame::Launch ();

use constant { INPUT => 3, OUTPUT => 4, ERROR => 5, FINISHED => 7, PIECE => 1 << 16, LONGEST => 1 << 20, GRACE => 3 };

my $listener;
my %connections;    # by descriptor; see `connect` for what is in one
my %orphans;        # scripts whose connection is gone: process id => when to kill them
my $stop = 0;
my $hooks;

# Takes over what a template before has left, and the listening socket.
sub restore {
    my $packed;
    ( $listener, $packed ) = @_;
    for my $one ( unpack '(N/a*)*', defined $packed ? $packed : '' ) {
        my %kept = unpack '(N/a*)*', $one;
        for my $key (qw(orphan deadline fd pid status stdin stdout stderr)) {
            $kept{$key} = Tsubame::Handover::clean( $kept{$key} ) if exists $kept{$key};
        }
        if ( defined $kept{orphan} ) {
            $orphans{ $kept{orphan} } = $kept{deadline};
            next;
        }
        open my $handle, '+<&=', $kept{fd} or next;
        my $connection = admit($handle);
        $connection->{in} = $kept{in};
        next if !defined $kept{pid};
        my $request = $connection->{request} = {};
        for my $key (qw(pid pending input_end status wrote user system)) {
            $request->{$key} = $kept{$key} if defined $kept{$key} && length $kept{$key};
        }
        $connection->{out} = $kept{out};
        for my $key (qw(stdin stdout stderr)) {
            next if !length $kept{$key};
            open $request->{$key}, $key eq 'stdin' ? '>&=' : '<&=', $kept{$key} or next;
            prepare( $request->{$key} );
        }
        $request->{pending} = '' if !defined $request->{pending};
    }
}

# Serves until SIGTERM; in a forked child it returns at once.
sub run {
    ($hooks) = @_;
    local $SIG{TERM} = sub { $stop = 1 };
    local $SIG{PIPE} = 'IGNORE';
    $_->{ready} = 1 for values %connections;
    while (1) {
        for my $connection ( grep { $_->{ready} } values %connections ) {
            $connection->{ready} = 0;
            return if advance($connection);
        }
        if ($stop) {
            drop($_) for grep { !$_->{request} && !length $_->{out} } values %connections;
            POSIX::_exit(0) if !%connections && !%orphans;
        }
        wait_for_something();
        reap();
    }
}

# --- Connections

sub admit {
    my ($handle) = @_;
    prepare($handle);
    # in: bytes from the server that are not used yet; out: bytes for it; request: the script that is running.
    return $connections{ fileno $handle } = { handle => $handle, in => '', out => '', request => undef, ready => 0 };
}

sub prepare {
    my ($handle) = @_;
    binmode $handle;
    Tsubame::Handover::close_on_exec($handle);
    $handle->blocking(0);
}

# Ends a connection; a script that is still running is asked to stop, and made to after a while.
sub drop {
    my ($connection) = @_;
    my $request = delete $connection->{request};
    if ( $request && !defined $request->{status} ) {
        kill TERM => $request->{pid};
        $orphans{ $request->{pid} } = Time::HiRes::time() + GRACE;
    }
    delete $connections{ fileno $connection->{handle} };
    close $connection->{handle};
}

# Waits until a descriptor is ready or a script may have ended, and moves what can be moved.
sub wait_for_something {
    my ( $reading, $writing, %readers, %writers ) = ( '', '' );
    my $timeout;
    if ( !$stop ) {
        vec( $reading, fileno $listener, 1 ) = 1;
    }
    for my $connection ( values %connections ) {
        my $request = $connection->{request};
        my $number  = fileno $connection->{handle};
        if ( wants_more($connection) ) {
            vec( $reading, $number, 1 ) = 1;
            $readers{$number} = [ \&from_server, $connection ];
        }
        if ( length $connection->{out} ) {
            vec( $writing, $number, 1 ) = 1;
            $writers{$number} = [ \&to_server, $connection ];
        }
        next if !$request;
        if ( length $connection->{out} < PIECE ) {
            for my $key ( grep { $request->{$_} } qw(stdout stderr) ) {
                vec( $reading, fileno $request->{$key}, 1 ) = 1;
                $readers{ fileno $request->{$key} } = [ \&from_script, $connection, $key ];
            }
        }
        if ( $request->{stdin} && ( length $request->{pending} || $request->{input_end} ) ) {
            vec( $writing, fileno $request->{stdin}, 1 ) = 1;
            $writers{ fileno $request->{stdin} } = [ \&to_script, $connection ];
        }
        # A process has gone very soon after its end of the pipe.
        if ( !$request->{stdout} && !defined $request->{status} ) {
            $request->{patience} = $request->{patience} ? $request->{patience} * 2 : 0.0005;
            $request->{patience} = 0.2 if $request->{patience} > 0.2;
            $timeout = $request->{patience} if !defined $timeout || $request->{patience} < $timeout;
        }
    }
    $timeout = 0.2 if %orphans && ( !defined $timeout || $timeout > 0.2 );
    $timeout = 1 if !defined $timeout && $stop;
    my $count = select my $readable = $reading, my $writable = $writing, undef, $timeout;
    return if $count <= 0;
    if ( vec $readable, fileno $listener, 1 ) {
        while ( accept my $accepted, $listener ) { admit($accepted) }
    }
    for ( [ $writable, \%writers ], [ $readable, \%readers ] ) {
        my ( $bits, $table ) = @$_;
        for my $number ( grep { vec $bits, $_, 1 } keys %$table ) {
            my ( $move, $connection, $key ) = @{ $table->{$number} };
            next if !$connections{ fileno( $connection->{handle} ) // -1 };
            $move->( $connection, $key );
            $connection->{ready} = 1;
        }
    }
}

# Whether more is to be read from the server: not while the script has enough to do with what is there.
sub wants_more {
    my ($connection) = @_;
    my $request = $connection->{request};
    my $have    = length $connection->{in};
    return $have < 3 * LONGEST if !$request;
    return $have < PIECE if $request->{input_end};
    return length $request->{pending} < PIECE && ( $have < 8 || $have < 8 + unpack 'x4 N', $connection->{in} );
}

sub from_server {
    my ($connection) = @_;
    my $count = sysread $connection->{handle}, $connection->{in}, PIECE, length $connection->{in};
    return if $count || !defined $count && ( $! == Errno::EAGAIN || $! == Errno::EINTR );
    drop($connection);
}

sub to_server {
    my ($connection) = @_;
    my $count = syswrite $connection->{handle}, $connection->{out};
    if ( defined $count ) {
        substr $connection->{out}, 0, $count, '';
    }
    elsif ( $! != Errno::EAGAIN && $! != Errno::EINTR ) {
        drop($connection);
    }
}

sub from_script {
    my ( $connection, $key ) = @_;
    my $request = $connection->{request} or return;
    my $count = sysread $request->{$key}, my $piece, PIECE;
    if ($count) {
        $connection->{out} .= pack 'N N/a*', $key eq 'stdout' ? OUTPUT : ERROR, $piece;
        $request->{wrote} = 1 if $key eq 'stdout';
        to_server($connection);
    }
    elsif ( defined $count || $! != Errno::EAGAIN && $! != Errno::EINTR ) {
        close delete $request->{$key};
    }
}

sub to_script {
    my ($connection) = @_;
    my $request = $connection->{request} or return;
    if ( length $request->{pending} ) {
        my $count = syswrite $request->{stdin}, $request->{pending};
        if ( defined $count ) {
            substr $request->{pending}, 0, $count, '';
        }
        elsif ( $! != Errno::EAGAIN && $! != Errno::EINTR ) {
            # The script does not want the rest.
            close delete $request->{stdin};
            $request->{pending} = '';
        }
    }
    close delete $request->{stdin} if $request->{stdin} && $request->{input_end} && !length $request->{pending};
}

# --- Requests

# Does what the bytes of a connection ask for. True in a forked child.
sub advance {
    my ($connection) = @_;
    return if !$connections{ fileno( $connection->{handle} ) // -1 };
    my $request = $connection->{request};
    if ($request) {
        take_input($connection);
        finish($connection) if defined $request->{status} && !$request->{stdout};
        return if $connection->{request};
    }
    my ( $handler, $environment, $used ) = Tsubame::Launch::peek( \$connection->{in} );
    if ( !defined $handler && !defined $environment && !defined $used && length $connection->{in} >= 8 ) {
        my ( $type, $length ) = unpack 'N N', $connection->{in};
        drop($connection) if $length > LONGEST;
        return;
    }
    return if !defined $environment;
    my %request = Tsubame::Launch::list($handler);
    if ( my $failure = $hooks->{failure} ) {
        anew( $handler, $environment ) if $failure->{done}++;
        substr $connection->{in}, 0, $used, '';
        fail( $connection, $failure );
        return;
    }
    anew( $handler, $environment ) if $hooks->{stale}->( \%request );
    substr $connection->{in}, 0, $used, '';
    return begin( $connection, \%request, [ Tsubame::Launch::list($environment) ] );
}

# Forks. True in the child, which is ready to run the script.
sub begin {
    my ( $connection, $asked, $variables ) = @_;
    my $request = $connection->{request} = { pending => '', pid => 0 };
    take_input($connection);
    my ( @in, @out, @err );
    my $empty = $request->{input_end} && !length $request->{pending};
    if ( !( $empty || pipe $in[0], $in[1] ) || !pipe( $out[0], $out[1] ) || !pipe( $err[0], $err[1] ) ) {
        return refuse( $connection, "cannot make pipes: $!" );
    }
    my $pid = fork;
    return refuse( $connection, "cannot fork: $!" ) if !defined $pid;
    if ( !$pid ) {
        $SIG{$_} = 'DEFAULT' for qw(TERM PIPE);
        for my $other ( values %connections ) {
            close $_ for grep { defined } $other->{handle}, $other->{request} ? @{ $other->{request} }{qw(stdin stdout stderr)} : ();
        }
        close $_ for grep { defined } $in[1], $out[0], $err[0];
        ( %connections, %orphans ) = ();
        $hooks->{child}->( $asked, $variables, $in[0], $out[1], $err[1] );
        undef $hooks;
        return 1;
    }
    @$request{qw(pid stdout stderr)} = ( $pid, $out[0], $err[0] );
    $request->{stdin} = $in[1] if !$empty;
    prepare($_) for grep { defined } @$request{qw(stdin stdout stderr)};
    # What was said while the script was compiled: its BEGIN blocks would have said it in each run, warnings once are enough.
    for ( [ OUTPUT, $hooks->{greeting} ], [ ERROR, delete $hooks->{errors} ] ) {
        $connection->{out} .= pieces(@$_);
    }
    $request->{wrote} = 1 if length $hooks->{greeting};
    return 0;
}

# INPUT frames of the connection become what the script is to read.
sub take_input {
    my ($connection) = @_;
    my $request = $connection->{request};
    while ( !$request->{input_end} && length $connection->{in} >= 8 && length $request->{pending} < PIECE ) {
        my ( $type, $length ) = unpack 'N N', $connection->{in};
        return drop($connection) if $length > LONGEST;
        last if length $connection->{in} < 8 + $length;
        my $piece = substr $connection->{in}, 8, $length;
        substr $connection->{in}, 0, 8 + $length, '';
        next if $type != INPUT;
        $length ? ( $request->{pending} .= $piece ) : ( $request->{input_end} = 1 );
    }
    $request->{pending} = '' if $request->{pid} && !$request->{stdin};
}

sub reap {
    for my $connection ( values %connections ) {
        my $request = $connection->{request} or next;
        next if $request->{stdout} || defined $request->{status};
        next if waitpid( $request->{pid}, POSIX::WNOHANG() ) != $request->{pid};
        $request->{status} = $?;
        @$request{qw(user system)} = used();
        $connection->{ready} = 1;
    }
    for my $pid ( keys %orphans ) {
        if ( waitpid( $pid, POSIX::WNOHANG() ) ) {
            delete $orphans{$pid};
            used();
        }
        elsif ( Time::HiRes::time() > $orphans{$pid} ) {
            kill KILL => $pid;
        }
    }
}

my @before = ( 0, 0 );

# Processor time of the processes that were waited for since the last call.
sub used {
    my @now = Tsubame::Usage::children();
    my @used = map { $now[$_] - $before[$_] } 0, 1;
    @before = @now;
    return @used;
}

# The script has ended and its output, too.
sub finish {
    my ($connection) = @_;
    my $request = delete $connection->{request};
    # What is in the pipe of standard error; processes in the background may hold it open.
    if ( $request->{stderr} ) {
        while ( sysread $request->{stderr}, my $piece, PIECE ) {
            $connection->{out} .= pack 'N N/a*', ERROR, $piece;
        }
    }
    my ( $code, $signal ) = ( $request->{status} >> 8, $request->{status} & 127 );
    my $error
        = $signal                        ? "the script was killed by signal $signal"
        : $code && !$request->{wrote}    ? "the script ended with status $code and wrote nothing"
        :                                  undef;
    end( $connection, $signal ? 128 + $signal : $code, @$request{qw(user system)}, $error );
}

sub fail {
    my ( $connection, $failure ) = @_;
    $connection->{out} .= pieces( OUTPUT, $failure->{output} ) . pieces( ERROR, $failure->{errors} );
    end( $connection, $failure->{status}, 0, 0, $failure->{error} );
}

sub refuse {
    my ( $connection, $why ) = @_;
    delete $connection->{request};
    end( $connection, 1, 0, 0, $why );
    return 0;
}

sub end {
    my ( $connection, $status, $user, $system, $error ) = @_;
    my $end = "status\0$status\0user\0" . ( $user || 0 ) . "\0system\0" . ( $system || 0 ) . "\0";
    $end .= "last\0001\0" if $stop;
    if ( defined $error ) {
        $error =~ tr/\0\n/  /;
        $end .= 'error' . "\0" . substr( $error, 0, 1000 ) . "\0";
    }
    $connection->{out} .= pack 'N N/a*', FINISHED, $end;
    $connection->{ready} = 1;
    to_server($connection);
}

sub pieces {
    my ( $type, $text ) = @_;
    return '' if !defined $text || !length $text;
    return join '', map { pack 'N N/a*', $type, $_ } unpack '(a' . LONGEST . ')*', $text;
}

# --- A fresh template takes over

sub anew {
    my ( $handler, $environment ) = @_;
    my ( @packed, @keep );
    for my $connection ( values %connections ) {
        my %kept = ( fd => fileno $connection->{handle}, in => $connection->{in}, out => $connection->{out} );
        push @keep, $connection->{handle};
        if ( my $request = $connection->{request} ) {
            for my $key (qw(pid pending input_end status wrote user system)) {
                $kept{$key} = defined $request->{$key} ? $request->{$key} : '';
            }
            for my $key (qw(stdin stdout stderr)) {
                $kept{$key} = $request->{$key} ? fileno $request->{$key} : '';
                push @keep, $request->{$key} if $request->{$key};
            }
        }
        push @packed, pack '(N/a*)*', %kept;
    }
    push @packed, map { pack '(N/a*)*', orphan => $_, deadline => $orphans{$_} } keys %orphans;
    $hooks->{anew}->( pack( '(N/a*)*', @packed ), \@keep, $handler, $environment );
}

1;
