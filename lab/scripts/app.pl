#!/usr/bin/perl
# A small application as people write them: CGI.pm, a dozen modules, a page with a table. It runs as a CGI script, under
# every class of persistent Perl, and as a FastCGI application when it is started without a request.
use strict;
use warnings;
use CGI ();
use Cwd ();
use Data::Dumper ();
use Digest::MD5 ();
use Encode ();
use File::Basename ();
use File::Spec ();
use Getopt::Long ();
use JSON::PP ();
use List::Util ();
use MIME::Base64 ();
use POSIX ();
use Storable ();
use Text::Wrap ();
use Time::Local ();

sub page {
    my ($q) = @_;
    my $who = $q->param('who');
    $who = 'world' if !defined $who;
    my @rows = map { { number => $_, digest => substr( Digest::MD5::md5_hex("$who $_"), 0, 8 ) } } 1 .. 20;
    my $json = JSON::PP->new->canonical->encode( [ $rows[0] ] );
    my $text = $q->header( -type => 'text/html', -charset => 'utf-8' );
    $text .= '<html><head><title>' . $q->escapeHTML($who) . "</title></head><body>\n<table>\n";
    $text .= "<tr><td>$_->{number}</td><td>" . $q->escapeHTML( $_->{digest} ) . "</td></tr>\n" for @rows;
    $text .= "</table>\n<p>" . $q->escapeHTML($json) . '</p><p>' . List::Util::sum( map { $_->{number} } @rows );
    return $text . "</p></body></html>\n";
}

if ( exists $ENV{REQUEST_METHOD} ) {
    print page( CGI->new );
}
else {
    require CGI::Fast;
    while ( my $q = CGI::Fast->new ) {
        print page($q);
    }
}
