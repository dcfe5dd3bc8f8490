package Apache2::RequestIO;

# Reading and writing through `$r`.

use strict;
use warnings;

package Apache2::RequestRec;

use Errno ();

sub print {
    my $r = shift;
    local ( $,, $\ );
    my $handle = Tsubame::Stdio::handle_out();
    CORE::print {$handle} map { ref $_ eq 'SCALAR' ? $$_ : $_ } @_;
    my $length = 0;
    $length += length for @_;
    return $length || '0E0';
}

sub puts { my $r = shift; return $r->print(@_) }

sub printf {
    my ( $r, $format, @values ) = @_;
    return $r->print( sprintf $format, @values );
}

sub write {
    my ( $r, $data, $length, $offset ) = @_;
    $length = length($data) - ( $offset || 0 ) if !defined $length || $length < 0;
    return $r->print( substr $data, $offset || 0, $length );
}

sub rflush { Tsubame::Stdio::flush(); return }

sub sendfile {
    my ( $r, $file, $offset, $length ) = @_;
    open my $handle, '<', $file or do {
        return $! + 0 if defined wantarray;
        require APR::Error;
        APR::Error->throw( $!, 'Apache2::RequestIO::sendfile' );
    };
    binmode $handle;
    seek $handle, $offset, 0 if $offset;
    my $left = defined $length && $length >= 0 ? $length : -s $handle;
    while ( $left > 0 ) {
        my $count = CORE::read $handle, my $piece, $left < 65536 ? $left : 65536;
        last if !$count;
        $r->print($piece);
        $left -= $count;
    }
    return 0;
}

# read($buffer, $length, $offset), as Perl's own.
sub read {
    my ( $r, undef, $length, $offset ) = @_;
    return CORE::read Tsubame::Stdio::handle_in(), $_[1], $length, $offset || 0;
}

sub setup_client_block  { return 0 }
sub should_client_block { return ( $ENV{CONTENT_LENGTH} || 0 ) > 0 || defined $ENV{HTTP_TRANSFER_ENCODING} ? 1 : 0 }
sub get_client_block    { my ( $r, undef, $length ) = @_; return CORE::read Tsubame::Stdio::handle_in(), $_[1], $length }

sub discard_request_body {
    1 while CORE::read Tsubame::Stdio::handle_in(), my $piece, 65536;
    return 0;
}

# Handlers of tied handles, which scripts of mod_perl 1 call.
sub OPEN     { return 1 }
sub BINMODE  { return binmode Tsubame::Stdio::handle_out() }
sub CLOSE    { return 1 }
sub FILENO   { return fileno Tsubame::Stdio::handle_out() }
sub READLINE { my $handle = Tsubame::Stdio::handle_in(); return <$handle> }
sub GETC     { return getc Tsubame::Stdio::handle_in() }
sub UNTIE    { return 1 }
{
    no warnings 'once';
    *PRINT  = \&print;
    *PRINTF = \&printf;
    *WRITE  = \&write;
    *READ   = \&read;
}

1;
