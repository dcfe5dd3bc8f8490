package Tsubame::Classes;

# From the name of a handler to the code that runs a request of its class.

use strict;
use warnings;
use Tsubame::Handover ();

# Returns the outcome, a hash: status (of exit), error (a short reason), message (the same at length), http (a status of HTTP for the
# server to answer with).
sub run {
    my ($request) = @_;
    if ( $request->{handler} eq 'Speedy' ) {
        require Tsubame::Speedy;
        return Tsubame::Speedy::run($request);
    }
    if ( $request->{handler} eq 'PSGI' ) {
        require Tsubame::Psgi;
        return Tsubame::Psgi::run($request);
    }
    if ( !$Tsubame::Bundle::mod_perl ) {
        $Tsubame::Bundle::mod_perl = 1;
        require Tsubame::ModPerl;
    }
    return Tsubame::ModPerl::run($request);
}

# The words of a query without `=`, which CGI puts on the command line; Apache escapes what a shell would take for its own.
sub words {
    my ($query) = @_;
    return if !defined $query || $query eq '' || $query =~ /=/;
    my @words = split /\+/, $query;
    for (@words) {
        s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
        s/([&;`'"|*?~<>^()\[\]{}\$\\\n])/\\$1/g;
    }
    return @words;
}

# A script's text without __END__ and what follows; in list context also what follows, and the line it begins on.
sub program {
    my ($text) = @_;
    return ( $text, undef ) if $text !~ /^__(?:END|DATA)__\r?$/m;
    my $program = substr $text, 0, $-[0];
    return ( $program, substr $text, $+[0] + ( substr( $text, $+[0], 1 ) eq "\n" ) );
}

# The switches of the first line, up to `--`, and those behind it.
sub shebang {
    my ($text) = @_;
    my ($line) = $text =~ /\A#!([^\r\n]*)/ or return ( [], [] );
    my ( $program, @words ) = split ' ', $line;
    shift @words while @words && $words[0] !~ /\A-/;
    my ( @before, @after );
    while (@words) {
        my $word = shift @words;
        if ( $word eq '--' ) { @after = @words; last }
        push @before, $word;
    }
    return ( \@before, \@after );
}

# The name of a package for a file, as mod_perl makes it.
sub package_for {
    my ( $root, $file ) = @_;
    my $name = join '_', grep { length } split m{/}, $file;
    $name =~ s/([^A-Za-z0-9_])/sprintf '_%2x', ord $1/ge;
    $name =~ s/\A(\d)/_$1/;
    return "${root}::$name";
}

sub slurp {
    my ($file) = @_;
    open my $handle, '<', $file or return;
    binmode $handle;
    local $/;
    my ($text) = <$handle> =~ /\A(.*)\z/s;
    return $text;
}

# Removes everything from a package but the packages inside it. The names get other values first: subs that call each other
# would never let go of each other, and what was imported is not ours to be emptied.
sub empty_package {
    my ($package) = @_;
    no strict 'refs';
    no warnings;
    my $symbols = \%{"${package}::"};
    for my $name ( grep { !/::\z/ } keys %$symbols ) {
        if ( ref \$symbols->{$name} eq 'GLOB' ) {
            my $glob = \$symbols->{$name};
            *$glob = sub { }
                if defined *$glob{CODE};
            *$glob = \my $nothing;
            *$glob = [] if defined *$glob{ARRAY};
            *$glob = {} if defined *$glob{HASH};
        }
        delete $symbols->{$name};
    }
}

1;
