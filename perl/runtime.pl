# The runtime of persistent Perl: what the server starts with the system's perl and talks to over a socket.
# docs/backend-protocol.md describes the socket, docs/perl.md what scripts see. `perl_bundle.rs` puts this file behind a
# table of all modules in lib/, so nothing has to be installed: @INC gets a hook that serves them from that table.

# With -w in a script's first line perl would complain of names that another file uses.
no warnings 'once';

BEGIN {
    # Modules of these names come from here and nowhere else: those of mod_perl need Apache's own process.
    unshift @INC, sub {
        my ( undef, $name ) = @_;
        my $text = $Tsubame::Bundle::text{$name};
        return Tsubame::Carp::load() if $name eq 'CGI/Carp.pm' && defined &Tsubame::Carp::load;
        return if !defined $text;
        return if !$Tsubame::Bundle::mod_perl && $name !~ m{^(?:Tsubame/|APR/Error[.]pm|CGI/SpeedyCGI[.]pm|PersistentPerl[.]pm)};
        $INC{$name} = "tsubame/$name";
        my $source = qq{#line 1 "tsubame/$name"\n$text};
        open my $handle, '<', \$source or die "cannot read $name: $!";
        return $handle;
    };
    # A template of fork mode reads this file as a module, before the script is compiled.
    if ( defined $ENV{TSUBAME_TEMPLATE} ) {
        require Tsubame::Template;
    }
}

if ( !defined $Tsubame::Template::state ) {
    my $mode = shift @ARGV;
    $mode = 'persistent' if !defined $mode;
    if    ( $mode eq 'persistent' ) { require Tsubame::Persistent; Tsubame::Persistent::start() }
    elsif ( $mode eq 'fork' )       { require Tsubame::Launch;     Tsubame::Launch::start() }
    else                            { die "the Perl runtime knows the modes persistent and fork, not $mode\n" }
}
1;
