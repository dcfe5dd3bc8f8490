# APR::Table: names of any case, several values for a name, an object and a hash.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use APR::Table;

my $t = APR::Table::make();
$t->add( 'Set-Cookie' => 'a' );
$t->add( 'set-cookie' => 'b' );
$t->set( Host => 'h' );
is_deeply( [ $t->get('SET-COOKIE') ], [qw(a b)], 'all values in a list' );
is( scalar $t->get('set-cookie'), 'a', 'the first one alone' );
is( $t->get('none'), undef, 'none' );
is( $t->{HOST}, 'h', 'as a hash' );
ok( exists $t->{'set-COOKIE'}, 'exists' );
ok( !exists $t->{none}, 'exists not' );
is( join( '|', keys %$t ), 'Set-Cookie|set-cookie|Host', 'keys with their repetitions and their case' );
my @pairs;
while ( my ( $name, $value ) = each %$t ) { push @pairs, "$name=$value" }
is( "@pairs", 'Set-Cookie=a set-cookie=b Host=h', 'each gives each its value' );
is( $t->{'Set-Cookie'}, 'a', 'and then the first one again' );
$t->set( 'SET-cookie' => 'c' );
is_deeply( [ $t->get('set-cookie') ], ['c'], 'set replaces all' );
$t->{host} = 'other';
is( join( ',', map {"$_=$t->{$_}"} sort keys %$t ), 'SET-cookie=c,host=other', 'and so does an assignment' );
$t->merge( Vary => 'a' );
$t->merge( vary => 'b' );
is( $t->get('Vary'), 'a, b', 'merge' );
is( delete $t->{VARY}, 'a, b', 'delete' );
ok( !exists $t->{Vary}, 'it is gone' );
$t->unset('HOST');
is( $t->get('Host'), undef, 'unset' );

$t->clear;
$t->add(@$_) for [ A => 1 ], [ B => 2 ], [ a => 3 ];
my @seen;
$t->do( sub { push @seen, "$_[0]$_[1]"; 1 } );
is( "@seen", 'A1 B2 a3', 'do' );
@seen = ();
$t->do( sub { push @seen, "$_[0]$_[1]"; 1 }, 'A' );
is( "@seen", 'A1 a3', 'do for one name' );
@seen = ();
$t->do( sub { push @seen, $_[0]; 0 } );
is( "@seen", 'A', 'do ends at a false value' );

my $copy = $t->copy;
$copy->set( A => 9 );
is( scalar $t->get('A'), 1, 'a copy is apart' );
my $over = APR::Table::make();
$over->set( C => 5 );
is( join( '', $t->overlay($over)->get('C') ), 5, 'overlay' );
is( join( ',', $t->overlay($over)->get('a') ), '1,3', 'overlay keeps what was there' );
$t->overlap( $over, 0 );
is( $t->get('c'), 5, 'overlap' );
$t->compress(1);
is( $t->get('a'), '1, 3', 'compress' );
%$t = ();
is( scalar keys %$t, 0, 'empty' );
ok( !%$t, 'and false' );

done_testing;
