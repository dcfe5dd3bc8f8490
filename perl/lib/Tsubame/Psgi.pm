package Tsubame::Psgi;

# Applications with the interface of PSGI 1.1 (https://github.com/plack/psgi-specs). They need not have Plack.

use strict;
use warnings;
use Errno ();
use IO::Handle ();
use Tsubame::Run ();
use Tsubame::Classes ();

use constant PIECE => 1 << 16;

my %applications;

sub run {
    my ($request) = @_;
    my $file = $request->{file};
    Tsubame::Persistent::set_environment( $request, '' );
    Tsubame::Stdio::begin();
    @ARGV = ();
    $0 = $file if $0 ne $file;
    my $outcome = {};
    my @stat = stat $file;
    if ( !@stat ) {
        $outcome->{http} = $!{ENOENT} || $!{ENOTDIR} ? 404 : 403;
        return failed( $outcome, "cannot read $file: $!\n" );
    }
    my $identity    = "@stat[0, 1, 7, 9]";
    my $application = $applications{$file};
    # Nothing of the old application may stay, so the interpreter starts anew with this request.
    Tsubame::Persistent::start_anew() if $application && $application->{identity} ne $identity;
    if ( !$application ) {
        my $code = Tsubame::Run::call( \&load, $file );
        return failed( $outcome, $@ ne '' ? $@ : "$file has called exit\n" ) if $@ || !$code;
        $application = $applications{$file} = { identity => $identity, code => $code };
    }
    my $env = environment($request);
    # The response on its way: whether its head is sent, whether that was all, and whether it is too late for more.
    my $response = {};
    Tsubame::Run::call( sub { local *STDOUT = *STDERR; answer( $response, $application->{code}->($env) ) } );
    my $error = $@;
    $response->{over} = 1;
    $outcome->{status} = $Tsubame::Run::status;
    return $outcome if $Tsubame::Stdio::children && $$ != $Tsubame::Stdio::owner;
    if ( $error ne '' ) {
        failed( $outcome, $error );
    }
    elsif ( !$response->{closed} ) {
        failed( $outcome, $response->{begun} ? "$file has not ended its response\n" : "$file has made no response\n" );
    }
    my @handlers = @{ $env->{'psgix.cleanup.handlers'} };
    Tsubame::Run::cleanup( map { [ $_, $env ] } @handlers ) if @handlers || @Tsubame::Run::cleanups;
    $Tsubame::Persistent::last = 1 if $env->{'psgix.harakiri.commit'};
    return $outcome;
}

sub failed {
    my ( $outcome, $error ) = @_;
    # Of a response that nobody has seen yet, nobody need see the beginning.
    Tsubame::Stdio::discard() if !$Tsubame::Stdio::sent;
    $outcome->{error} = $outcome->{message} = Tsubame::Run::message($error);
    print STDERR $outcome->{message} if $$ == $Tsubame::Stdio::owner;
    return $outcome;
}

# The code that a file returns.
sub load {
    my ($file) = @_;
    local $ENV{PLACK_ENV} = defined $ENV{PLACK_ENV} ? $ENV{PLACK_ENV} : 'deployment';
    # What an application prints is no part of its response.
    local *STDOUT = *STDERR;
    local ( $@, $! );
    my $code = do $file;
    if ( !defined $code ) {
        die $@ if $@ ne '';
        die "cannot read $file: $!\n" if $!;
    }
    # Plack::Component and its relatives are objects.
    $code = $code->to_app if ref $code && ref $code ne 'CODE' && eval { $code->can('to_app') };
    die "$file does not end with the code of an application\n" if !is_code($code);
    return $code;
}

sub is_code {
    my ($value) = @_;
    return ref $value eq 'CODE' || ref $value && eval { my $code = \&$value; 1 };
}

