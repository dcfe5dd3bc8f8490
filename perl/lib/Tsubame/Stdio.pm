package Tsubame::Stdio;

# STDIN, STDOUT and STDERR of a script in a persistent interpreter. They are real handles on the descriptors 0, 1 and 2 with
# a layer that turns what is written into frames and what is read out of them. So print, printf, write, formats, $|, binmode,
# select, dup and `local *STDOUT` are Perl's own. Descriptor 1 itself is a file without a name, the spool: what programs
# started by the script, forked children and dups write goes there, and is drained into the answer in its place.
# Whether a handle was opened anew is seen by the identity of the descriptor, because Perl keeps the layers of the standard handles.

use strict;
use warnings;
use Fcntl ();
use Tsubame::System ();

use constant { OUTPUT => 4, ERROR => 5, LONGEST => 1 << 20, ENOUGH => 1 << 16, BUFFER => 8192 };

our $owner;           # the process that speaks on the connection; its children do not
our $active = 0;      # a request is being served
our $out    = '';     # what is to be sent
our $sent   = 0;      # bytes of output that were sent or discarded
our $head;            # its header_text belongs before the first output, once
our $read   = 0;      # the script has read from STDIN
our $children = 0;    # the script has started a process: this one may be its child
our $collected = 0;   # what the script has printed is in $out, and nothing of a script's has run since
our $pushed = 0;      # a layer was put on a handle or taken from one: the script has made a dup, or has closed a handle

my ( $OUT, $IN, $ERR ) = ( *STDOUT{IO}, *STDIN{IO}, *STDERR{IO} );
*OUT = $OUT;
my ( $fd0, $fd1, $fd2, $null, $log, $sentinel );
my ( $base0, $base1, $base2 );    # what the descriptors are when nobody has changed them
my ( $spool, $drained ) = ( undef, 0 );
my ( $layers_out, $layers_in, $layers_err );
my ( $line, $ending, $full, $spilled, $looked ) = ( '', 0, 0, 0, 0 );

# Takes the descriptors 0, 1 and 2 over; whatever was there is no longer needed, except 2.
sub start {
    $owner = $$;
    open $null, '+<', '/dev/null'  or die "cannot open /dev/null: $!";
    open $log,  '>&', \*STDERR     or die "cannot keep standard error: $!";
    Tsubame::System::dup2( fileno $null, 0 );
    Tsubame::System::dup2( fileno $null, 1 );
    open $fd0, '<&=', 0 or die "descriptor 0: $!";
    open $fd1, '>&=', 1 or die "descriptor 1: $!";
    open $fd2, '>&=', 2 or die "descriptor 2: $!";
    binmode $_ for $fd0, $fd1, $fd2;
    $base0 = identity($fd0);
    $base2 = identity($fd2);
    new_spool();
    layers_of_out();
    layers_of_in();
    layers_of_err();
    $pushed = 0;
    # Perl flushes every handle before it starts a process: this one has nothing to write, it only takes notice.
    open $sentinel, '>:via(Tsubame::Stdio::Sentinel)', '/dev/null' or die "no sentinel: $!";
}

# A request begins.
sub begin {
    ($head) = @_;
    ( $out, $sent, $line, $ending, $full, $read, $children, $spilled, $collected ) = ( '', 0, '', 0, 0, 0, 0, 0, 0 );
    $active = 1;
}

# A request ends: everything is put back. What is left to send stays in $out.
sub finish {
    my ($discard) = @_;
    $ending = 1;
    # A script that was left in the middle of a write has left its buffer behind.
    $pushed = 1 if $discard;
    collect() if !$collected;
    # Handles were closed or are dups ($pushed), or have more layers than they should.
    layers_of_out() if $pushed || $layers_out != ( () = PerlIO::get_layers( *STDOUT, output => 1 ) );
    end_line() if length $line;
    Tsubame::System::dup2( fileno $log, 2 ) if !is_same( $fd2, $base2 );
    layers_of_err() if $pushed || $layers_err != ( () = PerlIO::get_layers( *STDERR, output => 1 ) );
    if ( $read || $spilled || $pushed || $layers_in != ( () = PerlIO::get_layers(*STDIN) ) ) {
        Tsubame::System::dup2( fileno $null, 0 );
        layers_of_in();
    }
    # A process that goes on in the background must not write into the next request's answer.
    new_spool() if $children || $drained;
    $pushed = 0;
    select STDOUT;
    $active = 0;
    $out = '' if $discard;
}

# Sends what there is, with $tail (frames) behind it, in one system call if possible.
sub send_out {
    my ($tail) = @_;
    my $data = '';
    if ( length $out ) {
        if ($head) {
            my $make = $head;
            undef $head;
            $out = $make->header_text . $out;
        }
        $sent += length $out;
        if ( length $out <= LONGEST ) {
            $data = pack 'N N/a*', OUTPUT, $out;
        }
        else {
            $data .= pack 'N N/a*', OUTPUT, $_ for unpack '(a' . LONGEST . ')*', $out;
        }
        $out = '';
    }
    $data .= $tail if defined $tail;
    return length $data ? Tsubame::Persistent::transmit($data) : 1;
}

