# What is the same under every class: a CGI script finds what CGI promises.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Driver qw(runtime script site slurp);
use Test::More;

my @CLASSES = qw(ModPerl::Registry ModPerl::RegistryPrefork ModPerl::RegistryBB ModPerl::PerlRun ModPerl::PerlRunPrefork Speedy Fork);
my $HEAD = q{print "Content-Type: text/plain\n\n";};

for my $class (@CLASSES) {
    my $runtime = runtime( $class eq 'Fork' ? 'fork' : 'persistent' );
    my $body = sub {
        my ( $name, $text, %o ) = @_;
        return $runtime->body( handler => $class, file => script( "$class/$name", $text ), %o );
    };

    my $answer = $runtime->ask( handler => $class, file => script( "$class/basic.pl", "$HEAD print qq{hello\\n};" ) );
    is( $answer->{out}, "Content-Type: text/plain\n\nhello\n", "$class: header and body as they were printed" );
    is( $answer->{end}{status}, 0, "$class: status 0" );
    is( $answer->{end}{error}, undef, "$class: no error" );
    like( $answer->{end}{$_}, qr/\A\d+\z/, "$class: time of $_ mode" ) for qw(user system);

    # Environment
    my $dump = "$HEAD print join ',', map { qq{\$_=\$ENV{\$_}} } grep { /^X_/ } sort keys %ENV;";
    is( $body->( 'env.pl', $dump, environment => { X_A => 1, X_B => '', X_C => "a b=c\nd" } ), "X_A=1,X_B=,X_C=a b=c\nd", "$class: the environment" );
    is( $body->( 'env.pl', $dump, environment => { X_D => 2 } ), 'X_D=2', "$class: nothing of the environment before stays" );
    is( $body->( 'set.pl', "$HEAD \$ENV{X_SET} = 1; print \$ENV{X_SET};" ), 1, "$class: a script may set variables" );
    is( $body->( 'env.pl', $dump ), '', "$class: the next request does not see them" );
    $body->( 'swap.pl', "$HEAD delete \@ENV{qw(X_A X_EMPTY)}; \@ENV{qw(X_OTHER X_MORE)} = (1, 2);", environment => { X_A => 1, X_EMPTY => '' } );
    is( $body->( 'env.pl', $dump, environment => { X_A => 1, X_EMPTY => '' } ), 'X_A=1,X_EMPTY=', "$class: nor what came in the place of others" );
    is( $body->( 'local.env.pl', "$HEAD { local %ENV = ( X_A => 5, PATH => \$ENV{PATH} ); print `echo \\\$X_A`; } print `echo \\\$X_A`;", environment => { X_A => 1 } ), "5\n1\n", "$class: a local environment" );
    is( $body->( 'child.pl', "$HEAD print `echo \$X_A`;" =~ s/\$X_A/\\\$X_A/r, environment => { X_A => 'to children' } ), "to children\n", "$class: programs see it" );

    # Standard input
    my $post = "$HEAD print scalar reverse join '', <STDIN>;";
    is( $body->( 'post.pl', $post, method => 'POST', body => 'abc' ), 'cba', "$class: a body" );
    is( $body->( 'post.pl', $post, method => 'POST', body => [ 'abc', "\ndef\n", 'x' ] ), "x\nfed\ncba", "$class: in pieces" );
    is( $body->( 'post.pl', $post ), '', "$class: none" );
    my $large = join ',', 1 .. 100_000;
    is( length $body->( 'post.pl', $post, method => 'POST', body => [ unpack '(a60000)*', $large ] ), length $large, "$class: a large one" );
    is( length $body->( 'post.pl', $post, method => 'POST', body => [ map { $_ x ( 1 << 20 ) } 'a' .. 'd' ] ), 4 << 20, "$class: in the longest frames" );
    is( $body->( 'basic.pl', "$HEAD print qq{hello\\n};", method => 'POST', body => [ 'x' x 100, 'y' x 200_000 ] ), "hello\n", "$class: one that nobody reads" );
    is( $body->( 'post.pl', $post, method => 'POST', body => 'next' ), 'txen', "$class: does not come up in the next request" );
    is( $body->( 'part.pl', "$HEAD read STDIN, my \$x, 3; print \$x;", method => 'POST', body => 'abcdef' ), 'abc', "$class: one that is read in part" );
    is( $body->( 'post.pl', $post, method => 'POST', body => 'new' ), 'wen', "$class: the rest of it is gone" );
    is( $body->( 'read.pl', "$HEAD binmode STDIN; my \$n = read STDIN, my \$x, \$ENV{CONTENT_LENGTH}; print \"\$n:\$x:\", eof(STDIN) ? 'eof' : 'more';", method => 'POST', body => 'abcdef' ), '6:abcdef:eof', "$class: read and eof" );
    is( $body->( 'sysread.pl', "$HEAD my \$all = ''; while (sysread STDIN, my \$x, 4) { \$all .= \"[\$x]\" } print \$all;", method => 'POST', body => 'abcdef' ), '[abcd][ef]', "$class: sysread" );
    is( $body->( 'getc.pl', "$HEAD print getc STDIN; print ord getc, ';', scalar <STDIN>, \$., ';'; local \$/ = 'x'; print scalar <STDIN>;", method => 'POST', body => "abc\nde\nfxg" ), "a98;c\n1;de\nfx", "$class: getc and lines" );
    is( $body->( 'diamond.pl', "$HEAD while (<>) { chomp; print \"<\$_>\" }", method => 'POST', body => "a\nb\n" ), '<a><b>', "$class: the diamond operator" );
    is( $body->( 'diamond.pl', "$HEAD while (<>) { chomp; print \"<\$_>\" }", method => 'POST', body => "c\nd\n" ), '<c><d>', "$class: the diamond operator again" );
    is( $body->( 'utf8in.pl', "$HEAD binmode STDIN, ':utf8'; my \$l = <STDIN>; print length \$l;", method => 'POST', body => "\xc3\xa4" ), 1, "$class: binmode STDIN" );
    is( $body->( 'len.pl', "$HEAD my \$l = <STDIN>; print length \$l;", method => 'POST', body => "\xc3\xa4" ), 2, "$class: is over in the next request" );

    # Standard output
    is( $body->( 'ways.pl', "$HEAD print 'a', 'b'; printf '%02d', 7; { local (\$,, \$\\) = ('-', '!'); print 1, 2 } print {*STDOUT} 'g'; print STDOUT 's';" ), 'ab071-2!gs', "$class: ways to print" );
    is( $body->( 'sys.pl', "$HEAD \$| = 1; print 'a'; syswrite STDOUT, 'xbcx', 2, 1; print 'd'; \$| = 0;" ), 'abcd', "$class: syswrite" );
    is( $body->( 'utf8.pl', "$HEAD binmode STDOUT, ':utf8'; print chr 0x263a;" ), "\xe2\x98\xba", "$class: binmode STDOUT, ':utf8'" );
    is( $body->( 'enc.pl', "$HEAD binmode STDOUT, ':encoding(iso-8859-1)'; print chr 228;" ), "\xe4", "$class: another encoding" );
    is( $body->( 'bytes.pl', "$HEAD binmode STDOUT; print pack 'C*', 0 .. 255;" ), pack( 'C*', 0 .. 255 ), "$class: any bytes" );
    is( $body->( 'say.pl', "use feature 'say'; $HEAD say for 1 .. 2;" ), "1\n2\n", "$class: say" );
    is( $body->( 'format.pl', "$HEAD our \$x = 'left'; format STDOUT =\n@<<<<<|@>>>>\n\$x, \$x\n.\nwrite;" ), "left  | left\n", "$class: formats" );
    is( $body->( 'big.pl', "$HEAD print 'x' x 3_000_000; print 'y';" ), 'x' x 3_000_000 . 'y', "$class: a large answer" );
    is( $body->( 'select.pl', "$HEAD open my \$f, '>', \\my \$s; my \$old = select \$f; print 'in'; select \$old; print \"[\$s]\"; select \$f;" ), '[in]', "$class: select" );
    is( $body->( 'basic.pl', "$HEAD print qq{hello\\n};" ), "hello\n", "$class: a selected handle does not stay" );
    is( $body->( 'local.pl', "$HEAD my \$s = ''; { local *STDOUT; open STDOUT, '>', \\\$s; print 'caught'; } print \"[\$s]\";" ), '[caught]', "$class: local *STDOUT" );
    my $elsewhere = site() . '/elsewhere';
    is( $body->( 'reopen.pl', "$HEAD open my \$save, '>&', \\*STDOUT; open STDOUT, '>', '$elsewhere' or die; print 'file'; system 'echo too'; close STDOUT; open STDOUT, '>&', \$save; print 'back';" ), 'back', "$class: STDOUT to a file and back" );
    like( slurp($elsewhere), qr/\Afile/, "$class: the file" );
    like( slurp($elsewhere), qr/too/,    "$class: what a program has written to it" );
    is( $body->( 'leave.pl', "$HEAD print 'x'; open STDOUT, '>', '/dev/null'; print 'y';" ), 'x', "$class: STDOUT left in another place" );
    is( $body->( 'basic.pl', "$HEAD print qq{hello\\n};" ), "hello\n", "$class: is in its place again" );
    is( $body->( 'close.pl', "$HEAD print 'x'; close STDOUT; close STDIN; close STDERR;" ), 'x', "$class: closed handles" );
    is( $body->( 'post.pl', $post, method => 'POST', body => 'abc' ), 'cba', "$class: are open again" );
    like( $runtime->ask( handler => $class, file => script( "$class/warn.pl", "$HEAD warn 'careful'; print STDERR 'a', 'b', qq{\\n}, 'no end';" ) )->{err}, qr/\Acareful at \S+warn\.pl line 1\.\nab\nno end\z/, "$class: standard error" );
    is( $body->( 'merge.pl', "$HEAD \$| = 1; open STDERR, '>&', \\*STDOUT; print 'a'; print STDERR 'b'; print 'c';" ), 'abc', "$class: STDERR into STDOUT" );
    like( $runtime->ask( handler => $class, file => script( "$class/warn2.pl", "$HEAD warn 'careful';" ) )->{err}, qr/\Acareful/, "$class: apart again" );

    # Other processes
    is( $body->( 'system.pl', "$HEAD print 'a'; system 'echo b'; print 'c'; print `echo d`; open my \$p, '|-', 'cat' or die; print \$p 'e'; close \$p; print 'f';" ), "ab\ncd\nef", "$class: programs write into the answer, in order" ) if $class ne 'Fork';
    is( $body->( 'system.pl', "\$| = 1; $HEAD print 'a'; system 'echo b'; print 'c'; print `echo d`; open my \$p, '|-', 'cat' or die; print \$p 'e'; close \$p; print 'f';" ), "ab\ncd\nef", "$class: programs write into the answer, in order" );
    is( $body->( 'others.pl', "system q{printf 'Content-Type: text/plain\\n\\nall of it'};" ), 'all of it', "$class: a program may write everything" );
    is( $body->( 'stdin.pl', "$HEAD \$| = 1; system 'cat';", method => 'POST', body => 'for the program' ), 'for the program', "$class: programs read the body" );
    is( $body->( 'stdin2.pl', "$HEAD \$| = 1; system 'true'; print <STDIN>;", method => 'POST', body => 'for the script' ), 'for the script', "$class: a program that does not read leaves it" );
    is( $body->( 'stdin3.pl', "$HEAD \$| = 1; print \`cat | wc -c\`;", method => 'POST', body => [ 'x' x 100_000, 'y' x 100_000 ] ) + 0, 200_000, "$class: a large one" );
    is( $body->( 'fork.pl', "$HEAD \$| = 1; print 'a'; my \$pid = fork; if (!\$pid) { print 'child'; exit 3 } waitpid \$pid, 0; print \$? >> 8;" ), 'achild3', "$class: fork" );
    is( $body->( 'fork2.pl', "$HEAD my \$pid = fork; if (\$pid) { waitpid \$pid, 0; print 'parent' . (\$? >> 8) } else { die qq{in the child\\n} }" ), 'parent255', "$class: a child that dies" );
    is( $body->( 'fork3.pl', "$HEAD my \$pid = fork; if (\$pid) { waitpid \$pid, 0; print 'parent' . (\$? >> 8) }" ), 'parent0', "$class: a child that comes to the end of the script" ) ;

    # exit, die, and the rest
    $answer = $runtime->ask( handler => $class, file => script( "$class/exit.pl", "$HEAD print 'before'; sub leave { exit 7 } leave(); print 'after';" ) );
    like( $answer->{out}, qr/before\z/, "$class: exit" );
    is( $answer->{end}{status}, 7, "$class: its status" );
    is( $body->( 'exit2.pl', "$HEAD print 'before'; eval { eval { exit; 1 }; print 'inner'; 1 }; print 'after';" ), 'before', "$class: exit in eval" );
    is( $body->( 'exit3.pl', "$HEAD print 'before'; eval q{ exit; }; print 'after';" ), 'before', "$class: exit in the eval of a text" );
    is( $body->( 'exit4.pl', "$HEAD print 'before'; my \@x = sort { exit } 2, 1; print 'after';" ), 'before', "$class: exit in sort" );
    is( $body->( 'exit5.pl', "$HEAD print 'before'; local \$SIG{ALRM} = sub { exit }; alarm 1; select undef, undef, undef, 5 for 1 .. 3; print 'after';" ), 'before', "$class: exit in a signal handler" );
    $answer = $runtime->ask( handler => $class, file => script( "$class/die.pl", qq{die "reason\\n";} ) );
    like( $answer->{err} . join( '', map { $_->[1] } @{ $answer->{log} } ), qr/reason/, "$class: die is logged" );
    like( $answer->{end}{error}, $class eq 'Fork' ? qr/status \d+ and wrote nothing/ : qr/reason/, "$class: and is an error" );
    $answer = $runtime->ask( handler => $class, file => script( "$class/syntax.pl", "\n\nmy \$x = ;\n" ) );
    like( $answer->{err} . join( '', map { $_->[1] } @{ $answer->{log} } ), qr/syntax error at \S+syntax\.pl line 3/, "$class: a syntax error is logged with file and line" );
    like( $answer->{end}{error}, qr/syntax error/, "$class: and is an error" );
    $answer = $runtime->ask( handler => $class, file => script( "$class/module.pl", "use No::Such::Module;\n" ) );
    like( $answer->{end}{error}, qr/Can't locate No\/Such\/Module\.pm/, "$class: a missing module" );
    is( $body->( 'basic.pl', "$HEAD print qq{hello\\n};" ), "hello\n", "$class: and life goes on" );

    my $file = script( "$class/names.pl", "$HEAD\nprint join ' ', \$0, __FILE__, __LINE__;\n" );
    is( $runtime->body( handler => $class, file => $file ), "$file $file 2", "$class: \$0, __FILE__, __LINE__" );
    is( $body->( 'begin.pl', "our \@o; BEGIN { push \@o, 'begin' } push \@o, 'run'; $HEAD print qq{\@o};" ), 'begin run', "$class: BEGIN comes first" );
    is( $body->( 'sub.pl', "$HEAD print later(3); sub later { return \$_[0] * 2 }" ), 6, "$class: subs that stand behind" );
    is( $body->( 'end.pl', "$HEAD print 'x';\n__END__\nnot code (\n" ), 'x', "$class: __END__" );
    is( $body->( 'comment.pl', "$HEAD print 'x'; # the end" ), 'x', "$class: a comment on the last line" );
    is( $body->( 'pid.pl', "$HEAD print \$\$ == getppid() ? 'odd' : \$\$;" ), $runtime->{pid}, "$class: the process" ) if $class ne 'Fork';

    # Reload
    my $changing = script( "$class/changing.pl", "$HEAD print 1;" );
    is( $runtime->body( handler => $class, file => $changing ), 1, "$class: before a change" );
    script( "$class/changing.pl", "$HEAD print 2;" );
    utime time, time - 100, $changing;
    is( $runtime->body( handler => $class, file => $changing ), $class eq 'ModPerl::RegistryBB' ? 1 : 2, "$class: behind it" );

    is( $runtime->stop,       0,  "$class: the runtime ends on SIGTERM" );
    ( my $complaints = $runtime->complaints ) =~ s/^in the child\n//;
    is( $complaints, '', "$class: nothing was said outside of requests" ) or diag $runtime->complaints;
}

done_testing;
