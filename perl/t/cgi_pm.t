# CGI.pm and CGI::Carp, which programs by others are made with, under every class.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Driver qw(runtime script site slurp need_cgi);
use Test::More;

BEGIN { need_cgi() }

my @CLASSES = qw(ModPerl::Registry ModPerl::RegistryPrefork ModPerl::PerlRun ModPerl::PerlRunPrefork Speedy Fork);

for my $class (@CLASSES) {
    my $runtime = runtime( $class eq 'Fork' ? 'fork' : 'persistent' );
    my $text = <<'END_OF_SCRIPT';
#!/usr/bin/perl -w
use strict;
use CGI;
my $q = CGI->new;
print $q->header(-type => 'text/plain', -cookie => $q->cookie(-name => 'c', -value => 'v'));
print join '|', map { "$_=" . join ',', $q->multi_param($_) } sort $q->param;
print '|', $q->request_method, '|', $q->url(-path_info => 1), '|', $q->cookie('in') || 'none';
END_OF_SCRIPT
    my $file = script( "$class/params.cgi", $text );
    my $ask = sub { $runtime->ask( handler => $class, file => $file, @_ ) };
    my $answer = $ask->( query => 'a=1&b=2&a=3' );
    like( $answer->{out}, qr{^Content-Type: text/plain}mi, "$class: header" );
    like( $answer->{out}, qr{^Set-Cookie: c=v}mi, "$class: cookie" );
    like( $answer->{out}, qr{\n\r?\na=1,3\|b=2\|GET\|http://localhost/params\.cgi\|none\z}, "$class: the query" );
    like( $ask->( method => 'POST', body => 'x=1&y=2' )->{out}, qr{x=1\|y=2\|POST\|}, "$class: POST" );
    like( $ask->( query => 'z=9', environment => { HTTP_COOKIE => 'in=out' }, list => { header => ['Cookie: in=out'] } )->{out}, qr{\n\r?\nz=9\|GET\|.*\|out\z}, "$class: nothing of the request before" );
    is( $answer->{err}, '', "$class: no warnings" );
    is( $answer->{end}{error}, undef, "$class: no error" );

    my $upload = script( "$class/upload.cgi", <<'END_OF_SCRIPT' );
use CGI;
my $q = CGI->new;
my $h = $q->upload('file');
print $q->header('text/plain'), $q->param('file'), ' ', length join '', <$h>;
END_OF_SCRIPT
    my $content = "0123456789\r\n" x 30_000;
    my $body = qq{--XX\r\nContent-Disposition: form-data; name="file"; filename="up.txt"\r\nContent-Type: text/plain\r\n\r\n$content\r\n--XX--\r\n};
    my $sent = $runtime->ask( handler => $class, file => $upload, method => 'POST', body => [ unpack '(a50000)*', $body ], environment => { CONTENT_TYPE => 'multipart/form-data; boundary=XX' } );
    like( $sent->{out}, qr{up\.txt 360000\z}, "$class: an upload" );

    my $redirect = $runtime->ask( handler => $class, file => script( "$class/redirect.cgi", 'use CGI; print CGI->new->redirect("http://elsewhere/");' ) );
    like( $redirect->{out}, qr{^Location: http://elsewhere/\r?$}m, "$class: redirect" );
    like( $redirect->{out}, qr{^Status: 302}m, "$class: its status" );

    my $carp = $runtime->ask( handler => $class, file => script( "$class/carp.cgi", 'use CGI::Carp qw(fatalsToBrowser); die "the <reason>\n";' ) );
    like( $carp->{out}, qr{the &lt;reason&gt;}, "$class: fatalsToBrowser" );
    like( $carp->{out}, qr{^Content-type: text/html}mi, "$class: with a header" );
    like( $carp->{out}, qr{^Status: 500}m, "$class: and a status" );
    like( $carp->{err} . join( '', map { $_->[1] } @{ $carp->{log} } ), qr{the <reason>}, "$class: and in the log" );
    my $late = $runtime->ask( handler => $class, file => script( "$class/late.cgi", 'use CGI::Carp qw(fatalsToBrowser); use CGI; $| = 1; print CGI->new->header("text/html"), "begun "; die "late\n";' ) );
    like( $late->{out}, qr{begun .*late}s, "$class: fatalsToBrowser behind a header" );
    unlike( $late->{out}, qr{begun .*Status:}s, "$class: without a second one" ) if $class =~ /ModPerl/;

    is( $runtime->stop, 0, "$class: the end" );
    is( $runtime->complaints, '', "$class: nothing was said" );
}

done_testing;