# Takes what the script has printed and what others have written. Nothing is sent yet, unless it is much.
sub collect {
    my $before = $ending;
    ( $ending, $looked ) = ( 1, 0 );
    Tsubame::System::flush( \*OUT );
    # What was just written has come by write_out, and with it what others have written.
    if ( !$looked || $children ) {
        if ( !is_same( $fd1, $base1 ) ) {
            Tsubame::System::dup2( fileno $spool->[1], 1 );
            is_same( $fd1, $base1 );
        }
        drain( -s _ ) if ( -s _ || 0 ) > $drained;
    }
    ( $ending, $collected ) = ( $before, 1 );
}

# Whether the script, which is over, has written anything.
sub has_output {
    collect() if !$collected;
    return $sent || length $out;
}

# Throws away what was not sent yet; what comes from here on has no header made for it.
sub discard {
    hold();
    $out = '';
    undef $head;
}

# This is the whole answer, with its header.
sub answer {
    discard();
    $out = $_[0];
}

# Takes what Perl has buffered, and does not send it yet.
sub hold {
    $ending = 1;
    Tsubame::System::flush( \*OUT );
    $ending = 0;
}

sub flush {
    Tsubame::System::flush( \*OUT );
    send_out() if $active;
}

# Lets `tell STDOUT` begin at 0 again.
sub rewind { seek STDOUT, 0, 0; return }

# The script's own output, whatever STDOUT is at the moment.
sub handle_out { return $OUT }
sub handle_in  { return $IN }

# The rest of the request's body becomes a file on descriptor 0, for other processes and for sysread.
sub spill {
    return if $spilled || !$active || $ending || $$ != $owner || !is_same( $fd0, $base0 );
    $spilled = 1;
    my $file;
    while ( defined( my $piece = Tsubame::Persistent::input(ENOUGH) ) ) {
        $file ||= temporary_file();
        last if !$file;
        write_all( $file->[1], $piece );
    }
    Tsubame::System::dup2( fileno $file->[0], 0 ) if $file;
}

# Text for standard error from outside of a request.
sub complain {
    my ($text) = @_;
    write_all( $log, $text );
}

# --- The layers

