package Driver;

# Plays the server for the Perl runtime: starts it as the server does and talks to it over its socket.

use strict;
use warnings;
use Exporter 'import';
use File::Find ();
use File::Path ();
use File::Temp ();
use IO::Socket::UNIX ();
use IO::Select ();
use POSIX ();
use Socket qw(SOCK_STREAM);
use Time::HiRes ();

our @EXPORT_OK = qw(runtime script site slurp need_cgi);

use constant PATIENCE => 20;

my ($here) = __FILE__ =~ m{\A(.*)/t/lib/Driver\.pm\z};
$here = "$ENV{PWD}/$here" if $here !~ m{\A/};

# A directory for the scripts of one test.
my $site = File::Temp->newdir( 'tsubame-perl-XXXXXX', TMPDIR => 1 );
sub site { return "$site" }

# Writes a script; returns its path.
sub script {
    my ( $name, $text ) = @_;
    my $path = "$site/$name";
    my ($directory) = $path =~ m{(.*)/};
    File::Path::make_path($directory);
    open my $file, '>', "$path.new" or die "$path: $!";
    print {$file} $text;
    close $file or die "$path: $!";
    chmod 0755, "$path.new";
    rename "$path.new", $path or die "$path: $!";
    return $path;
}

sub slurp {
    my ($path) = @_;
    open my $file, '<', $path or return undef;
    local $/;
    return scalar <$file>;
}

# A test of CGI.pm is left out where it is not installed, but never where everything is to be tested.
sub need_cgi {
    return 1 if eval { require CGI; 1 };
    die "CGI.pm is missing: install libcgi-pm-perl\n" if $ENV{CI};
    require Test::More;
    Test::More::plan( skip_all => 'CGI.pm is not installed (libcgi-pm-perl)' );
}

# The text that the server gives perl: all modules in a table, then runtime.pl.
sub bundle {
    my $text = "BEGIN {\npackage Tsubame::Bundle;\nour %text;\n";
    my @names;
    File::Find::find( { no_chdir => 1, wanted => sub { push @names, $_ if /\.pm\z/ } }, "$here/lib" );
    for my $path ( sort @names ) {
        my $name = substr $path, length "$here/lib/";
        $text .= "\$text{'$name'} = <<'TSUBAME_END_OF_FILE';\n" . slurp($path) . "TSUBAME_END_OF_FILE\n";
    }
    return $text . "}\n#line 1 \"tsubame/runtime.pl\"\n" . slurp("$here/runtime.pl");
}

# A text that was made by somebody else can be given, to be tried as it is.
my $bundle = $ENV{PERL_BUNDLE};

# Starts a runtime: mode, switches for perl, environment.
sub runtime {
    my ( $mode, %options ) = @_;
    if ( !$bundle ) {
        $bundle = "$site/runtime";
        open my $file, '>', $bundle or die;
        print {$file} bundle();
        close $file;
    }
    my $self = bless { socket => "$site/s" . int rand 1e9, log => "$site/log" . int rand 1e9, mode => $mode }, __PACKAGE__;
    my $listener = IO::Socket::UNIX->new( Local => $self->{socket}, Listen => 100, Type => SOCK_STREAM ) or die "socket: $!";
    my $pid = fork // die;
    if ( !$pid ) {
        my $code  = POSIX::open( $bundle, POSIX::O_RDONLY() );
        my $log   = POSIX::open( $self->{log}, POSIX::O_WRONLY() | POSIX::O_CREAT() | POSIX::O_APPEND(), 0600 );
        my $null  = POSIX::open( '/dev/null', POSIX::O_WRONLY() );
        my $entry = fileno $listener;
        # Out of the way first: the numbers wanted may be in use.
        ( $code, $log, $null, $entry ) = map { my $high = 200 + $_; POSIX::dup2( $_, $high ); $high } $code, $log, $null, $entry;
        POSIX::dup2( $entry, 0 );
        POSIX::dup2( $null,  1 );
        POSIX::dup2( $log,   2 );
        POSIX::dup2( $code,  3 );
        POSIX::close($_) for 4 .. 250;
        %ENV = ( PATH => $ENV{PATH}, %{ $options{env} || {} } );
        exec $^X, @{ $options{switches} || [] }, '/proc/self/fd/3', $mode or POSIX::_exit(127);
    }
    close $listener;
    $self->{pid} = $pid;
    return $self;
}

sub connection {
    my ($self) = @_;
    my $socket = IO::Socket::UNIX->new( Peer => $self->{socket}, Type => SOCK_STREAM ) or die "connect: $!";
    return $socket;
}

sub frame { return pack 'N N/a*', @_ }

sub list { return join '', map {"$_\0"} @_ }

