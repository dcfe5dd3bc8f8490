package Tsubame::ModPerl;

# A request of `perl-script`: modules, fix-ups, and the response handler, which is a class of the Registry family or somebody's own.

use strict;
use warnings;
use Tsubame::Registry ();
use Tsubame::Status ();

# What scripts and modules know mod_perl by: variables of every request.
use constant ENVIRONMENT => "MOD_PERL\0mod_perl/2.0.12\0MOD_PERL_API_VERSION\0002\0";

# All of them at once, so that none of the same names elsewhere can come first, whatever a script does to @INC.
BEGIN {
    for my $name ( sort grep { m{\A(?:APR|Apache2|ModPerl)/|\Amod_perl} } keys %Tsubame::Bundle::text ) {
        require $name if $name ne 'Apache2/compat.pm';
    }
}

our $current;    # the request that is being served: Apache2::RequestUtil->request

my ( %loaded, %handlers );
my %ALIASES = map { ( "Apache::$_" => "ModPerl::$_" ) } qw(Registry RegistryBB PerlRun);
$ALIASES{'Apache::RegistryNG'} = 'ModPerl::Registry';
$ALIASES{"Apache2::$_"} = "ModPerl::$_" for qw(Registry PerlRun);
my $root = '';

sub run {
    my ($request) = @_;
    Tsubame::Persistent::set_environment( $request, ENVIRONMENT );
    @ARGV = ();
    if ( $root ne $request->{root} ) {
        $root = $request->{root};
        chdir $root;
    }
    my $r = $current = Apache2::RequestRec::begin($request);
    Tsubame::Stdio::begin($r);
    my $rc      = eval { serve( $r, $request ) };
    my $error   = $@;
    my $outcome = { status => $Tsubame::Run::status };
    if ($error) {
        $rc = 500;
        $outcome->{message} = Tsubame::Run::message($error);
    }
    return $outcome if $Tsubame::Stdio::children && $$ != $Tsubame::Stdio::owner;
    $r->log_error( $outcome->{message} ) if $error;
    answer( $r, $rc, $outcome );
    if ( $r->{cleanups} || @Tsubame::Run::cleanups ) {
        Tsubame::Run::cleanup( $r->take_cleanups );
    }
    Tsubame::Registry::forget() if defined $Tsubame::Registry::leftover;
    undef $current;
    return $outcome;
}

# What the server has to make of the handler's status.
sub answer {
    my ( $r, $rc, $outcome ) = @_;
    if ( $rc == 0 || $rc == -2 ) {
        # A script need not print anything.
        $r->answer_with( $r->status, '' ) if !Tsubame::Stdio::has_output();
        return;
    }
    if ( $rc >= 400 && defined( my $custom = $r->{custom}{$rc} ) ) {
        $r->answer_custom( $rc, $custom ) if !$Tsubame::Stdio::sent;
        return;
    }
    if ( $rc == 500 ) {
        $outcome->{error} = defined $outcome->{message} ? $outcome->{message} : "the handler returned $rc";
    }
    $outcome->{http} = $rc;
    return if $Tsubame::Stdio::sent;
    # DECLINED means that nobody answers, unless the server has somebody.
    $r->answer_status( $rc < 0 ? 404 : $rc ) if $rc != 500;
}

# Returns the status of the handler, or dies with the script's error.
sub serve {
    my ( $r, $request ) = @_;
    load( module  => $request ) if exists $request->{module};
    load( require => $request ) if exists $request->{require};
    if ( exists $request->{fixup} ) {
        for my $name ( Tsubame::Persistent::repeated( $request, 'fixup' ) ) {
            my $rc = Tsubame::Run::call( handler($name), $r );
            die $@ if $@;
            $rc = numeric($rc);
            return $rc if $rc > 0 || $rc == -2;
        }
    }
    my $name = $request->{handler};
    $name = $ALIASES{$name} if exists $ALIASES{$name};
    if ( my $traits = $Tsubame::Registry::CLASSES{$name} ) {
        return Tsubame::Registry::run( $r, $name, $traits );
    }
    my $rc = Tsubame::Run::call( handler($name), $r );
    die $@ if $@;
    return numeric($rc);
}

# Requires modules and files, each once in the life of the interpreter.
sub load {
    my ( $kind, $request ) = @_;
    for my $name ( Tsubame::Persistent::repeated( $request, $kind ) ) {
        next if $loaded{"$kind $name"};
        my $file = $name;
        if ( $kind eq 'module' ) {
            $file =~ s{::}{/}g;
            $file .= '.pm';
        }
        else {
            $file = "$root/$file" if $file !~ m{\A/} && -e "$root/$file";
        }
        Tsubame::Run::call( sub { require $file } );
        die sprintf "%s %s: %s", $kind eq 'module' ? 'PerlModule' : 'PerlRequire', $name, Tsubame::Run::message($@) if $@;
        $loaded{"$kind $name"} = 1;
    }
}

# The code of a handler: a package, Package->method, a sub's name or text of an anonymous sub.
sub handler {
    my ($name) = @_;
    return $handlers{$name} ||= resolve($name);
}

sub resolve {
    my ($name) = @_;
    if ( $name =~ /\A\s*sub\b/ ) {
        my $code = Tsubame::Eval::text("package main; $name");
        die "cannot compile the handler \"$name\": $@" if ref $code ne 'CODE';
        return $code;
    }
    $name =~ s/\A\+//;
    if ( $name =~ /\A(.+)->(\w+)\z/ ) {
        my ( $class, $method ) = ( $1, $2 );
        require_package($class);
        return sub { $class->$method(@_) };
    }
    no strict 'refs';
    my $code = $name->can('handler') || defined &$name && \&$name;
    if ( !$code ) {
        my $error;
        for my $package ( $name, $name =~ /\A(.+)::\w+\z/ ) {
            last if eval { require_package($package); 1 };
            die $@ if $@ !~ /\ACan't locate/;
            $error = $@ if !defined $error;
        }
        $code = $name->can('handler') || defined &$name && \&$name;
        die $error || "the package $name has no sub handler\n" if !$code;
    }
    require attributes;
    return sub { $code->( $name, @_ ) } if grep { $_ eq 'method' } attributes::get($code);
    return $code;
}

sub require_package {
    my ($package) = @_;
    no strict 'refs';
    return if keys %{"${package}::"} && grep { defined &{"${package}::$_"} } grep { !/::\z/ } keys %{"${package}::"};
    ( my $file = "$package.pm" ) =~ s{::}{/}g;
    require $file;
}

# `sub { ...; return OK }` without Apache2::Const returns the word, as under mod_perl.
sub numeric {
    my ($rc) = @_;
    return defined $rc && $rc =~ /\A-?\d+\z/ ? $rc : 0;
}

1;
