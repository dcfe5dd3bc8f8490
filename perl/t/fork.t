# Compiled once, forked for each request.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Driver qw(runtime script site slurp);
use Test::More;

my $HEAD = q{print "Content-Type: text/plain\n\n";};

sub forked {
    my ( $runtime, $name, $text, %o ) = @_;
    my $file = defined $text ? script( "fork/$name", $text ) : site() . "/fork/$name";
    return $runtime->body( handler => 'Fork', file => $file, %o );
}

# What is compiled is shared, what runs is not
{
    my $runtime = runtime('fork');
    my $compiled = site() . '/compiled';
    my $text = "BEGIN { open my \$f, '>>', '$compiled'; print \$f 'x'; our \$b = rand } our \$n++; our \$b; $HEAD print \"\$n \$b\";";
    my $first = forked( $runtime, 'once.pl', $text );
    is( forked( $runtime, 'once.pl' ), $first, 'globals are new, what BEGIN made is the same' );
    is( slurp($compiled), 'x', 'it was compiled once' );
    forked( $runtime, 'pid.pl', "$HEAD print join ' ', \$\$, \$^T, rand;" );
    my ( $pid, $time, $random ) = split ' ', forked( $runtime, 'pid.pl' );
    isnt( $pid, $runtime->{pid}, 'another process' );
    cmp_ok( abs( $time - time ), '<', 60, '$^T' );
    isnt( $random, ( split ' ', forked( $runtime, 'pid.pl' ) )[2], 'random numbers' );
    forked( $runtime, 'seeded.pl', "BEGIN { srand 1; rand } $HEAD print rand;" );
    isnt( forked( $runtime, 'seeded.pl' ), forked( $runtime, 'seeded.pl' ), 'random numbers, seeded while compiling' );
    is( $runtime->stop, 0, 'the end' );
    is( $runtime->complaints, '', 'nothing was said' );
}

# As a program: what a script can find out about itself
{
    my $runtime = runtime('fork');
    my $file = script( 'fork/self.pl', "#!/usr/bin/perl -w\nuse strict; $HEAD\nprint join '|', \$0, __FILE__, __LINE__, __PACKAGE__, defined caller() ? 'called' : 'top', \$^W, \"\@ARGV\", scalar <DATA>;\nmain() unless caller; sub main { print 'main ' }\n__END__\ndata\n" );
    is( $runtime->body( handler => 'Fork', file => $file, query => 'a+b' ), "$file|$file|3|main|top|1|a b|data\nmain ", 'names, caller, -w, @ARGV, DATA' ) for 1 .. 2;
    is( $runtime->body( handler => 'Fork', file => $file, query => 'c' ), "$file|$file|3|main|top|1|c|data\nmain ", '@ARGV of another request' );
    is( forked( $runtime, 'long.pl', "$HEAD print length join '', <DATA>;\n__DATA__\n" . "0123456789\n" x 10_000 ), 110_000, 'a long DATA' ) for 1 .. 3;
    is( forked( $runtime, 'quine.pl', "$HEAD seek DATA, 0, 0; my \$first = <DATA>; print length \$first;\n__DATA__\n" ), length("$HEAD seek DATA, 0, 0; my \$first = <DATA>; print length \$first;\n"), 'DATA is the file' );
    script( 'fork/lib/WithData.pm', "package WithData; sub lines { scalar(my \@l = <DATA>) } 1;\n__DATA__\n" . "0123456789\n" x 10_000 );
    is( forked( $runtime, 'moddata.pl', "use lib '" . site() . "/fork/lib'; use WithData; $HEAD print WithData::lines();" ), 10_000, 'DATA of a module' ) for 1 .. 3;
    is( forked( $runtime, 'init.pl', "our \$o; INIT { \$o .= 'init ' } CHECK { \$o .= 'check ' } $HEAD print \$o;" ), 'check init ', 'CHECK and INIT' ) for 1 .. 2;
    is( forked( $runtime, 'end.pl', "$HEAD END { print 'end' } print 'x ';" ), 'x end', 'END' ) for 1 .. 2;
    is( forked( $runtime, 'speedy.pl', "#!/usr/bin/speedy -w -- -t300\n$HEAD print \$0, ' ', __LINE__, ' ', \$^W;" ), site() . '/fork/speedy.pl 2 1', 'a first line that does not name perl' );
    is( forked( $runtime, 'taint.pl', "#!/usr/bin/perl -T\n$HEAD print \${^TAINT}; eval { system \"echo \$ENV{QUERY_STRING}\" }; print \$@ =~ /Insecure/ ? ' refused' : ' not';", query => 'x' ), '1 refused', '-T' ) for 1 .. 2;
    is( forked( $runtime, 'cwd.pl', "use Cwd; $HEAD print getcwd(); chdir '/';" ), site() . '/fork', 'the directory of the script' ) for 1 .. 2;
    is( forked( $runtime, 'speedycgi.pl', "use CGI::SpeedyCGI; $HEAD print CGI::SpeedyCGI->new->i_am_speedy;" ), 0, 'CGI::SpeedyCGI can be asked' );
    is( forked( $runtime, 'exec.pl', "$HEAD \$| = 1; print ''; exec 'echo', 'another program';" ), "another program\n", 'exec' );
    is( forked( $runtime, 'execin.pl', "$HEAD \$| = 1; print ''; exec 'cat';", body => 'for cat' ), 'for cat', 'exec with the body' );
    is( forked( $runtime, 'said.pl', "BEGIN { \$| = 1; print \"Content-Type: text/plain\\n\\nbegin \"; \$| = 0 } print 'run';" ), 'begin run', 'what BEGIN prints is in each answer' ) for 1 .. 2;
    is( forked( $runtime, 'exits.pl', "BEGIN { \$| = 1; print \"Content-Type: text/plain\\n\\nbegin\"; exit } print 'run';" ), 'begin', 'BEGIN that exits' ) for 1 .. 2;
    is( $runtime->stop, 0, 'the end' );
    is( $runtime->complaints, '', 'nothing was said' );
}

