# Switches that the server gives perl: PerlSwitches -T, -w, -I.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Driver qw(runtime script site slurp);
use Test::More;

my $HEAD = q{print "Content-Type: text/plain\n\n";};

for my $class (qw(ModPerl::Registry ModPerl::RegistryPrefork ModPerl::PerlRunPrefork Speedy Fork)) {
    my $library = script( "$class/lib/Mine.pm", 'package Mine; sub name { "mine" } 1;' );
    $library =~ s{/Mine\.pm\z}{};
    my $runtime = runtime( $class eq 'Fork' ? 'fork' : 'persistent', switches => [ '-T', '-w', "-I$library" ] );
    my $text = "$HEAD use Mine; eval { system \"echo \$ENV{QUERY_STRING}\" }; print \$@ =~ /Insecure/ ? 'refused ' : 'not ', Mine::name(), \${^TAINT}, \$^W;";
    for my $time ( 1 .. 2 ) {
        is( $runtime->body( handler => $class, file => script( "$class/taint.pl", $text ), query => 'x' ), 'refused mine11', "$class: time $time" );
    }
    my $input = "$HEAD my \$l = <STDIN>; eval { system \"echo \$l\" }; print \$@ =~ /Insecure/ ? 'refused' : 'not';";
    is( $runtime->body( handler => $class, file => script( "$class/input.pl", $input ), body => 'x' ), 'refused', "$class: input is tainted" );
    is( $runtime->stop, 0, "$class: the end" );
    is( $runtime->complaints, '', "$class: nothing was said" );
}

done_testing;