sub layers_of_out {
    if ( ( fileno *STDOUT // -1 ) != 1 ) {
        close STDOUT;
        open STDOUT, '>&=', 1 or complain("cannot open STDOUT again: $!\n");
    }
    binmode *STDOUT, ':pop' while grep { !/^(?:unix|perlio)$/ } PerlIO::get_layers( *STDOUT, output => 1 );
    binmode $OUT, ':via(Tsubame::Stdio::Out):perlio';
    $layers_out = () = PerlIO::get_layers( *STDOUT, output => 1 );
}

sub layers_of_in {
    close STDIN;
    open STDIN, '<&=', 0 or complain("cannot open STDIN again: $!\n");
    binmode $IN, ':via(Tsubame::Stdio::In):perlio';
    $layers_in = () = PerlIO::get_layers(*STDIN);
}

sub layers_of_err {
    if ( ( fileno *STDERR // -1 ) != 2 ) {
        close STDERR;
        open STDERR, '>&=', 2 or complain("cannot open STDERR again: $!\n");
    }
    binmode *STDERR, ':pop' while grep { !/^(?:unix|perlio)$/ } PerlIO::get_layers( *STDERR, output => 1 );
    binmode $ERR, ':via(Tsubame::Stdio::Err)';
    $layers_err = () = PerlIO::get_layers( *STDERR, output => 1 );
}

# --- The spool

sub new_spool {
    $drained = 0;
    $spool = temporary_file() || [ $null, $null ];
    Tsubame::System::dup2( fileno $spool->[1], 1 );
    $base1 = identity($fd1);
}

# Two descriptors of a new file without a name, for reading and for writing.
sub temporary_file {
    for my $directory ( $ENV{TMPDIR}, '/tmp', '/var/tmp', '/dev/shm' ) {
        next if !defined $directory || $directory !~ m{^(/[\w/.-]*)\z};
        my $name = sprintf '%s/tsubame-%d-%08x', $1, $$, int rand 0xffffffff;
        sysopen my $writer, $name, Fcntl::O_WRONLY() | Fcntl::O_CREAT() | Fcntl::O_EXCL() | Fcntl::O_APPEND(), 0600 or next;
        my $opened = sysopen my $reader, $name, Fcntl::O_RDONLY();
        unlink $name;
        return [ $reader, $writer ] if $opened;
    }
    complain("the Perl runtime cannot write to a temporary directory ($!): what programs started by scripts print is lost\n");
    return;
}

# What others have written to the spool joins the output.
sub drain {
    my ($size) = @_;
    while ( $drained < $size ) {
        my $count = sysread $spool->[0], $out, ENOUGH, length $out;
        last if !$count;
        $drained += $count;
        send_out() if length $out >= ENOUGH;
    }
}

sub drain_now {
    drain( -s _ ) if is_same( $fd1, $base1 ) && ( -s _ || 0 ) > $drained;
}

# --- What the layers do

# Device and inode.
sub identity { return [ ( stat $_[0] )[ 0, 1 ] ] }

# Whether a handle is what it was. Leaves its size in `-s _`.
sub is_same {
    my ( $device, $inode ) = stat $_[0];
    return defined $inode && $inode == $_[1][1] && $device == $_[1][0];
}

# $below is the handle that the layer is on: a dup of STDOUT has the same layers and another descriptor.
sub write_out {
    my $below = $_[1];
    if ( $children && $$ != $owner || !is_same( $below, $base1 ) ) {
        return write_all( $below, $_[0] );
    }
    $looked = 1;
    return length $_[0] if !$active;
    if ($Tsubame::Persistent::gone) {
        Tsubame::Persistent::nobody_listens();
        return $Tsubame::Run::running ? -1 : length $_[0];
    }
    drain( -s _ ) if ( -s _ || 0 ) > $drained;
    $out .= $_[0];
    $full = length $_[0] == BUFFER;
    if ( length $out >= ENOUGH ) {
        send_out() or return -1;
    }
    return length $_[0];
}

# A full buffer is no reason to send; `$|` and flush are, and they flush once more.
sub flush_out {
    if ( !$ending && !$full && $active && !( $children && $$ != $owner ) ) {
        drain_now();
        send_out() if length $out;
    }
    $full = 0;
    return 0;
}

sub write_err {
    my $below = $_[1];
    my $speaks = $active && !( $children && $$ != $owner );
    if ( $speaks && is_same( $below, $base1 ) ) {
        $out .= $_[0];
    }
    elsif ( $speaks && is_same( $below, $base2 ) ) {
        $line .= $_[0];
        my $end = 1 + rindex $line, "\n";
        Tsubame::Persistent::transmit_pieces( ERROR, substr $line, 0, $end, '' ) if $end;
    }
    else {
        return write_all( $below, $_[0] );
    }
    return length $_[0];
}

sub end_line {
    Tsubame::Persistent::transmit_pieces( ERROR, $line );
    $line = '';
}

sub fill_in {
    my ($below) = @_;
    $read = 1;
    if ( $children && $$ != $owner || !is_same( $below, $base0 ) ) {
        my $count = sysread $below, my $piece, BUFFER;
        return $count ? $piece : undef;
    }
    return $active ? Tsubame::Persistent::input(BUFFER) : undef;
}

sub write_all {
    my ( $handle, $data ) = @_;
    my $done = 0;
    while ( $done < length $data ) {
        my $count = syswrite $handle, $data, length($data) - $done, $done;
        if ( !defined $count ) {
            next if $!{EINTR};
            return -1;
        }
        $done += $count;
    }
    return $done;
}

package Tsubame::Stdio::Out;

sub PUSHED  { my $self; $Tsubame::Stdio::pushed = 1; return bless \$self, $_[0] }
sub POPPED  { $Tsubame::Stdio::pushed = 1 }
sub BINMODE { return 0 }
sub WRITE   { return Tsubame::Stdio::write_out( $_[1], $_[2] ) }
sub FLUSH   { return Tsubame::Stdio::flush_out() }
sub SEEK    { return 0 }
sub TELL    { return 0 }

# Asked for by syswrite, dup and the like: what went to the descriptor before goes out first.
sub FILENO { Tsubame::Stdio::drain_now() if $Tsubame::Stdio::active; return fileno $_[1] }

package Tsubame::Stdio::Err;

sub PUSHED  { my $self; $Tsubame::Stdio::pushed = 1; return bless \$self, $_[0] }
sub POPPED  { $Tsubame::Stdio::pushed = 1 }
sub BINMODE { return 0 }
sub WRITE   { return Tsubame::Stdio::write_err( $_[1], $_[2] ) }
sub FLUSH   { return 0 }
sub FILENO  { return fileno $_[1] }

package Tsubame::Stdio::In;

sub PUSHED  { my $self; $Tsubame::Stdio::pushed = 1; return bless \$self, $_[0] }
sub POPPED  { $Tsubame::Stdio::pushed = 1 }
sub BINMODE { return 0 }
sub FILL    { return Tsubame::Stdio::fill_in( $_[1] ) }
sub FLUSH   { return 0 }
sub FILENO  { Tsubame::Stdio::spill(); return fileno $_[1] }

package Tsubame::Stdio::Sentinel;

sub PUSHED { my $self; return bless \$self, $_[0] }
sub WRITE  { return length $_[1] }

sub FLUSH {
    if ( $Tsubame::Stdio::active && $$ == $Tsubame::Stdio::owner ) {
        $Tsubame::Stdio::children = 1;
        Tsubame::Stdio::spill();
    }
    return 0;
}

1;