# Recompiled when anything has changed
{
    my $runtime = runtime('fork');
    my $module  = sub { script( 'fork/lib/Changing.pm', "package Changing; use lib '" . site() . "/fork/lib'; require 'part.pl'; sub value { '$_[0] ' . part() } 1;" ) };
    my $part    = sub { script( 'fork/lib/part.pl', "sub part { '$_[0]' } 1;" ) };
    $module->('m1');
    $part->('p1');
    my $text = "use lib '" . site() . "/fork/lib'; use Changing; $HEAD print Changing::value();";
    is( forked( $runtime, 'changing.pl', $text ), 'm1 p1', 'before' );
    $module->('m2');
    is( forked( $runtime, 'changing.pl' ), 'm2 p1', 'a module has changed' );
    $part->('p2');
    is( forked( $runtime, 'changing.pl' ), 'm2 p2', 'a file that a module requires has changed' );
    script( 'fork/changing.pl', "$text print '!';" );
    is( forked( $runtime, 'changing.pl' ), 'm2 p2!', 'the script has changed' );
    script( 'fork/lib/Changing.pm', 'package Changing; sub value { syntax error' );
    like( forked( $runtime, 'changing.pl' ), qr/\Aerror: .*Changing\.pm/, 'a module that does not compile any more' );
    $module->('m3');
    is( forked( $runtime, 'changing.pl' ), 'm3 p2!', 'and does again' );
    unlink site() . '/fork/lib/Changing.pm';
    like( forked( $runtime, 'changing.pl' ), qr/\Aerror: .*Changing\.pm/, 'a module that is gone' );
    $module->('m4');
    is( forked( $runtime, 'changing.pl' ), 'm4 p2!', 'and is back' );
    unlink site() . '/fork/changing.pl';
    like( forked( $runtime, 'changing.pl' ), qr/\Aerror: .*changing\.pl/, 'the script is gone' );
    is( kill( 0, $runtime->{pid} ), 1, 'all by one process' );
    is( $runtime->stop, 0, 'the end' );
    is( $runtime->complaints, '', 'nothing was said' );
}

