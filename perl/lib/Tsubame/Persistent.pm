package Tsubame::Persistent;

# Mode `persistent`: accepts one connection at a time and serves requests on it, one after the other, in this interpreter.

use strict;
use warnings;
use Errno ();
use Tsubame::Stdio ();
use Tsubame::Carp ();
use Tsubame::Classes ();
use Tsubame::Handover ();
use Tsubame::Run ();
use Tsubame::System ();
use Tsubame::Usage ();

use constant { HANDLER => 1, ENVIRONMENT => 2, INPUT => 3, FINISHED => 7, LONGEST => 1 << 20, PIECE => 1 << 16 };

our $gone;         # the connection is broken: the request is over
our $last    = 0;  # the interpreter ends after this request
our $stop    = 0;  # the server asked it to end

my ( $listener, $connection );
my ( $handler, $environment ) = ( '', '' );    # the payloads of the current request
my $in = '';
my ( $input, $input_end ) = ( '', 1 );
my ( $on_term, $on_pipe );

sub start {
    open $listener, '+<&', \*STDIN or die "no listening socket on descriptor 0: $!\n";
    Tsubame::Stdio::start();
    $on_term = sub { $stop = 1 };
    # Pipes of the script's own must not end the interpreter. A program that it starts gets the default again, because this is
    # a sub and not IGNORE.
    $on_pipe = sub { };
    $SIG{TERM} = $on_term;
    $SIG{PIPE} = $on_pipe;
    resume() if defined $ENV{TSUBAME_RESUME};
    while ( !$stop && !$last ) {
        # A signal that comes just before a system call does not interrupt it, so none here lasts.
        vec( my $ready = '', fileno $listener, 1 ) = 1;
        next if select( $ready, undef, undef, 1 ) < 1;
        if ( accept my $accepted, $listener ) {
            $in = '';
            serve($accepted);
        }
        elsif ( $! != Errno::EINTR ) {
            Tsubame::Stdio::complain("the Perl runtime cannot accept connections: $!\n");
            last;
        }
    }
    end();
}

# END blocks of modules and scripts run now, and whatever a class keeps for the end.
sub end {
    Tsubame::Run::shutdown();
    exit 0;
}

# Serves a connection until the server closes it or the interpreter is to end.
sub serve {
    ($connection) = @_;
    binmode $connection;
    $gone = 0;
    while ( !$stop && !$last && !$gone ) {
        next_request() or last;
        request();
    }
    close $connection;
    undef $connection;
}

sub request {
    my %request = split /\0/, substr( $handler, 0, -1 ), -1;
    clean( \%request ) if ${^TAINT};
    $request{text} = $handler;

    my $outcome = Tsubame::Classes::run( \%request );
    Tsubame::Run::child_ends($outcome) if $Tsubame::Stdio::children && $$ != $Tsubame::Stdio::owner;
    alarm 0;
    # Scripts may set signal handlers and keep them, but not these two.
    my $term = $SIG{TERM};
    $SIG{TERM} = $on_term if !ref $term || $term != $on_term;
    my $pipe = $SIG{PIPE};
    $SIG{PIPE} = $on_pipe if !ref $pipe || $pipe != $on_pipe;
    Tsubame::Stdio::finish($gone);
    if ( !$gone ) {
        $last = 1 if $stop;
        my ( $user, $system ) = Tsubame::Usage::since($Tsubame::Stdio::children);
        my $end = "status\0" . ( $outcome->{status} || 0 ) . "\0user\0$user\0system\0$system\0";
        $end .= "last\0001\0" if $last;
        if ( defined $outcome->{error} ) {
            ( my $error = substr $outcome->{error}, 0, 1000 ) =~ tr/\0\n/  /;
            $error =~ s/\s+\z//;
            utf8::encode($error) if utf8::is_utf8($error);
            $end .= "error\0$error\0";
        }
        $end .= "http\0$outcome->{http}\0" if defined $outcome->{http};
        Tsubame::Stdio::send_out( pack 'N N/a*', FINISHED, $end );
    }
    $Tsubame::Stdio::out = '';
}

# Gives a script its environment, with $more (a list as in ENVIRONMENT) in it. Each assignment to %ENV is one to the process's own
# environment, so what is as it should be is left alone.
sub set_environment {
    my ( $request, $more ) = @_;
    my @list = split /\0/, $environment . $more, -1;
    pop @list;
    if ( defined $request->{setup_env} && $request->{setup_env} eq '0' ) {
        my %all = @list;
        my @kept = ( qw(PATH TZ MOD_PERL MOD_PERL_API_VERSION), repeated( $request, 'env' ) );
        @list = map { exists $all{$_} ? ( $_ => $all{$_} ) : () } @kept;
    }
    if ( !${^TAINT} ) {
        my $index = 0;
        while ( $index < @list ) {
            my $name = $list[ $index++ ];
            $ENV{$name} = $list[$index] if !defined $ENV{$name} || $ENV{$name} ne $list[$index];
            $index++;
        }
        return if 2 * keys %ENV == @list;
    }
    %ENV = @list;
}

# Under -T, what the server says about files can be used.
my @OURS = qw(handler file root group max_runs);

sub clean {
    my ($request) = @_;
    $_ = Tsubame::Handover::clean($_) for grep { defined } @$request{@OURS};
}

