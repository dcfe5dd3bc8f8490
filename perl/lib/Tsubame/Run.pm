package Tsubame::Run;

# Runs a script's code: `exit`, `die`, forked children, and what is to be done at the end of a request or of the interpreter.

use strict;
use warnings;
use APR::Error ();

our $running = 0;
our $status  = 0;      # what the script gave to exit
our $exited  = 0;
our @cleanups;         # run at the end of the request
our @shutdowns;        # run when the interpreter ends

# Every `exit` that is compiled from here on ends the script and not the interpreter.
BEGIN {
    no warnings 'once';
    *CORE::GLOBAL::exit = sub (;$) { leave( @_ ? $_[0] : 0 ) };
}

# Ends the script from wherever it is.
sub leave {
    my ($code) = @_;
    if ( !$running || $$ != $Tsubame::Stdio::owner ) {
        CORE::exit( $code || 0 );
    }
    $status = ( $code || 0 ) & 255;
    $exited = 1;
    # An exception would be caught by an eval of the script, so jump over it. That is not possible out of sort blocks, signal
    # handlers and the like: there it is an exception all the same.
    {
        local $@;
        local $SIG{__DIE__};
        eval { no warnings 'exiting'; last TSUBAME_SCRIPT };
    }
    die $APR::Error::EXIT;
}

# Calls $code with the arguments. Returns what it returned; $@ is the error, '' after a normal end or exit.
sub call {
    my ( $code, @arguments ) = @_;
    my ( $result, $done );
    local ( $running, $exited ) = ( 1, 0 );
    $status = 0;
    $Tsubame::Stdio::collected = 0;
  TSUBAME_SCRIPT: {
        $done = eval { $result = $code->(@arguments); 1 };
    }
    if ( $exited || ( ref $@ && ref $@ eq 'APR::Error' && $@->is_exit ) || $done ) {
        $@ = '';
    }
    elsif ( !ref $@ && $@ eq '' ) {
        $@ = "the script died without a message\n";
    }
    return $result;
}

# Calls a list of code references, complaining about what dies; each runs whatever the others do.
sub call_all {
    for my $code (@_) {
        call( ref $code eq 'ARRAY' ? @$code : $code );
        print STDERR message($@) if $@;
    }
}

# Runs these clean-ups, and then those that were registered. The client has the answer before, and need not wait for them.
sub cleanup {
    my @now = @_;
    Tsubame::Stdio::flush() if @now || grep { !is_quick($_) } @cleanups;
    while ( @now || @cleanups ) {
        call_all( @now, splice @cleanups );
        @now = ();
    }
}

# CGI.pm registers one in each request that sets a few variables: not worth a system call of its own for the answer.
sub is_quick {
    my ($cleanup) = @_;
    my $code = ref $cleanup eq 'ARRAY' ? $cleanup->[0] : $cleanup;
    return defined &CGI::_reset_globals && $code == \&CGI::_reset_globals;
}

sub shutdown {
    my @now = splice @shutdowns;
    call_all(@now);
}

# A process that the script forked has come to the script's end: it ends as a process of its own.
sub child_ends {
    my ($outcome) = @_;
    print STDERR $outcome->{message} if defined $outcome->{message};
    CORE::exit( defined $outcome->{message} ? 255 : $outcome->{status} || 0 );
}

# An error as text that ends in a new line.
sub message {
    my ($error) = @_;
    my $text = eval { "$error" };
    $text = 'an exception that has no text' if !defined $text;
    $text .= "\n" if $text !~ /\n\z/;
    return $text;
}

# END blocks. Perl keeps them in an array that only B can name. Its elements are code and not references to code, which Perl
# cannot copy: they are named by B, and removed without being looked at.
sub end_blocks {
    require B;
    my $blocks = B::end_av();
    return ref $blocks eq 'B::SPECIAL' ? undef : $blocks;
}

# Takes the END blocks of a package that came since there were $before of them out of Perl's own list. The latest is first.
sub take_end_blocks {
    my ( $package, $before ) = @_;
    my $blocks = end_blocks() or return;
    my @codes  = $blocks->ARRAY;
    my $array  = $blocks->object_2svref;
    my @taken;
    for my $index ( reverse 0 .. $#codes - $before ) {
        next if $codes[$index]->STASH->NAME ne $package;
        unshift @taken, $codes[$index]->object_2svref;
        splice @$array, $index, 1;
    }
    return @taken;
}

sub count_end_blocks {
    my $blocks = end_blocks();
    return $blocks ? scalar @{ [ $blocks->ARRAY ] } : 0;
}

1;
