package Apache2::Log;

# The error log: `$r->log_error`, `$r->warn`, `$r->log->info` and the same of the server.

use strict;
use warnings;

my @LEVELS = qw(emerg alert crit error warn notice info debug);

# A line of the error log. Outside of a request, and in processes that a script has forked, it goes to standard error.
sub line {
    my ( $level, @parts ) = @_;
    my $text = join '', map { ref $_ eq 'CODE' ? $_->() : defined $_ ? $_ : '' } @parts;
    utf8::encode($text) if utf8::is_utf8($text);
    $text =~ tr/\0/ /;
    if ( $Tsubame::Stdio::active && $$ == $Tsubame::Stdio::owner ) {
        $text = substr $text, 0, 1 << 19;
        $text =~ s/\s+\z//;
        Tsubame::Persistent::transmit( pack 'N N/a*', 6, "level\0$level\0text\0$text\0" );
    }
    else {
        $text .= "\n" if $text !~ /\n\z/;
        print STDERR $text;
    }
    return;
}

for my $level (@LEVELS) {
    no strict 'refs';
    *$level = sub { shift; line( $level, @_ ) };
}

sub _with_level {
    my ( undef, undef, undef, $level, undef, @text ) = @_;
    line( $LEVELS[ $level & 7 ], @text );
}

{
    no warnings 'once';
    *log_error   = sub { shift; line( 'error', @_ ) };
    *log_serror  = \&_with_level;
    *log_rerror  = \&_with_level;
    for my $class (qw(Apache2::RequestRec Apache2::ServerRec)) {
        no strict 'refs';
        *{"${class}::log"}        = sub { return bless {}, 'Apache2::Log' };
        *{"${class}::log_error"}  = sub { shift; line( 'error', @_ ) };
        *{"${class}::warn"}       = sub { shift; line( 'warn', @_ ) };
        *{"${class}::log_serror"} = \&_with_level;
        *{"${class}::log_rerror"} = \&_with_level;
    }
}

# `log_reason($why, $file)`: why a request was refused.
sub Apache2::RequestRec::log_reason {
    my ( $r, $reason, $file ) = @_;
    line( 'error', "access to ", defined $file ? $file : $r->uri, " failed, reason: $reason" );
}

sub LOG_MARK { my ( undef, $file, $line ) = caller; return ( $file, $line ) }

1;
