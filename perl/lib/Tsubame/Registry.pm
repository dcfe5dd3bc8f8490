package Tsubame::Registry;

# Scripts as bodies of subs: ModPerl::Registry and its relatives.

use strict;
use warnings;
use Errno ();
use Tsubame::Run ();
use Tsubame::Eval ();
use Tsubame::Classes ();

our %CLASSES = (
    'ModPerl::Registry'        => { keeps => 1, checks => 1 },
    'ModPerl::RegistryPrefork' => { keeps => 1, checks => 1, changes_directory => 1 },
    'ModPerl::RegistryBB'      => { keeps => 1 },
    'ModPerl::PerlRun'         => {},
    'ModPerl::PerlRunPrefork'  => { changes_directory => 1 },
);

our $leftover;    # the package of a script that is not kept

my %scripts;

# Returns the status for the server, or dies with the error of the script.
sub run {
    my ( $r, $class, $traits ) = @_;
    my $file   = $r->{request}{file};
    my $script = $traits->{keeps} ? $scripts{"$class $file"} : undef;
    $leftover = Tsubame::Classes::package_for( "ModPerl::ROOT::$class", $file ) if !$traits->{keeps};
    if ( !$script || $traits->{checks} ) {
        my @stat = stat $file;
        return missing( $r, $file ) if !@stat;
        return -1 if !-f _;
        # A file that was put in the place of another may have the same second as its time.
        my $identity = "@stat[0, 1, 7, 9]";
        if ( !$script || $script->{identity} ne $identity ) {
            $script = compile( $r, $class, $traits, $file );
            return $script if !ref $script;
            $script->{identity} = $identity;
            $scripts{"$class $file"} = $script if $traits->{keeps};
        }
    }
    $r->{assbackwards} = 1 if $script->{nph};
    chdir $script->{directory} if $traits->{changes_directory};
    my $loaded = $traits->{keeps} ? undef : join "\0", keys %INC;

    # Not local, as in mod_perl: each assignment costs three system calls.
    $0 = $file if $0 ne $file;
    Tsubame::Run::call( $script->{code}, $r );
    my $error = $@;
    my $status = $Tsubame::Run::status;
    # A forked child ends here: what follows is the parent's.
    if ( $Tsubame::Stdio::children && $$ != $Tsubame::Stdio::owner ) {
        die $error if $error;
        return 0;
    }
    if ( @{ $script->{ends} } ) {
        for my $block ( @{ $script->{ends} } ) {
            Tsubame::Run::call($block);
            $error ||= $@;
        }
        $Tsubame::Run::status = $status;
    }
    if ( defined $loaded && $loaded ne join "\0", keys %INC ) {
        my %before = map { $_ => 1 } split /\0/, $loaded;
        delete @INC{ grep { !$before{$_} && !/\.pm\z/ } keys %INC };
    }
    chdir $r->{request}{root} if $traits->{changes_directory};
    if ($error) {
        my $text = Tsubame::Run::message($error);
        $r->notes->set( 'error-notes' => $text );
        no strict 'refs';
        ${ '@' . $r->uri } = $text;
        die $error;
    }
    # A script that sets a status and prints a page wants them together; without a page the server has one for the status.
    my $set = $r->status;
    return 0 if $set == 200 || Tsubame::Stdio::has_output();
    $r->status(200);
    return $set;
}

# Nothing of a script stays that is not kept, and its clean-ups have run.
sub forget {
    Tsubame::Classes::empty_package($leftover);
    undef $leftover;
}

sub compile {
    my ( $r, $class, $traits, $file ) = @_;
    my $text = Tsubame::Classes::slurp($file);
    if ( !defined $text ) {
        return missing( $r, $file );
    }
    my $package = Tsubame::Classes::package_for( "ModPerl::ROOT::$class", $file );
    my ($directory) = $file =~ m{\A(.*)/}s;
    $directory = '/' if !length $directory;
    my ($switches) = Tsubame::Classes::shebang($text);
    my $warnings = '';
    for my $letters ( map { /\A-([a-zA-Z]+)/ ? $1 : () } @$switches ) {
        $warnings = 'use warnings;' if $letters =~ /w/;
        print STDERR "-T on the first line of $file has no effect: say PerlSwitches -T\n" if $letters =~ /T/ && !${^TAINT};
    }
    my ($program) = Tsubame::Classes::program($text);
    my $source = "package $package;sub handler {$warnings\n#line 1 $file\n$program\n}\n1;";

    chdir $directory if $traits->{changes_directory};
    my $has_end = $program =~ /\bEND\s*\{/;
    my $before = $has_end ? Tsubame::Run::count_end_blocks() : 0;
    {
        no strict 'refs';
        no warnings;
        undef &{"${package}::handler"};
    }
    my $compiled = Tsubame::Run::call( \&Tsubame::Eval::compile, $source );
    my $error = $@;
    chdir $r->{request}{root} if $traits->{changes_directory};
    if ($error) {
        $r->notes->set( 'error-notes' => Tsubame::Run::message($error) );
        die $error;
    }
    # A BEGIN block that calls exit leaves no script behind.
    return 0 if !$compiled;
    no strict 'refs';
    return {
        code      => \&{"${package}::handler"},
        directory => $directory,
        nph       => scalar $file =~ m{/nph-[^/]*\z},
        ends      => $has_end ? [ Tsubame::Run::take_end_blocks( $package, $before ) ] : [],
    };
}

sub missing {
    my ( $r, $file ) = @_;
    my $status = $!{EACCES} ? 403 : $!{ENOENT} || $!{ENOTDIR} ? 404 : 500;
    $r->log_error("cannot read $file: $!");
    return $status;
}

1;
