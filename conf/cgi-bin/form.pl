#!/usr/bin/perl
# Shows a form, and the fields that it sent: in the query with GET, in the body with POST.
use strict;
use warnings;

# The most bytes that are read.
my $LONGEST = 64 * 1024;

sub decode {
    my ($text) = @_;
    $text =~ tr/+/ /;
    $text =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
    return $text;
}

# Values from outside are text, never markup.
sub text {
    my ($text) = @_;
    my %entity = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;', "'" => '&#39;');
    $text =~ s/([&<>"'])/$entity{$1}/g;
    return $text;
}

my $method = $ENV{REQUEST_METHOD} // 'GET';
my $sent   = $ENV{QUERY_STRING} // '';
if ($method eq 'POST') {
    my $length = $ENV{CONTENT_LENGTH} || 0;
    $length = $LONGEST if $length > $LONGEST;
    binmode STDIN;
    $sent = '';
    while (length $sent < $length) {
        read(STDIN, $sent, $length - length $sent, length $sent) or last;
    }
}
my @fields = map { [ map { decode($_ // '') } split /=/, $_, 2 ] } grep { length } split /[&;]/, $sent;

my $rows = join '', map {
    my ($name, $value) = @$_;
    '<tr><th scope="row">' . text($name) . '</th><td>' . text($value // '') . "</td></tr>\n";
} @fields;
my $answer = $rows
    ? '<h2>Fields sent with ' . text($method) . "</h2>\n<table class=\"sent\">\n$rows</table>\n"
    : '';
my $action = text($ENV{SCRIPT_NAME} // '');

binmode STDOUT;
print "Content-Type: text/html; charset=utf-8\n\n", <<"PAGE";
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A form</title>
<link rel="stylesheet" href="/.tsubame/style.css">
<link rel="icon" href="/.tsubame/icon.svg">
<h1>A form</h1>
$answer
<form method="post" action="$action" accept-charset="utf-8">
  <label>Your name <input name="name" autocomplete="name"></label>
  <label>A few words <textarea name="words" rows="3"></textarea></label>
  <button>Send</button>
</form>
<p><a href="/">Back</a></p>
</html>
PAGE
