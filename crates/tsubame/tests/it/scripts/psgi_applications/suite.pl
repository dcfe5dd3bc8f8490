# Asks a server what Plack's own suite asks: its address and port are the arguments. The server runs suite.psgi at its root.
use strict;
use warnings;
use Test::More;
use Plack::LWPish;
use Plack::Test::Suite;

my ( $host, $port ) = @ARGV;
my $agent = Plack::LWPish->new( no_proxy => [$host] );
for my $index ( 0 .. $#Plack::Test::Suite::TEST ) {
    my ( $name, $client ) = @{ $Plack::Test::Suite::TEST[$index] };
    subtest $name => sub {
        $client->(
            sub {
                my ($request) = @_;
                $request->uri->host($host);
                $request->uri->port($port);
                $request->header( 'X-Plack-Test' => $index );
                return $agent->request($request);
            }
        );
    };
}
done_testing;
