//! FastCGI applications for tests: in Perl with Debian's FCGI, in C with libfcgi, and one that sends whatever it is
//! asked to, well-formed or not.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::harness::site::Site;

/// Does what its query says:
///
/// | query | |
/// |---|---|
/// | `who` | its process, how many requests it has served, and the connection |
/// | `env` | its variables |
/// | `count` | length of the body, and the sum of its bytes |
/// | `echo` | the body |
/// | `big=N` | `N` bytes |
/// | `err=TEXT` | a line for the error log |
/// | `wait=NAME` | says that it is there, and waits until it may go on |
/// | `half=NAME` | the same in the middle of its response |
/// | `nap` | works for 50 ms |
/// | `ten` | ten digits |
/// | `exit` | ends instead of an answer |
pub const APPLICATION: &str = r#"#!/usr/bin/perl
use strict;
use FCGI;
my ($served, $request) = (0, FCGI::Request());
sub stay {
    my $mark = "$ENV{DOCUMENT_ROOT}/../marks/$_[0]";
    open(my $file, '>', "$mark.in") or die; print $file $$; close $file;
    select(undef, undef, undef, 0.003) until -e "$mark.go";
}
while ($request->Accept() >= 0) {
    my ($verb, $word) = split /=/, $ENV{QUERY_STRING}, 2;
    $served++;
    exit 3 if $verb eq 'exit';
    stay($word) if $verb eq 'wait';
    print STDERR "$word\n" if $verb eq 'err';
    print "Content-Type: text/plain\r\n\r\n";
    if ($verb eq 'who') {
        my @sockets = grep /socket/, map { readlink "/proc/$$/fd/$_" } 3 .. 20;
        print "$$ $served @sockets";
    }
    elsif ($verb eq 'env') {
        print "$_=$ENV{$_}\n" for sort keys %ENV;
        # FCGI closes the connection behind a body that was left unread, and a POST that was sent meanwhile is lost.
        my $rest; 1 while read(STDIN, $rest, 65536);
    }
    elsif ($verb eq 'count') {
        my ($length, $sum, $piece) = (0, 0);
        while (my $read = read(STDIN, $piece, 65536)) { $length += $read; $sum += unpack '%32C*', $piece }
        print "$length $sum";
    }
    elsif ($verb eq 'echo') { my $piece; print $piece while read(STDIN, $piece, 65536) }
    elsif ($verb eq 'big') { for (my $left = $word; $left > 0; $left -= 65536) { print 'x' x ($left < 65536 ? $left : 65536) } }
    elsif ($verb eq 'half') { print 'half'; STDOUT->flush; stay($word) }
    elsif ($verb eq 'nap') { select(undef, undef, undef, 0.05); print $served }
    elsif ($verb eq 'ten') { print '0123456789' }
    else { print 'ok' }
}
"#;

/// A filter in C, with libfcgi: says its process and what it knows of the file, then the body of the request, then the file in
/// capitals.
pub const FILTER: &str = r#"
#include <fcgi_stdio.h>
#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    while (FCGI_Accept() >= 0) {
        int c;
        printf("Content-Type: text/plain\r\n\r\n%d %s %s %s\n", getpid(), getenv("FCGI_ROLE"), getenv("FCGI_DATA_LENGTH"), getenv("FCGI_DATA_LAST_MOD"));
        while ((c = getchar()) != EOF) putchar(c);
        putchar('\n');
        if (FCGI_StartFilterData() != 0) printf("no data");
        else while ((c = getchar()) != EOF) putchar(toupper(c));
    }
    return 0;
}
"#;

/// An application of CGI::Fast.
pub const CGI_FAST: &str = r#"#!/usr/bin/perl
use CGI::Fast;
while (my $q = CGI::Fast->new) {
    print $q->header('text/plain'), join(',', map { "$_=" . $q->param($_) } sort $q->param);
}
"#;

/// An application in C.
pub const C: &str = r#"
#include <fcgi_stdio.h>
#include <stdlib.h>
extern char **environ;
int main(void) {
    int served = 0;
    while (FCGI_Accept() >= 0) {
        long length = 0, sum = 0;
        int c;
        while ((c = getchar()) != EOF) { length++; sum = (sum * 31 + c) % 1000003; }
        printf("Content-Type: text/plain\r\n\r\n%d %s %ld %ld", ++served, getenv("REQUEST_METHOD"), length, sum);
    }
    return 0;
}
"#;

/// Reads a request, and does with the connection what Perl it finds in the header `X-Do`: `out`, `err` and `end` make records,
/// `$c` is the connection.
pub const PUPPET: &str = r#"#!/usr/bin/perl
use strict;
use Socket;
open(our $listener, '+<&=', 0) or die;
our $c;
sub record { my ($kind, $text) = @_; syswrite $c, pack('CCnnCC', 1, $kind, 1, length $text, 0, 0) . $text }
sub out { record(6, $_) for unpack '(a32000)*', $_[0] }
sub err { record(7, $_) for unpack '(a32000)*', $_[0] }
sub end { record(3, pack('NCxxx', $_[0] // 0, 0)) }
sub stay {
    my $mark = "$ENV{MARKS}/$_[0]";
    open(my $file, '>', "$mark.in") or die; print $file $$; close $file;
    select(undef, undef, undef, 0.003) until -e "$mark.go";
}
while (1) {
    accept($c, $listener) or die;
    while (1) {
        my ($params, $head, $body) = ('');
        while (1) {
            my $got = sysread $c, $head, 8;
            last if !$got;
            my ($version, $kind, $id, $length, $padding) = unpack 'CCnnC', $head;
            my $left = $length + $padding;
            $body = '';
            while ($left > 0) { my $n = sysread $c, $body, $left, length $body or last; $left -= $n }
            $params .= $body if $kind == 4;
            last if $kind == 5 && $length == 0 || $kind == 4 && $length == 0 && $params =~ /EARLY/;
        }
        last if !length $params;
        my ($do) = $params =~ /HTTP_X_DO(.*?);;/s;
        eval $do;
        last if !defined fileno $c;
    }
}
"#;

impl Site {
    /// An executable file below `htdocs`, and the directory for marks.
    pub fn program(&self, name: &str, text: &str) {
        let path = self.page(name, text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        self.marks();
    }

    /// The directory in which applications and tests see each other's marks.
    pub fn marks(&self) {
        let marks = self.root.join("marks");
        std::fs::create_dir_all(&marks).expect("directory");
        std::fs::set_permissions(marks, std::fs::Permissions::from_mode(0o777)).expect("mode");
    }

    /// Compiles C with libfcgi.
    pub fn compile(&self, name: &str, text: &str) {
        let source = self.file("program.c", text);
        let program = self.root.join("htdocs").join(name);
        let status = Command::new("cc").arg(source).arg("-o").arg(program).arg("-lfcgi").status().expect("cc");
        assert!(status.success());
    }

    /// Waits until an application has reached the mark; returns its process.
    pub fn reached(&self, mark: &str) -> i32 {
        let name = format!("marks/{mark}.in");
        crate::harness::wait::until(&format!("the mark {mark}"), || self.read(&name).parse().ok())
    }

    /// Lets it go on.
    pub fn go_on(&self, mark: &str) {
        self.file(format!("marks/{mark}.go"), "");
    }
}
