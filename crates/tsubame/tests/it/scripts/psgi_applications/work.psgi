# An application without Plack that does what its path says.
use strict;
use warnings;

my $count = 0;
my $kept;
my ($here) = __FILE__ =~ m{\A(.*)/};
print "compiled\n";

sub note { my ($name) = @_; open my $file, '>', "$here/$name" or die "$name: $!"; close $file; return }

sub wait_for { my ($name) = @_; select undef, undef, undef, 0.005 while !-e "$here/$name"; return }

my %work = (
    count => sub { return [ 200, [ 'Content-Type' => 'text/plain' ], [ "$$ ", ++$count ] ] },
    env => sub {
        my ($env) = @_;
        my $body = '';
        1 while $env->{'psgi.input'}->read( $body, 1000, length $body );
        my @names = qw(REQUEST_METHOD SCRIPT_NAME PATH_INFO QUERY_STRING CONTENT_TYPE CONTENT_LENGTH SERVER_PROTOCOL psgi.url_scheme);
        return [ 200, [ 'X-Two' => 1, 'X-Two' => 2 ], [ map { "$_\n" } @$env{@names}, length $body ] ];
    },
    stream => sub {
        return sub {
            my $writer = $_[0]->( [ 200, [ 'Content-Type' => 'text/plain' ] ] );
            $writer->write('first');
            wait_for('go');
            $writer->write('second');
            $writer->close;
        };
    },
    later => sub { return sub { $_[0]->( [ 201, [], ['later'] ] ) } },
    file  => sub { open my $file, '<', "$here/big" or die $!; return [ 200, [ 'Content-Length' => -s $file ], $file ] },
    prints => sub { print "printed\n"; return [ 200, [], ['clean'] ] },
    fails  => sub { die "before the head\n" },
    late   => sub { return sub { my $writer = $_[0]->( [ 200, [] ] ); $writer->write('first'); die "after the head\n" } },
    forgets => sub { return sub { } },
    open    => sub { return sub { $_[0]->( [ 200, [] ] )->write('first') } },
    wide    => sub { return [ 200, [], ["\x{263A}"] ] },
    broken  => sub { return [ 200, [ 'X-A' => "1\r\nX-B: 2" ], [] ] },
    exits   => sub { exit 3 },
    keeps   => sub { return sub { $kept = $_[0]->( [ 200, [] ] ); $kept->write('mine'); $kept->close } },
    steals  => sub { return sub { my $writer = $_[0]->( [ 200, [] ] ); eval { $kept->write('stolen') }; $kept->close; $writer->write( $@ ); $writer->close } },
    interim => sub { return [ 101, [], [] ] },
    last    => sub { my ($env) = @_; $env->{'psgix.harakiri.commit'} = 1; return [ 200, [], [$$] ] },
    cleans  => sub {
        my ($env) = @_;
        push @{ $env->{'psgix.cleanup.handlers'} }, sub { wait_for('go'); note('cleaned') };
        return [ 200, [], ['done'] ];
    },
);

sub {
    my ($env) = @_;
    my ($word) = $env->{PATH_INFO} =~ m{(\w+)\z};
    return $work{$word}->($env);
};