sub environment {
    my ($request) = @_;
    my %env = (
        %ENV,
        'psgi.version'           => [ 1, 1 ],
        'psgi.url_scheme'        => ( $ENV{REQUEST_SCHEME} || 'http' ) eq 'https' ? 'https' : 'http',
        'psgi.input'             => Tsubame::Stdio::handle_in(),
        'psgi.errors'            => \*STDERR,
        'psgi.multithread'       => '',
        'psgi.multiprocess'      => 1,
        'psgi.run_once'          => '',
        'psgi.nonblocking'       => '',
        'psgi.streaming'         => 1,
        'psgix.harakiri'         => 1,
        'psgix.cleanup'          => 1,
        'psgix.cleanup.handlers' => [],
    );
    for my $name (qw(SCRIPT_NAME PATH_INFO QUERY_STRING)) {
        $env{$name} = '' if !defined $env{$name};
    }
    # An application at the root has no name, and its path begins with the slash.
    if ( $env{SCRIPT_NAME} eq '/' ) {
        $env{SCRIPT_NAME} = '';
        $env{PATH_INFO}   = "/$env{PATH_INFO}" if $env{PATH_INFO} !~ m{\A/};
    }
    my $raw = raw_path( $request, $env{SCRIPT_NAME} );
    if ( defined $raw && merged($raw) eq $env{PATH_INFO} ) {
        $env{PATH_INFO} = $raw;
    }
    return \%env;
}

# The path behind the name of the application as the client has sent it, with slashes that the server has merged.
sub raw_path {
    my ( $request, $name ) = @_;
    my ($path) = $request->{unparsed_uri} =~ m{\A([^?#]*)};
    $path =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
    return index( $path, $name ) == 0 ? substr $path, length $name : undef;
}

sub merged {
    my ($path) = @_;
    $path =~ s{/+}{/}g;
    return $path;
}

# Sends what an application has returned.
sub answer {
    my ( $response, $answer ) = @_;
    if ( ref $answer eq 'CODE' ) {
        $answer->( sub { return respond( $response, @_ ) } );
    }
    else {
        respond( $response, $answer );
    }
}

# Sends a response. Without a body, returns an object that takes it.
sub respond {
    my ( $response, $answer ) = @_;
    die "the request is over\n" if $response->{over};
    die "the response is no array of two or three elements\n" if ref $answer ne 'ARRAY' || @$answer < 2 || @$answer > 3;
    die "there is a response already\n" if $response->{begun};
    my ( $status, $fields, $body ) = @$answer;
    die "the status is no number from 200 to 599\n" if !defined $status || $status !~ /\A[2-5][0-9][0-9]\z/;
    die "the fields are no array of pairs\n" if ref $fields ne 'ARRAY' || @$fields % 2;
    my ( $head, $told ) = ( "Status: $status\r\n", $status == 204 || $status == 304 );
    for my $index ( grep { $_ % 2 == 0 } 0 .. $#$fields ) {
        my ( $name, $value ) = @$fields[ $index, $index + 1 ];
        $value = '' if !defined $value;
        die "a field cannot be sent: $name\n" if "$name$value" =~ /[\0\r\n]/ || $name !~ /\A[^\s:]+\z/;
        $head .= "$name: $value\r\n";
        $told = 1 if lc $name eq 'content-length';
    }
    # Nobody need wait for what the application does after that.
    if ( !$told && ref $body eq 'ARRAY' && $ENV{REQUEST_METHOD} ne 'HEAD' ) {
        my $length = 0;
        $length += length for grep { defined } @$body;
        $head .= "Content-Length: $length\r\n";
    }
    $response->{begun} = 1;
    put( $head, "\r\n" );
    if ( @$answer == 2 ) {
        return bless { response => $response }, 'Tsubame::Psgi::Writer';
    }
    if ( ref $body eq 'ARRAY' ) {
        put( grep { defined } @$body );
    }
    elsif ( defined $body ) {
        local $/ = \( PIECE + 0 );
        while ( defined( my $piece = $body->getline ) ) {
            put($piece);
        }
        $body->close;
    }
    $response->{closed} = 1;
    return;
}

sub put {
    local ( $,, $\ );
    my $handle = Tsubame::Stdio::handle_out();
    for my $piece (@_) {
        die "the body has characters that are no bytes\n" if utf8::is_utf8($piece) && !utf8::downgrade( $piece, 1 );
        print {$handle} $piece;
    }
}

package Tsubame::Psgi::Writer;

# Takes the body of a response in pieces.

sub write {
    my ( $self, $data ) = @_;
    die "the response is over\n" if $self->{response}{over} || $self->{response}{closed};
    Tsubame::Psgi::put($data);
    Tsubame::Stdio::flush();
    return;
}

sub close {
    my ($self) = @_;
    $self->{response}{closed} = 1;
    return;
}

1;
