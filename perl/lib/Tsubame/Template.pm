package Tsubame::Template;

# The process that has compiled a script and forks for each request. Perl itself compiles the script as its main program: this
# module is loaded before, by a switch, and its INIT block runs when all is compiled and nothing has run yet. That block
# returns in the forked children alone, and so the main program, with BEGIN and use behind it, runs there as in CGI.
# The template passes input and output between the server and the children, which see plain pipes.

use strict;
use warnings;
use Fcntl ();
use IO::Handle ();
use POSIX ();
use Time::HiRes ();
use Tsubame::Launch ();
use Tsubame::Handover ();
use Tsubame::Pump ();
use Tsubame::Usage ();

our $state;
our $phase = 'compiling';    # then `serving`, or `failed`, or `child`
my ( $listener, $null, $log, $said, $complained );
my ( $handler, $environment, $file );
my %files;
my $began;
my $asked = 0;    # requests so far

start();

sub start {
    $state = Tsubame::Handover::state('TSUBAME_TEMPLATE');
    ( $handler, $environment ) = @$state{qw(handler environment)};
    $Tsubame::Launch::given = [ map { Tsubame::Handover::clean($_) } unpack '(N/a*)*', $state->{given} ];
    my %request = Tsubame::Launch::list($handler);
    $file = Tsubame::Handover::clean( $request{file} );
    $0 = $file if $0 ne $file;
    open $listener, '+<&', \*STDIN or die "no listening socket on descriptor 0: $!\n";
    $listener->blocking(0);
    open $null, '+<', '/dev/null' or die "cannot open /dev/null: $!\n";
    open $log, '>&', \*STDERR or die "cannot keep standard error: $!\n";
    POSIX::dup2( fileno $null, 0 );
    Tsubame::Pump::restore( $listener, $state->{connections} );
    # What the script says while it is compiled belongs to the answer, and to the request's error log.
    open $said,       '+>', undef or die "cannot write a temporary file: $!\n";
    open $complained, '+>', undef or die "cannot write a temporary file: $!\n";
    POSIX::dup2( fileno $said,       1 );
    POSIX::dup2( fileno $complained, 2 );
    $began = Time::HiRes::time();
    %ENV = Tsubame::Launch::list($environment);
    load_modules($handler);
}

sub load_modules {
    my @list = Tsubame::Launch::list( $_[0] );
    while ( my ( $key, $value ) = splice @list, 0, 2 ) {
        next if $key ne 'module' && $key ne 'require';
        my $name = Tsubame::Handover::clean($value);
        if ( $key eq 'module' ) {
            $name =~ s{::}{/}g;
            $name .= '.pm';
        }
        require $name;
    }
}

INIT {
    compiled();
}

END {
    # The script did not compile, or a BEGIN block has ended the program.
    not_compiled($?) if $phase eq 'compiling';
}

sub compiled {
    my ( $output, $errors ) = what_was_said();
    $phase = 'serving';
    %files = ();
    for my $loaded ( $file, map { defined $_ && !ref $_ ? $_ : () } values %INC ) {
        next if $loaded =~ m{\Atsubame/};
        my @stat = Time::HiRes::stat($loaded);
        next if !@stat && $loaded !~ m{\A/} && $loaded ne $file;
        # What was changed during the compilation may be compiled half old and half new.
        $files{$loaded} = @stat && $stat[9] < $began ? "@stat[0, 1, 7, 9]" : '';
    }
    delete $files{'/proc/self/fd/3'};
    Tsubame::Pump::run(
        {
            greeting => $output,
            errors   => $errors,
            stale    => \&stale,
            anew     => \&anew,
            child    => \&child,
        }
    );
}

# Serves the one request that wanted the script with the error; the next one tries again.
sub not_compiled {
    my ($status) = @_;
    my ( $output, $errors ) = what_was_said();
    $phase = 'failed';
    my ($reason) = $errors =~ /\A([^\n]+)/;
    my %failure = ( output => $output, errors => $errors, status => $status >> 8 || $status );
    if ($status) {
        $failure{error} = defined $reason ? $reason : "the script ended with status $failure{status} while it was compiled";
    }
    eval {
        Tsubame::Pump::run( { failure => \%failure, anew => \&anew } );
    };
    print {$log} $@ if $@;
    POSIX::_exit(1);
}

# Puts the descriptors 1 and 2 back. Returns what was written to them.
sub what_was_said {
    STDOUT->flush;
    STDERR->flush;
    POSIX::dup2( fileno $null, 1 );
    POSIX::dup2( fileno $log,  2 );
    return map {
        seek $_, 0, 0;
        local $/;
        my $text = <$_>;
        close $_;
        defined $text ? $text : '';
    } $said, $complained;
}

# Whether the request asks for something else than what is compiled here.
sub stale {
    my ($request) = @_;
    return 1 if $request->{file} ne $file;
    # The request that it was compiled for is served in any case: some scripts write a file anew each time they are compiled.
    return 0 if !$asked++;
    for my $loaded ( keys %files ) {
        my @stat = Time::HiRes::stat($loaded);
        return 1 if !@stat || "@stat[0, 1, 7, 9]" ne $files{$loaded};
    }
    return 0;
}

# Becomes a fresh template with the connections as they are.
sub anew {
    my ( $connections, $keep, $wanted_handler, $wanted_environment ) = @_;
    $listener->blocking(1);
    POSIX::dup2( fileno $log, 2 );
    Tsubame::Launch::become( { connections => $connections }, $wanted_handler, $wanted_environment, $listener, $keep );
}

# The forked process gets ready to be a CGI script.
sub child {
    my ( $request, $variables, $in, $out, $err ) = @_;
    $phase = 'child';
    POSIX::dup2( fileno( $in || $null ), 0 );
    POSIX::dup2( fileno $out, 1 );
    POSIX::dup2( fileno $err, 2 );
    close $_ for grep { defined } $listener, $null, $log, $in, $out, $err;
    %ENV  = @$variables;
    @ARGV = Tsubame::Classes::words( $request->{args} );
    $^T   = time;
    srand;
    $! = 0;
    reopen($_) for 'main', map { /\A(.+)\.pm\z/ ? join '::', split m{/}, $1 : () } keys %INC;
}

# A DATA handle that is shared between processes has one position for all of them: the child gets its own.
sub reopen {
    my ($package) = @_;
    no strict 'refs';
    return if !defined *{"${package}::DATA"}{IO};
    my $handle = \*{"${package}::DATA"};
    my $number = fileno $handle;
    return if !defined $number || $number < 0;
    my $at   = tell $handle;
    my $utf8 = grep { $_ eq 'utf8' } PerlIO::get_layers($handle);
    open my $own, '<', "/proc/self/fd/$number" or return;
    open $handle, '<&', $own or return;
    binmode $handle, ':utf8' if $utf8;
    seek $handle, $at, 0;
}

1;
