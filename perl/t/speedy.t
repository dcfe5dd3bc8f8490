# SpeedyCGI: whole programs that run again and again.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Driver qw(runtime script site slurp);
use Test::More;

my $HEAD = q{print "Content-Type: text/plain\n\n";};

sub speedy {
    my ( $runtime, $name, $text, %o ) = @_;
    my $file = defined $text ? script( "speedy/$name", $text ) : site() . "/speedy/$name";
    return $runtime->body( handler => 'Speedy', file => $file, %o );
}

# One script, one interpreter
{
    my $runtime = runtime('persistent');
    my $text    = "$HEAD our \$n++; BEGIN { our \$b++ } our \$b; print \"\$n \$b \", __PACKAGE__;";
    is( speedy( $runtime, 'basic.pl', $text ), '1 1 main', 'basic: the package main' );
    is( speedy( $runtime, 'basic.pl' ), '2 1 main', 'globals are kept, BEGIN has run once' );
    my $pid = $runtime->{pid};
    script( 'speedy/basic.pl', "$HEAD our \$n++; print \"new \$n\";" );
    is( speedy( $runtime, 'basic.pl' ), 'new 1', 'touch: a changed script starts in a fresh interpreter' );
    is( speedy( $runtime, 'basic.pl' ), 'new 2', 'and stays' );
    utime 1, 1, site() . '/speedy/basic.pl';
    is( speedy( $runtime, 'basic.pl', undef, body => 'x' x 200_000 ), 'new 1', 'another time of modification, and a long body' );
    is( kill( 0, $pid ), 1, 'the process is the same' );
    is( $runtime->stop, 0, 'the end' );
    is( $runtime->complaints, '', 'nothing was said' );
}

{
    my $runtime = runtime('persistent');
    my $args = "$HEAD print join '|', \@ARGV; push \@ARGV, 'left';";
    is( speedy( $runtime, 'argv.pl', $args, query => 'one+t%77o+a%3Bb' ), 'one|two|a\\;b', 'argv: the words of a query' );
    is( speedy( $runtime, 'argv.pl', undef, query => 'a=b+c' ), '', 'argv: with = there are none' );
    is( speedy( $runtime, 'argv.pl' ), '', 'argv: nothing is left' );
    is( $runtime->stop, 0, 'the end' );
}

{
    my $runtime = runtime('persistent');
    is( speedy( $runtime, 'cwd.pl', "use Cwd; $HEAD print getcwd(); chdir '/usr';" ), site() . '/speedy', 'chdir: a run starts in the directory of the script' );
    is( speedy( $runtime, 'cwd.pl' ), site() . '/speedy', 'chdir: each run' );
}

{
    my $runtime = runtime('persistent');
    my $data = "$HEAD print scalar <DATA>; print <DATA>;\n__END__\none\ntwo\n";
    is( speedy( $runtime, 'data.pl', $data ), "one\ntwo\n", 'DATA' ) for 1 .. 2;
}

{
    my $runtime = runtime('persistent');
    my $text = "use CGI::SpeedyCGI; $HEAD my \$s = CGI::SpeedyCGI->new; our \$c; print \$s->i_am_speedy, \$c || 0; \$s->register_cleanup(sub { \$c++ });";
    is( speedy( $runtime, 'cleanup.pl', $text ), '10', 'register_cleanup' );
    is( speedy( $runtime, 'cleanup.pl' ), '11', 'it runs at the end of the run' );
    is( speedy( $runtime, 'cleanup.pl' ), '12', 'of each that asked for it' );
}

{
    my $runtime = runtime('persistent');
    my $mark = site() . '/mark';
    my $text = "use PersistentPerl; $HEAD my \$s = PersistentPerl->new; sub note { open my \$f, '>>', '$mark'; print \$f shift } our \$n++; "
        . "if (\$n == 1) { \$s->set_shutdown_handler(sub { note 'lost' }); \$s->set_shutdown_handler(sub { note 'set ' }); \$s->add_shutdown_handler(sub { note 'added ' }) } "
        . "END { note 'END' } \$s->shutdown_next_time if \$n == 2; print \$n, \$s->i_am_persistent_perl;";
    is( speedy( $runtime, 'shutdown.pl', $text ), '11', 'shutdown: first run' );
    my $answer = $runtime->ask( handler => 'Speedy', file => site() . '/speedy/shutdown.pl' );
    is( $answer->{end}{last}, 1, 'shutdown_next_time is said to the server' );
    is( $runtime->wait_for_end, 0, 'the interpreter ends' );
    is( slurp($mark), 'set added END', 'handlers, and END blocks' );
}

{
    my $runtime = runtime('persistent');
    my $answer = $runtime->ask( handler => 'Speedy', file => script( 'speedy/now.pl', "use CGI::SpeedyCGI; $HEAD print 'a'; CGI::SpeedyCGI->new->shutdown_now; print 'b';" ) );
    like( $answer->{out}, qr/\na\z/, 'shutdown_now' );
    is( $answer->{end}{last}, 1, 'is said to the server' );
    is( $runtime->wait_for_end, 0, 'the interpreter ends' );
}

