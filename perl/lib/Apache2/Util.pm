package Apache2::Util;

# Times and escapes.

use strict;
use warnings;

my @DAYS   = qw(Sun Mon Tue Wed Thu Fri Sat);
my @MONTHS = qw(Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec);

# A time as HTTP writes it.
sub http_time {
    my ($time) = @_;
    my @t = gmtime $time;
    return sprintf '%s, %02d %s %d %02d:%02d:%02d GMT', $DAYS[ $t[6] ], $t[3], $MONTHS[ $t[4] ], $t[5] + 1900, @t[ 2, 1, 0 ];
}

# The reverse, or undef.
sub parse_http {
    my ($text) = @_;
    my ( $day, $month, $year, @clock ) = $text =~ /\A\w+,\s+(\d+)\s+(\w{3})\s+(\d{4})\s+(\d+):(\d+):(\d+)/ or return;
    my ($number) = grep { $MONTHS[$_] eq $month } 0 .. 11;
    return if !defined $number;
    require Time::Local;
    return eval { Time::Local::timegm( reverse(@clock), $day, $number, $year ) };
}

sub ht_time {
    my ( undef, $time, $format, $gmt ) = @_;
    return http_time( defined $time ? $time : time ) if !defined $format;
    require POSIX;
    return POSIX::strftime( $format, $gmt ? gmtime $time : localtime $time );
}

sub escape_path {
    my ($path) = @_;
    $path =~ s{([^A-Za-z0-9\$\-_.+!*'(),:@&=/~])}{sprintf '%%%02x', ord $1}ge;
    return $path;
}

1;
