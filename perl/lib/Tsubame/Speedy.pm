package Tsubame::Speedy;

# SpeedyCGI, which is PersistentPerl: a whole program that runs again and again in the package main and keeps its globals.

use strict;
use warnings;
use Errno ();
use Tsubame::Run ();
use Tsubame::Eval ();
use Tsubame::Classes ();
use CGI::SpeedyCGI ();

our %options;    # of the shebang, the environment and the server, by SpeedyCGI's names

my %scripts;
my $runs = 0;
my $given = $^W;    # -w of the server's own
my $first;
my %LETTERS = ( t => 'TIMEOUT', r => 'MAXRUNS', M => 'MAXBACKENDS', g => 'GROUP', B => 'BUFSIZGET', b => 'BUFSIZPOST', p => 'BACKENDPROG', T => 'TMPBASE' );

sub run {
    my ($request) = @_;
    my $file = $request->{file};
    Tsubame::Persistent::set_environment( $request, '' );
    Tsubame::Stdio::begin();
    @ARGV = Tsubame::Classes::words( $request->{args} );
    my $outcome = {};
    my ($directory) = $file =~ m{\A(.*)/}s;
    chdir( length $directory ? $directory : '/' );
    my @stat = stat $file;
    if ( !@stat ) {
        my $missing = $! == Errno::ENOENT || $! == Errno::ENOTDIR;
        $outcome->{error} = $outcome->{message} = "cannot read $file: $!\n";
        $outcome->{http} = $missing ? 404 : 403;
        print STDERR $outcome->{message};
        return $outcome;
    }
    my $identity = "@stat[0, 1, 7, 9]";
    my $script   = $scripts{$file};
    if ( $script && $script->{identity} ne $identity ) {
        # Nothing of the old program may stay, so the interpreter starts anew with this request.
        Tsubame::Persistent::start_anew();
    }
    if ( !$script ) {
        $script = eval { compile( $request, $file, $identity ) };
        if ( !$script ) {
            my $error = $@;
            $outcome->{status} = $Tsubame::Run::status;
            failed( $outcome, $error ) if $error;
            return $outcome;
        }
    }
    open_data($script);
    # CGI.pm keeps the parameters of a request in globals.
    CGI->_reset_globals if $INC{'CGI.pm'} && CGI->can('_reset_globals');
    # CGI::Carp asks it whether a header was printed.
    Tsubame::Stdio::rewind() if $INC{'CGI/Carp.pm'};
    $0 = $file if $0 ne $file;
    local $^W = $script->{warnings};
    Tsubame::Run::call( $script->{code} );
    my $error = $@;
    $outcome->{status} = $Tsubame::Run::status;
    if ($error) {
        $outcome->{status} = 255;
        failed( $outcome, $error );
    }
    return $outcome if $Tsubame::Stdio::children && $$ != $Tsubame::Stdio::owner;
    Tsubame::Run::cleanup() if @Tsubame::Run::cleanups;
    $runs++;
    my $most = defined $options{MAXRUNS} ? $options{MAXRUNS} : $request->{max_runs};
    $Tsubame::Persistent::last = 1 if $most && $runs >= $most;
    chdir $request->{root};
    return $outcome;
}

sub failed {
    my ( $outcome, $error ) = @_;
    $outcome->{error} = $outcome->{message} = Tsubame::Run::message($error);
    print STDERR $outcome->{message} if $$ == $Tsubame::Stdio::owner;
}

# Dies with Perl's message when the program cannot be compiled; returns nothing when a BEGIN block called exit.
sub compile {
    my ( $request, $file, $identity ) = @_;
    my $text = Tsubame::Classes::slurp($file);
    die "cannot read $file: $!\n" if !defined $text;
    my ( $switches, $speedy ) = Tsubame::Classes::shebang($text);
    my ( $prefix, $warnings ) = perl_switches( $file, $switches );
    speedy_switches(@$speedy);
    my ( $program, $data ) = Tsubame::Classes::program($text);
    # Scripts of a group share the interpreter: each has a package of its own.
    my $group = defined $request->{group} && $request->{group} ne 'none' && $request->{group} ne '';
    my $package = !$group && ( !defined $first || $first eq $file ) ? 'main' : Tsubame::Classes::package_for( 'Speedy::ROOT', $file );
    $first = $file if !defined $first;
    my $source = "package $package; sub {$prefix\n#line 1 $file\n$program\n}";
    my $script = { identity => $identity, package => $package, data => $data, warnings => $warnings };
    local $^W = $warnings;
    $0 = $file if $0 ne $file;
    open_data($script);
    $script->{code} = Tsubame::Run::call( \&Tsubame::Eval::compile, $source );
    die $@ if $@;
    return if !$script->{code};
    return $scripts{$file} = $script;
}

# What `<DATA>` reads, from its beginning in every run.
sub open_data {
    my ($script) = @_;
    return if !defined $script->{data};
    no strict 'refs';
    open *{"$script->{package}::DATA"}, '<', \$script->{data} or die "cannot open DATA: $!\n";
}

# Switches of perl on the first line: text that has the same effect, and whether warnings are on.
sub perl_switches {
    my ( $file, $switches ) = @_;
    my ( $prefix, $warnings, @missing ) = ( '', $given );
    for my $switch (@$switches) {
        if ( $switch =~ /\A-I(.+)/ ) { unshift @INC, $1; next }
        if ( $switch =~ /\A-([mM])(-?)([\w:]+)(?:=(.*))?\z/s ) {
            my $list = defined $4 ? ' split(/,/,q' . "\0$4\0)" : $1 eq 'm' ? ' ()' : '';
            $prefix .= ( $2 ? 'no ' : 'use ' ) . "$3$list;";
            next;
        }
        for my $letter ( $switch =~ /\A-(.*)/ ? split //, $1 : () ) {
            $warnings = 1 if $letter eq 'w' || $letter eq 'W';
            push @missing, "-$letter" if $letter =~ /[Tt]/ && !${^TAINT};
        }
    }
    Tsubame::Persistent::start_anew(@missing) if @missing;
    return ( $prefix, $warnings );
}

sub speedy_switches {
    while (@_) {
        my $switch = shift;
        next if $switch !~ /\A-([trMgBbpT])(.*)\z/s;
        my ( $letter, $value ) = ( $1, $2 );
        $value = shift if $value eq '' && $letter ne 'g' && @_ && $_[0] !~ /\A-/;
        $value = 'default' if $letter eq 'g' && $value eq '';
        $options{ $LETTERS{$letter} } = $value;
    }
}

1;