# A file that changes while the script is being compiled
{
    my $runtime = runtime('fork');
    my $module  = script( 'fork/lib/Racing.pm', "package Racing; sub value { 'old' } 1;" );
    my $text    = "use lib '" . site() . "/fork/lib'; use Racing; BEGIN { if (Racing::value() eq 'old') { open my \$f, '>', '$module'; print \$f q{package Racing; sub value { 'new' } 1;}; close \$f } } $HEAD print Racing::value();";
    is( forked( $runtime, 'racing.pl', $text ), 'old', 'what was compiled' );
    is( forked( $runtime, 'racing.pl' ), 'new', 'is compiled again' );
}

# Many at once, and one of them across a recompilation
{
    my $runtime = runtime('fork');
    my $gate = site() . '/gate';
    my $text = "$HEAD \$| = 1; print \"begun \$ENV{NUMBER} \"; select undef, undef, undef, 0.01 until -e '$gate'; print 'VERSION ', join '', <STDIN>;";
    my $file = script( 'fork/many.pl', $text );
    my @waiting;
    for my $number ( 1 .. 20 ) {
        my $connection = $runtime->connection;
        Driver::send_all( $connection, Driver::frames( handler => 'Fork', file => $file, environment => { NUMBER => $number }, body => undef ) );
        push @waiting, $connection;
    }
    my $number = 0;
    like( Driver::answer( $_, qr/begun/ )->{out}, qr/begun @{[ ++$number ]} /, "number $number has begun" ) for @waiting;
    ( my $new = $text ) =~ s/VERSION/NEW/;
    $new =~ s/until -e '[^']*'/for 1/;
    script( 'fork/many.pl', $new );
    is( $runtime->body( handler => 'Fork', file => $file, environment => { NUMBER => 99 } ), 'begun 99 NEW ', 'the changed script runs beside them' );
    script( 'gate', '' );
    $number = 0;
    for my $connection (@waiting) {
        $number++;
        Driver::send_all( $connection, Driver::frame( 3, "body of $number" ) . Driver::frame( 3, '' ) );
        is( Driver::answer($connection)->{out}, "VERSION body of $number", "number $number has ended as it began" );
    }
    is( $runtime->stop, 0, 'the end' );
    is( $runtime->complaints, '', 'nothing was said' );
}

# Ends of scripts
{
    my $runtime = runtime('fork');
    my $answer = $runtime->ask( handler => 'Fork', file => script( 'fork/killed.pl', "$HEAD \$| = 1; print 'x'; kill KILL => \$\$; sleep 10;" ) );
    is( $answer->{end}{error}, 'the script was killed by signal 9', 'killed' );
    is( $answer->{end}{status}, 137, 'its status' );
    $answer = $runtime->ask( handler => 'Fork', file => script( 'fork/memory.pl', 'BEGIN { require POSIX } POSIX::_exit(3);' ) );
    is( $answer->{end}{error}, 'the script ended with status 3 and wrote nothing', 'left without a word' );
    my $began = times;
    $answer = $runtime->ask( handler => 'Fork', file => script( 'fork/work.pl', "$HEAD my \$x = 0; \$x += \$_ for 1 .. 1_000_000; print 'x';" ) );
    cmp_ok( $answer->{end}{user} + $answer->{end}{system}, '>', 5000, 'the processor time of the child' );
    # A client that goes away
    my $mark = site() . '/terminated';
    my $connection = $runtime->connection;
    Driver::send_all( $connection, Driver::frames( handler => 'Fork', file => script( 'fork/gone.pl', "\$SIG{TERM} = sub { open my \$f, '>', '$mark.new'; print \$f 'x'; close \$f; rename '$mark.new', '$mark'; exit }; $HEAD \$| = 1; print 'x'; select undef, undef, undef, 0.1 for 1 .. 200;" ) ) );
    Driver::answer( $connection, qr/x\z/ );
    close $connection;
    my $deadline = time + 20;
    select undef, undef, undef, 0.02 until -e $mark || time > $deadline;
    ok( -e $mark, 'the script of a client that has gone away gets SIGTERM' );
    is( forked( $runtime, 'after.pl', "$HEAD print 'well';" ), 'well', 'and life goes on' );
    is( $runtime->stop, 0, 'the end' );
    is( $runtime->complaints, '', 'nothing was said' );
}

done_testing;