# The frames of a request. Options: handler, file, query, body (a string or a list of pieces, or undef for an open end),
# method, environment, and whatever belongs into the HANDLER list.
sub frames {
    my (%o) = @_;
    my $body = exists $o{body} ? $o{body} : '';
    my @pieces = ref $body ? @$body : defined $body && length $body ? $body : ();
    my $name = defined $o{file} ? ( $o{file} =~ m{([^/]*)\z} )[0] : 'handler';
    my $query = defined $o{query} ? $o{query} : '';
    my %environment = (
        PATH => $ENV{PATH}, GATEWAY_INTERFACE => 'CGI/1.1', SERVER_PROTOCOL => 'HTTP/1.1', SERVER_NAME => 'localhost', SERVER_PORT => 80,
        REQUEST_METHOD => $o{method} || 'GET', QUERY_STRING => $query, SCRIPT_NAME => "/$name", SCRIPT_FILENAME => $o{file} // '', REMOTE_ADDR => '127.0.0.1',
        REQUEST_URI => "/$name" . ( length $query ? "?$query" : '' ),
        @pieces ? ( CONTENT_LENGTH => length join( '', @pieces ), CONTENT_TYPE => 'application/x-www-form-urlencoded' ) : (),
        %{ $o{environment} || {} },
    );
    my @handler = (
        handler => $o{handler} || 'ModPerl::Registry', file => $o{file} // '', uri => "/$name", unparsed_uri => $environment{REQUEST_URI},
        method => $environment{REQUEST_METHOD}, protocol => 'HTTP/1.1', args => $query, path_info => $environment{PATH_INFO} // '',
        root => $o{root} || '/', parse_headers => exists $o{parse_headers} ? $o{parse_headers} : 1, setup_env => 1, server_name => 'localhost', port => 80,
        remote_ip => '127.0.0.1', server_admin => 'you@localhost',
        map { my $key = $_; map { ( $key => $_ ) } ref $o{list}{$key} ? @{ $o{list}{$key} } : $o{list}{$key} } sort keys %{ $o{list} || {} },
    );
    my $text = frame( 1, list(@handler) ) . frame( 2, list(%environment) );
    $text .= frame( 3, $_ ) for @pieces;
    $text .= frame( 3, '' ) if exists $o{body} ? defined $o{body} : 1;
    return $text;
}

# Sends a request on a connection of its own that stays open for the next one, and returns the answer.
sub ask {
    my ( $self, %o ) = @_;
    $self->{connection} = $self->connection if !$self->{connection};
    send_all( $self->{connection}, frames(%o) );
    my $answer = answer( $self->{connection} );
    delete $self->{connection} if !$answer->{end} || $answer->{end}{last};
    return $answer;
}

sub send_all {
    my ( $socket, $data ) = @_;
    local $SIG{PIPE} = 'IGNORE';
    while ( length $data ) {
        my $count = syswrite $socket, $data or return 0;
        substr $data, 0, $count, '';
    }
    return 1;
}

# Everything up to END: { out, err, log => [[level, text]...], end => {...} }; without `end` when the connection was closed.
sub answer {
    my ( $socket, $until ) = @_;
    my %answer = ( out => '', err => '', log => [], frames => 0 );
    my $in       = '';
    my $deadline = Time::HiRes::time() + PATIENCE;
    my $select   = IO::Select->new($socket);
    while (1) {
        while ( length $in >= 8 && length $in >= 8 + unpack 'x4 N', $in ) {
            my ( $type, $payload ) = unpack 'N N/a*', $in;
            substr $in, 0, 8 + length $payload, '';
            $answer{frames}++;
            if    ( $type == 4 ) { $answer{out} .= $payload }
            elsif ( $type == 5 ) { $answer{err} .= $payload }
            elsif ( $type == 6 ) { my @line = split /\0/, $payload, -1; pop @line; my %line = @line; push @{ $answer{log} }, [ @line{qw(level text)} ] }
            elsif ( $type == 7 ) {
                my @list = split /\0/, $payload, -1;
                pop @list;
                $answer{end} = {@list};
                die 'bytes behind END' if length $in;
                return \%answer;
            }
            else { die "frame of type $type" }
            return \%answer if defined $until && $answer{out} =~ $until;
        }
        die "no answer in time; so far: $answer{out} $answer{err}" if !$select->can_read( $deadline - Time::HiRes::time() );
        my $count = sysread $socket, $in, 65536, length $in;
        return \%answer if !$count;
    }
}

# The body that a script printed behind its header.
sub body {
    my ( $self, %o ) = @_;
    my $answer = $self->ask(%o);
    return "END missing; $answer->{err}; " . $self->complaints if !$answer->{end};
    return "error: $answer->{end}{error}; $answer->{err}" if defined $answer->{end}{error};
    return $answer->{out} =~ /\A.*?\r?\n\r?\n(.*)\z/s ? $1 : $answer->{out};
}

# What was written to standard error outside of requests.
sub complaints { return slurp( $_[0]{log} ) // '' }

# Closes the connection, asks the runtime to end and returns its exit status.
sub stop {
    my ($self) = @_;
    return $self->{exit} if defined $self->{exit};
    delete $self->{connection};
    kill TERM => $self->{pid};
    return $self->wait_for_end;
}

sub wait_for_end {
    my ($self) = @_;
    local $SIG{ALRM} = sub { kill KILL => $self->{pid}; die "the runtime does not end\n" };
    alarm PATIENCE;
    waitpid $self->{pid}, 0;
    alarm 0;
    return $self->{exit} = $?;
}

sub DESTROY {
    my ($self) = @_;
    return if !$self->{pid} || defined $self->{exit};
    local $?;
    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;
}

1;