{
    my $runtime = runtime('persistent');
    my $text = "use CGI::SpeedyCGI; $HEAD my \$s = CGI::SpeedyCGI->new; print \$s->getopt('timeout'), ' ', \$s->getopt('MAXRUNS'), ' ', \$s->setopt('maxruns', 9), ' ', \$s->getopt('maxruns'), ' ', \$s->getopt('group');";
    is( speedy( $runtime, 'setopt.pl', "#!/usr/bin/speedy -w -- -t300 -r7 -gall\n$text" ), '300 7 7 9 all', 'sh_bang and setopt' );
}

# maxruns
for my $how (qw(server shebang)) {
    my $runtime = runtime('persistent');
    my $shebang = $how eq 'shebang' ? "#!/usr/bin/perperl -- -r 3\n" : "#!/usr/bin/perperl\n";
    my $file = script( "speedy/max$how.pl", "$shebang$HEAD print 'x';" );
    my @list = ( list => { max_runs => [ $how eq 'server' ? 3 : 500 ] } );
    my @last = map { $runtime->ask( handler => 'Speedy', file => $file, @list )->{end}{last} || 0 } 1 .. 3;
    is( "@last", '0 0 1', "maxruns of the $how" );
    is( $runtime->wait_for_end, 0, "maxruns of the $how: the end" );
}

# group
{
    my $runtime = runtime('persistent');
    my @list = ( list => { group => ['shop'] } );
    like( speedy( $runtime, 'one.pl', "$HEAD our \$n++; \$main::all++; print \"\$n \$main::all \", __PACKAGE__;", @list ), qr/\A1 1 Speedy::/, 'group: a package of its own' );
    like( speedy( $runtime, 'two.pl', "$HEAD our \$n++; \$main::all++; print \"\$n \$main::all \", __PACKAGE__;", @list ), qr/\A1 2 Speedy::/, 'group: another script in the same interpreter' );
}

# What is kept and what is not
{
    my $runtime = runtime('persistent');
    is( speedy( $runtime, 'signal.pl', "$HEAD print ref \$SIG{USR1} ? 'kept' : 'none'; \$SIG{USR1} = sub { 1 }; kill USR1 => \$\$;" ), 'none', 'signal: none in the beginning' );
    is( speedy( $runtime, 'signal.pl' ), 'kept', 'signal: handlers are kept' );
}
{
    my $runtime = runtime('persistent');
    is( speedy( $runtime, 'alarm.pl', "$HEAD local \$SIG{ALRM} = sub { die qq{rang\\n} }; eval { alarm 1; select undef, undef, undef, 10; }; print \$@; alarm 1000;" ), "rang\n", 'alarm' );
    is( speedy( $runtime, 'alarm2.pl', "$HEAD print alarm 0;" ), 0, 'alarm: none is left' );
}
{
    my $runtime = runtime('persistent');
    my $warned = $runtime->ask( handler => 'Speedy', file => script( 'speedy/w.pl', "#!/usr/bin/speedy -w\n$HEAD my \$x; print \"x\$x\";" ) );
    like( $warned->{err}, qr/uninitialized/, '-w' );
    is( speedy( $runtime, 'w2.pl', "#!/usr/bin/speedy\n$HEAD my \$x; print \"x\$x\", \$^W;" ), 'x0', 'without -w' );
    is( speedy( $runtime, 'modules.pl', "#!/usr/bin/speedy -MList::Util=sum -I/some/lib\n$HEAD print sum(1, 2), ' ', scalar grep { \$_ eq '/some/lib' } \@INC;" ), '3 1', '-M and -I' );
}
{
    my $runtime = runtime('persistent');
    is( speedy( $runtime, 'taint.pl', "#!/usr/bin/speedy -T\n$HEAD print \${^TAINT}; eval { system \"echo \$ENV{QUERY_STRING}\" }; print \$@ =~ /Insecure/ ? ' refused' : ' not';", query => 'x' ), '1 refused', '-T' );
    is( speedy( $runtime, 'taint.pl', undef, query => 'x' ), '1 refused', '-T again' );
    is( $runtime->stop, 0, 'the end' );
    is( $runtime->complaints, '', 'nothing was said' );
}
{
    my $runtime = runtime('persistent');
    is( speedy( $runtime, 'env.pl', "$HEAD print exists \$ENV{MOD_PERL} ? 'mod_perl' : 'cgi';" ), 'cgi', 'no MOD_PERL' );
    is( speedy( $runtime, 'shim.pl', "$HEAD print eval { require Apache2::RequestRec; 1 } && \$INC{'Apache2/RequestRec.pm'} =~ /tsubame/ ? 'shim' : 'none';" ), 'none', 'no $r' );
    my $missing = $runtime->ask( handler => 'Speedy', file => site() . '/speedy/missing.pl' );
    is( $missing->{end}{http}, 404, 'a missing script' );
}

done_testing;
