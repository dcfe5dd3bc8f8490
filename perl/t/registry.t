# ModPerl::Registry and its relatives: what is kept, what is not, and what a script finds there.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Driver qw(runtime script site slurp);
use Test::More;

my $HEAD  = q{print "Content-Type: text/plain\n\n";};
my @KEEP  = qw(ModPerl::Registry ModPerl::RegistryPrefork ModPerl::RegistryBB);
my @FRESH = qw(ModPerl::PerlRun ModPerl::PerlRunPrefork);

for my $class ( @KEEP, @FRESH ) {
    my $keeps   = grep { $_ eq $class } @KEEP;
    my $runtime = runtime('persistent');
    my $run     = sub {
        my ( $name, $text, %o ) = @_;
        my $file = defined $text ? script( "$class/$name", $text ) : site() . "/$class/$name";
        return $runtime->body( handler => $class, file => $file, %o );
    };

    $run->( 'count.pl', "$HEAD our \$n++; print \$n;" );
    is( $run->('count.pl'), $keeps ? 2 : 1, "$class: globals" );
    $run->( 'lexical.pl', "$HEAD my \$n = 0; \$n++; print \$n;" );
    is( $run->('lexical.pl'), 1, "$class: my variables are new" );

    # The trap of named subs that see the first run's variables.
    my $trap = "$HEAD my \$n = 0; sub add { \$n++; print \$n } add(); add();";
    is( $run->( 'closure.pl', $trap ), '12', "$class: closures, first run" );
    is( $run->('closure.pl'), $keeps ? '34' : '12', "$class: closures, second run" );

    # What was imported is not the script's to be emptied.
    script( "$class/lib/Lists.pm", 'package Lists; use Exporter "import"; our @EXPORT = qw(@list %map $word said); our @list = (1, 2); our %map = (a => 3); our $word = 4; sub said { 5 } 1;' );
    my $imports = "use lib '" . site() . "/$class/lib';" . 'use Lists; use Config; print "Content-Type: text/plain\n\n", @list, %map, $word, said(), defined $Config{version};';
    $run->( 'imports.pl', $imports );
    is( $run->('imports.pl'), '12a3451', "$class: what is imported stays" );

    # Clean-ups are the script's too.
    is( $run->( 'late.pl', "our \$said = 'late'; sub later { print STDERR \$said } \$_[0]->pool->cleanup_register(\\&later); $HEAD print 'x';" ), 'x', "$class: a clean-up" );
    is( $runtime->ask( handler => $class, file => site() . "/$class/late.pl" )->{err}, 'late', "$class: finds subs and variables of its script" );

    # BEGIN and END
    my $special = "BEGIN { our \$begin++ } END { print 'end'; our \$ended++ } $HEAD our (\$begin, \$ended); print \$begin, \$ended || 0;";
    is( $run->( 'special.pl', $special ), '10end', "$class: special blocks, first run" );
    is( $run->('special.pl'), $keeps ? '11end' : '10end', "$class: special blocks, second run" );
    is( $run->( 'endexit.pl', "$HEAD END { print 'end' } exit; print 'not';" ), 'end', "$class: END behind exit" );
    my $answer = $runtime->ask( handler => $class, file => script( "$class/enddie.pl", 'END { die "in the end\n" } 1;' ) );
    is( $answer->{end}{http}, 500, "$class: END that dies" );
    script( "$class/lib/WithEnd.pm", 'package WithEnd; END { print STDERR "the module ends\n" } 1;' );
    is( $run->( 'modend.pl', "use lib '" . site() . "/$class/lib'; use WithEnd; $HEAD END { print 'mine' }" ), 'mine', "$class: END of a module does not run yet" );

    # Where and what
    ( my $package = site() . "/$class/names.pl" ) =~ s{\A/}{};
    $package =~ s{/}{_}g;
    $package =~ s/([^A-Za-z0-9_])/sprintf '_%2x', ord $1/ge;
    is( $run->( 'names.pl', "$HEAD print __PACKAGE__;" ), "ModPerl::ROOT::${class}::$package", "$class: the package" );
    is( $run->( 'cwd.pl', "use Cwd; $HEAD print getcwd();", root => '/usr' ), $class =~ /Prefork/ ? site() . "/$class" : '/usr', "$class: the working directory" );
    is( $run->( 'chdir.pl', "use Cwd; $HEAD chdir '/usr/lib'; print getcwd();", root => '/usr' ), '/usr/lib', "$class: chdir" );
    is( $run->( 'cwd.pl', undef, root => '/usr' ), $class =~ /Prefork/ ? site() . "/$class" : '/usr/lib', "$class: the working directory behind chdir" );
    like( $run->( 'version.pl', "$HEAD print join ' ', \@ENV{qw(MOD_PERL MOD_PERL_API_VERSION GATEWAY_INTERFACE)};" ), qr{\Amod_perl/2\.\S+ 2 CGI/1\.1\z}, "$class: MOD_PERL" );
    is( $run->( 'argv.pl', "$HEAD print scalar \@ARGV;", query => 'a+b' ), 0, "$class: no \@ARGV" );
    is( $run->( 'data.pl', "$HEAD print defined fileno DATA ? 'data' : 'none';\n__DATA__\nx\n" ), 'none', "$class: no DATA" );
    is( $run->( 'strict.pl', "$HEAD \$undeclared = 3; print \$undeclared;" ), 3, "$class: strict is the script's own affair" );
    my $warned = $runtime->ask( handler => $class, file => script( "$class/warnings.pl", "#!/usr/bin/perl -w\n$HEAD my \$x; print \"x\$x\";" ) );
    like( $warned->{err}, qr/uninitialized value \$x .* line 2\./, "$class: -w" );
    $warned = $runtime->ask( handler => $class, file => script( "$class/silent.pl", "#!/usr/bin/perl\n$HEAD my \$x; print \"x\$x\";" ) );
    is( $warned->{err}, '', "$class: without -w" );
    $warned = $runtime->ask( handler => $class, file => script( "$class/taint.pl", "#!/usr/bin/perl -T\n$HEAD print 'x';" ) );
    like( $warned->{err}, qr/-T on the first line of \S+ has no effect/, "$class: -T" );

    # require
    script( "$class/lib/part.pl",  'our $loaded; $main::parts++; 1;' );
    script( "$class/lib/Whole.pm", 'package Whole; $main::wholes++; 1;' );
    my $load = "use lib '" . site() . "/$class/lib'; require 'part.pl'; require Whole; $HEAD print qq{\$main::parts \$main::wholes};";
    is( $run->( 'load.pl', $load ), '1 1', "$class: require" );
    is( $run->('load.pl'), $keeps ? '1 1' : '2 1', "$class: require in the next request" );

    # Files
    is( $runtime->ask( handler => $class, file => site() . "/$class/missing.pl" )->{end}{http}, 404, "$class: a missing file" );
    is( $runtime->ask( handler => $class, file => site() . "/$class" )->{end}{http}, -1, "$class: a directory" );
    is( $run->( 'nph-raw.pl', 'my $r = shift; print "HTTP/1.1 204 No Content\r\nX: ", $r->assbackwards, "\r\n\r\n";', parse_headers => 0 ), '', "$class: nph" );
    my $raw = $runtime->ask( handler => $class, file => site() . "/$class/nph-raw.pl", parse_headers => 0 );
    is( $raw->{out}, "HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n", "$class: nph has no header made for it" );

    is( $runtime->stop, 0, "$class: the end" );
    is( $runtime->complaints, "the module ends\n", "$class: END of a module runs in the end" );
}

