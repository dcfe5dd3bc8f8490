# What goes wrong: connections that break, rubbish, scripts that end in odd ways, and what must not be seen by the next request.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Driver qw(runtime script site slurp);
use IO::Select;
use Test::More;

my $HEAD    = q{print "Content-Type: text/plain\n\n";};
my @CLASSES = qw(ModPerl::Registry ModPerl::PerlRun Speedy Fork);

sub wait_for {
    my ($what) = @_;
    my $deadline = time + 20;
    until ( $what->() ) {
        return 0 if time > $deadline;
        select undef, undef, undef, 0.01;
    }
    return 1;
}

# The connection is at its end.
sub is_closed {
    my ($socket) = @_;
    return IO::Select->new($socket)->can_read(20) && !sysread $socket, my $rest, 1;
}

for my $class (@CLASSES) {
    my $fork    = $class eq 'Fork';
    my $runtime = runtime( $fork ? 'fork' : 'persistent' );
    my $well    = script( "$class/well.pl", "$HEAD print 'well';" );
    my $is_well = sub { is( $runtime->body( handler => $class, file => $well ), 'well', "$class: $_[0]" ) };
    $is_well->('in the beginning');

    # Connections
    for my $rubbish ( "GET / HTTP/1.0\r\n\r\n", pack( 'N N', 1, 1 << 21 ), "\xff" x 100 ) {
        delete $runtime->{connection};
        my $connection = $runtime->connection;
        Driver::send_all( $connection, $rubbish );
        ok( is_closed($connection), "$class: rubbish ends the connection" );
        $is_well->('behind rubbish');
    }
    delete $runtime->{connection};
    my $half = $runtime->connection;
    Driver::send_all( $half, substr Driver::frames( handler => $class, file => $well ), 0, 100 );
    close $half;
    $is_well->('behind half a request');
    delete $runtime->{connection};
    close $runtime->connection;
    $is_well->('behind a connection without a request');
    $runtime->{connection} ||= $runtime->connection;
    Driver::send_all( $runtime->{connection}, Driver::frame( 999, 'unknown' ) . Driver::frame( 3, 'late' ) . Driver::frame( 3, '' ) );
    $is_well->('behind frames that mean nothing');
    delete $runtime->{connection};
    my $bytes = $runtime->connection;
    for my $byte ( split //, Driver::frames( handler => $class, file => $well, body => 'abc' ) ) { Driver::send_all( $bytes, $byte ) }
    like( Driver::answer($bytes)->{out}, qr/well/, "$class: byte by byte" );
    close $bytes;

    # The server goes away while the script reads, prints, and works
    my $mark = site() . "/$class/mark";
    my $reading = $runtime->connection;
    Driver::send_all( $reading, Driver::frames( handler => $class, file => script( "$class/reading.pl", "$HEAD \$| = 1; print 'x'; my \@all = <STDIN>; open my \$f, '>', '$mark.read'; print \$f 'read';" ), body => undef ) . Driver::frame( 3, 'half' ) );
    Driver::answer( $reading, qr/x/ );
    close $reading;
    $is_well->('behind a body that was cut off');
    ok( !-e "$mark.read", "$class: the script has not taken it for a whole one" ) if !$fork;
    my $printing = $runtime->connection;
    delete $runtime->{connection};
    Driver::send_all( $printing, Driver::frames( handler => $class, file => script( "$class/printing.pl", "$HEAD \$| = 1; while (1) { print 'x' x 10_000 } END { }" ) ) );
    Driver::answer( $printing, qr/xxx/ );
    close $printing;
    $is_well->('behind a script that prints without end');

    # Streams
    my $gate = site() . "/$class/gate";
    my $stream = $runtime->connection;
    delete $runtime->{connection};
    Driver::send_all( $stream, Driver::frames( handler => $class, file => script( "$class/stream.pl", "$HEAD \$| = 1; print 'first'; select undef, undef, undef, 0.01 until -e '$gate'; print 'second'; \$| = 0;" ) ) );
    like( Driver::answer( $stream, qr/first/ )->{out}, qr/first\z/, "$class: what is flushed comes at once" );
    script( "$class/gate", '' );
    like( Driver::answer($stream)->{out}, qr/\Asecond\z/, "$class: the rest comes later" );
    close $stream;

    # Scripts that end the process
    if ( !$fork ) {
        for my $end ( 'kill KILL => $$; sleep 5', 'POSIX::_exit(3)', 'CORE::exit(3)' ) {
            my $other  = runtime('persistent');
            my $answer = $other->ask( handler => $class, file => script( "$class/ends.pl", "use POSIX (); $HEAD print 'x'; $end;" ) );
            is( $answer->{end}, undef, "$class: $end ends the connection" );
            $other->wait_for_end;
            is( $other->complaints, '', "$class: without a word" );
        }
    }
    # A daemon of the script does not hold the request
    my $daemon = $runtime->ask( handler => $class, file => script( "$class/daemon.pl", "use POSIX (); $HEAD \$| = 1; print 'x'; my \$pid = fork; if (!\$pid) { close STDIN; close STDOUT; close STDERR; POSIX::close(\$_) for 0 .. 2; setpgrp; select undef, undef, undef, 0.01 until -e '$mark.daemon'; POSIX::_exit(0) }" ) );
    like( $daemon->{out}, qr/x\z/, "$class: a daemon that closes its handles holds nothing up" );
    $is_well->('beside the daemon');
    script( "$class/mark.daemon", '' );
    if ( !$fork ) {
        my $late = $runtime->ask( handler => $class, file => script( "$class/late.pl", "use POSIX (); $HEAD print 'x'; if (!fork) { select undef, undef, undef, 0.01 until -e '$mark.late'; syswrite STDOUT, 'late'; open my \$f, '>', '$mark.said'; close \$f; POSIX::_exit(0) }" ) );
        like( $late->{out}, qr/x\z/, "$class: a child that stays" );
        my $next = $runtime->connection;
        delete $runtime->{connection};
        Driver::send_all( $next, Driver::frames( handler => $class, file => script( "$class/beside.pl", "$HEAD open my \$f, '>', '$mark.late'; close \$f; select undef, undef, undef, 0.01 until -e '$mark.said'; print 'mine';" ) ) );
        like( Driver::answer($next)->{out}, qr/\n\nmine\z/, "$class: what it prints later does not come into another answer" );
        close $next;
    }

    # Signals
    if ( !$fork ) {
        my $busy = $runtime->connection;
        delete $runtime->{connection};
        Driver::send_all( $busy, Driver::frames( handler => $class, file => script( "$class/busy.pl", "$HEAD \$| = 1; print 'begun'; select undef, undef, undef, 0.01 until -e '$mark.go'; print 'done';" ) ) );
        Driver::answer( $busy, qr/begun/ );
        kill TERM => $runtime->{pid};
        script( "$class/mark.go", '' );
        my $answer = Driver::answer($busy);
        is( $answer->{out}, 'done', "$class: SIGTERM lets the request end" );
        is( $answer->{end}{last}, 1, "$class: and says that it was the last one" );
        is( $runtime->wait_for_end, 0, "$class: then the interpreter ends" );
        $runtime = runtime('persistent');
        is( $runtime->body( handler => $class, file => script( "$class/term.pl", "$HEAD \$SIG{TERM} = 'IGNORE'; \$SIG{PIPE} = 'IGNORE'; print 'x';" ) ), 'x', "$class: a script that ignores SIGTERM" );
        is( $runtime->stop, 0, "$class: cannot keep the interpreter from ending" );
        $runtime = runtime('persistent');
        is( $runtime->body( handler => $class, file => script( "$class/pipe.pl", "$HEAD open my \$p, '|-', 'true'; select undef, undef, undef, 0.1; { local \$SIG{PIPE} = 'IGNORE'; print \$p 'x' x 100_000; close \$p; } print 'x', `yes | head -1`;" ) ), "xy\n", "$class: SIGPIPE of others" );
    }
    else {
        my $busy = $runtime->connection;
        delete $runtime->{connection};
        Driver::send_all( $busy, Driver::frames( handler => $class, file => script( "$class/busy.pl", "$HEAD \$| = 1; print 'begun'; select undef, undef, undef, 0.01 until -e '$mark.go'; print 'done';" ) ) );
        Driver::answer( $busy, qr/begun/ );
        kill TERM => $runtime->{pid};
        script( "$class/mark.go", '' );
        my $answer = Driver::answer($busy);
        is( $answer->{out}, 'done', "$class: SIGTERM lets the request end" );
        is( $answer->{end}{last}, 1, "$class: and says that it was the last one" );
        is( $runtime->wait_for_end, 0, "$class: then the template ends" );
    }
    unlike( $runtime->complaints, qr/tsubame\//, "$class: the runtime has no errors of its own" );
}

# The idle runtime
{
    my $runtime = runtime('persistent');
    # It ends by the signal itself while perl is still starting.
    like( $runtime->stop, qr/\A(?:0|15)\z/, 'a runtime that has served nothing ends' );
    my $fork = runtime('fork');
    close $fork->connection;
    like( $fork->stop, qr/\A(?:0|15)\z/, 'and so does one that waits for its first request' );
    my $odd = runtime('odd');
    isnt( $odd->wait_for_end, 0, 'an unknown mode' );
    like( $odd->complaints, qr/knows the modes persistent and fork, not odd/, 'is named' );
}

# A thousand requests leave nothing behind
{
    my $runtime = runtime('persistent');
    my $file = script( 'leak.pl', "$HEAD system 'true'; open STDERR, '>&', STDOUT; print STDERR <STDIN>; binmode STDOUT, ':utf8';" );
    my $count = sub { opendir my $d, "/proc/$runtime->{pid}/fd" or return 0; scalar grep { !/^\./ } readdir $d };
    my @counts;
    for ( 1 .. 30 ) {
        is( $runtime->body( file => $file, method => 'POST', body => "b$_" ), "b$_", "request $_" );
        push @counts, $count->();
    }
    is( $counts[-1], $counts[2], 'descriptors do not leak' );
}

done_testing;