# Values of a key that may be repeated in the HANDLER list.
sub repeated {
    my ( $request, $key ) = @_;
    my $list = $request->{list} ||= [ split /\0/, $request->{text}, -1 ];
    my @values = map { $list->[ 2 * $_ + 1 ] } grep { $list->[ 2 * $_ ] eq $key } 0 .. @$list / 2 - 1;
    @values = map { Tsubame::Handover::clean($_) } @values if ${^TAINT} && $key =~ /\A(?:module|require|fixup)\z/;
    return @values;
}

# --- Frames

# Reads up to the next request's HANDLER and ENVIRONMENT; false at the end of the connection. What the script before left of
# its input is skipped.
sub next_request {
    return 1 if $input_end && ( length $in || receive(1) ) && take_whole();
    my $found;
    while (1) {
        my ( $type, $payload ) = frame(1) or return 0;
        if ( $type == HANDLER ) {
            $handler = $payload;
            $found   = 1;
        }
        elsif ( $type == ENVIRONMENT && $found ) {
            $environment = $payload;
            ( $input, $input_end ) = ( '', 0 );
            return 1;
        }
    }
}

# The same for a request of which both have come, as they most often have. False: it is another one, or rubbish.
sub take_whole {
    return 0 if length $in < 8 || length $in > LONGEST;
    my ( $first, $one ) = unpack 'N N/a', $in;
    my $at = 8 + length $one;
    return 0 if length($in) < $at + 8;
    my ( $second, $two, $third, $length ) = unpack 'N N/a N N', substr $in, $at;
    return 0 if !defined $length || $first != HANDLER || $second != ENVIRONMENT;
    ( $handler, $environment, $input ) = ( $one, $two, '' );
    # Without a body its end is there too.
    $input_end = $third == INPUT && !$length;
    substr $in, 0, $at + 8 + length($two) + ( $input_end ? 8 : 0 ), '';
    return 1;
}

# The next frame, or nothing when the connection ends or carries rubbish. An idle interpreter ends on SIGTERM.
sub frame {
    my ($idle) = @_;
    while (1) {
        my $have = length $in;
        if ( $have >= 8 ) {
            my ( $type, $length ) = unpack 'N N', $in;
            if ( $length > LONGEST ) {
                Tsubame::Stdio::complain("rubbish on the connection to the Perl runtime: frame $type of $length bytes\n");
                return;
            }
            if ( $have >= 8 + $length ) {
                my $payload = substr $in, 8, $length;
                substr $in, 0, 8 + $length, '';
                return ( $type, $payload );
            }
        }
        receive($idle) or return;
    }
}

# Reads more of the connection. False at its end, and when an idle interpreter is to end.
sub receive {
    my ($idle) = @_;
    while (1) {
        my $count = sysread $connection, $in, PIECE, length $in;
        return 1 if $count;
        return 0 if defined $count || $! != Errno::EINTR || ( $idle && $stop && !length $in );
    }
}

# Up to $most bytes of the request's body, or undef at its end.
sub input {
    my ($most) = @_;
    while ( !length $input ) {
        return undef if $input_end || $gone;
        my ( $type, $payload ) = frame();
        if ( !defined $type ) {
            # The client's body was cut off: the script must not take it for a whole one.
            $gone = 1;
            Tsubame::Run::leave() if $Tsubame::Run::running;
            return undef;
        }
        next if $type != INPUT;
        $input     = $payload;
        $input_end = !length $payload;
    }
    return substr $input, 0, $most, '';
}

# Writes frames to the connection, without SIGPIPE. False when it is broken.
sub transmit {
    return 0 if $gone || !$connection || $Tsubame::Stdio::children && $$ != $Tsubame::Stdio::owner;
    my ( $done, $length ) = ( 0, length $_[0] );
    while ( $done < $length ) {
        my $count = send $connection, $done ? substr( $_[0], $done ) : $_[0], Tsubame::System::NO_SIGNAL;
        if ( defined $count ) {
            $done += $count;
        }
        elsif ( $! != Errno::EINTR ) {
            $gone = 1;
            return 0;
        }
    }
    return 1;
}

# Nobody wants what the script writes: it ends, as a CGI script does of SIGPIPE, unless it ignores that.
sub nobody_listens {
    my $pipe = $SIG{PIPE};
    Tsubame::Run::leave() if $Tsubame::Run::running && !( defined $pipe && $pipe eq 'IGNORE' );
}

# Writes a text of any length as frames of one type.
sub transmit_pieces {
    my ( $type, $text ) = @_;
    return transmit( join '', map { pack 'N N/a*', $type, $_ } unpack '(a' . LONGEST . ')*', $text );
}

# --- Starting anew, with the request at hand

# Replaces this process by a fresh interpreter which serves the request that has just been read, with more
# switches for perl.
sub start_anew {
    my (@switches) = @_;
    Tsubame::Run::shutdown();
    Tsubame::Stdio::finish(1);
    my $bytes = pack( 'N N/a*', HANDLER, $handler ) . pack( 'N N/a*', ENVIRONMENT, $environment );
    $bytes .= pack 'N N/a*', INPUT, $input if length $input;
    $bytes .= pack 'N N/a*', INPUT, '' if $input_end;
    $bytes .= $in;
    Tsubame::Handover::restart( 'TSUBAME_RESUME', { bytes => $bytes, connection => fileno $connection }, $listener, [$connection], @switches );
}

sub resume {
    my $state = Tsubame::Handover::state('TSUBAME_RESUME');
    open my $accepted, '+<&=', Tsubame::Handover::clean( $state->{connection} ) or die "the connection was lost: $!\n";
    Tsubame::Handover::close_on_exec($accepted);
    $in = $state->{bytes};
    serve($accepted);
}

1;