# Aliases, and ways to name a handler
{
    my $runtime = runtime('persistent');
    my $file = script( 'alias.pl', "$HEAD print __PACKAGE__;" );
    like( $runtime->body( handler => 'Apache::Registry', file => $file ), qr/\AModPerl::ROOT::ModPerl::Registry::/, 'Apache::Registry' );
    like( $runtime->body( handler => 'Apache::PerlRun',  file => $file ), qr/\AModPerl::ROOT::ModPerl::PerlRun::/,  'Apache::PerlRun' );
    my $library = site() . '/handlers';
    script( 'handlers/My/Handler.pm', <<'END_OF_MODULE' );
package My::Handler;
use strict;
use Apache2::RequestRec ();
use Apache2::RequestIO ();
use Apache2::Const -compile => qw(OK NOT_FOUND);
sub handler { my $r = shift; $r->content_type('text/plain'); $r->print('handler of ', $r->uri); return Apache2::Const::OK }
sub other   { my $r = shift; return Apache2::Const::NOT_FOUND }
sub method  { my ($class, $r) = @_; $r->content_type('text/html'); print "method of $class"; return Apache2::Const::OK }
sub attribute : method { my ($class, $r) = @_; print "attribute of $class"; return Apache2::Const::OK }
1;
END_OF_MODULE
    my @list = ( list => { require => [ script( 'startup.pl', "use lib '$library'; 1;" ) ] }, parse_headers => 0 );
    is( $runtime->ask( handler => 'My::Handler', @list )->{out}, "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\nhandler of /handler", 'a package' );
    is( $runtime->ask( handler => 'My::Handler::other', @list )->{end}{http}, 404, 'a sub, and a status' );
    is( $runtime->body( handler => 'My::Handler->method', @list ), 'method of My::Handler', 'a method' );
    is( $runtime->body( handler => 'My::Handler::attribute', @list ), 'attribute of My::Handler::attribute', 'a sub that is a method' );
    is( $runtime->body( handler => 'sub { my $r = shift; $r->content_type("text/plain"); print "anonymous"; 0 }', @list ), 'anonymous', 'text of a sub' );
    like( $runtime->ask( handler => 'No::Such::Handler', @list )->{end}{error}, qr/Can't locate No\/Such\/Handler\.pm/, 'one that is not there' );
    like( $runtime->ask( handler => 'sub { broken', @list )->{end}{error}, qr/cannot compile the handler/, 'one that does not compile' );

    # A handler that calls another one, and a script that exits
    my $inner = script( 'inner.pl', "$HEAD print 'inner'; exit;" );
    like( $runtime->body( handler => 'sub { my $r = shift; my $rc = ModPerl::Registry::handler($r); print " outer"; eval { exit }; print "not"; $rc }', file => $inner ), qr/\Ainner outer\z/, 'exit in a handler inside of a handler' );

    # What the seed has: a fix-up that changes the directory
    my $where = script( 'where.pl', "use Cwd; $HEAD print getcwd();" );
    my $fixup = 'sub { chdir("/usr/lib"); return OK; }';
    is( $runtime->body( file => $where, list => { fixup => [$fixup] } ), '/usr/lib', 'PerlFixupHandler with chdir' );
    is( $runtime->ask( file => $where, list => { fixup => ['sub { return 403 }'] } )->{end}{http}, 403, 'a fix-up that refuses' );
    like( $runtime->ask( file => $where, list => { fixup => ['sub { die "no\n" }'] } )->{end}{error}, qr/\Ano/, 'a fix-up that dies' );
    like( $runtime->ask( file => $where, list => { module => ['No::Such'] } )->{end}{error}, qr/PerlModule No::Such: Can't locate/, 'PerlModule that is missing' );
    is( $runtime->body( file => script( 'mods.pl', "$HEAD print exists \$INC{'Text/Wrap.pm'} ? 1 : 0;" ), list => { module => ['Text::Wrap'] } ), 1, 'PerlModule' );
    is( $runtime->stop, 0, 'the end' );
    is( $runtime->complaints, '', 'nothing was said' );
}

done_testing;
