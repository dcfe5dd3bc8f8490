//! The input and the answers of mod_fcgid's applications, compared with Debian's mod_fcgid.

use std::path::Path;

use crate::harness::needs;
use crate::harness::oracle::{Allowed, MODULES, compare};
use crate::harness::site::Site;
use crate::scripts::cgi_same_as_apache::{case, gets};

/// Prints its input, except for what differs between places, or answers as its query says.
const TELL: &str = r#"#!/usr/bin/perl
use FCGI;
my $request = FCGI::Request();
my %answers = (
    status => "Status: 418 Teapot\n\nt", location => "Location: http://h.example/\n\n", local => "Location: /a.fcgi/again\n\n",
    fields => "X-A: 1\nX-A: 2\nSet-Cookie: a=1\nSet-Cookie: b=2\nETag: \"e\"\n\nx", none => "", gone => "Status: 404 Gone\n\nmine",
    length => "Content-Length: 3\n\nabc", announced => "Content-Length: 165260\n\n",
);
while ($request->Accept() >= 0) {
    my $answer = $answers{$ENV{QUERY_STRING}};
    if (defined $answer) { print $answer; next }
    print "Content-Type: text/plain\n\n";
    print map { "$_=$ENV{$_}\n" } grep !/^(REDIRECT_)*(REMOTE_PORT|SERVER_SOFTWARE|SERVER_SIGNATURE|PATH)$/, sort keys %ENV;
    my $body;
    print $body while read STDIN, $body, 1000;
}
"#;

fn build(site: &Site) {
    for name in ["a.fcgi", "nph-a.fcgi", "no/a.fcgi"] {
        site.program(name, TELL);
    }
    // Next to the documents, for ScriptAlias.
    site.program("../scripts/a", TELL);
    std::fs::create_dir_all(site.root.join("htdocs/d.fcgi")).expect("directory");
}

#[test]
fn applications_are_told_and_answer_as_under_apache() {
    const NAME: &str = "applications_are_told_and_answer_as_under_apache";
    let module = format!("{MODULES}/mod_fcgid.so");
    if !needs::PERL.is_there(NAME) || !needs::FCGID.is_there(NAME) {
        return;
    }
    assert!(Path::new(&module).exists());
    let configuration = format!(
        "LoadModule fcgid_module {module}\nFcgidPassHeader Authorization\nFcgidMaxRequestLen 1000\n<Directory ${{DOCS}}>\n\
         Options +ExecCGI\nAddHandler fcgid-script .fcgi\nRequire all granted\n</Directory>\n\
         <Directory ${{DOCS}}/no>\nOptions -ExecCGI\n</Directory>\n\
         ScriptAlias /scripts/ ${{ROOT}}/scripts/\nAlias /aliased/ ${{ROOT}}/scripts/\n\
         <Directory ${{ROOT}}/scripts>\nSetHandler fcgid-script\nRequire all granted\n</Directory>\n"
    );
    let mut cases = gets(&[
        "/a.fcgi",
        "/a.fcgi/p%20i/x?q=1",
        "/a.fcgi?a+b",
        "/nph-a.fcgi",
        "/a.fcgi?status",
        "/a.fcgi?location",
        "/a.fcgi?local",
        "/a.fcgi?fields",
        "/a.fcgi?gone",
        "/no/a.fcgi",
        "/none.fcgi",
        "/none.fcgi/x",
        "/scripts/a/x?q",
        "/scripts/none",
        "/aliased/a",
    ]);
    cases.extend([
        case("HEAD /a.fcgi?fields", "", ""),
        case("GET /a.fcgi", "Authorization: Basic eDp5\r\nX-Y: z\r\nX_Y: no\r\nCookie: a=1\r\nProxy: no\r\n", ""),
        case("POST /a.fcgi?x", "Content-Type: a/b\r\nContent-Length: 4\r\n", "x=1&"),
        case("POST /a.fcgi", "Transfer-Encoding: chunked\r\n", "4\r\nx=1&\r\n0\r\n\r\n"),
        case("PUT /a.fcgi/x", "Content-Length: 4\r\n", "x=1&"),
        case("GET /a.fcgi?fields", "If-None-Match: \"e\"\r\n", ""),
    ]);
    let framing = ["content-length", "transfer-encoding"].map(|what| Allowed {
        case: "*",
        what,
        entry: "The length of a short CGI answer",
    });
    compare(NAME, build, &configuration, &cases, &framing);
    // The length that a script tells is that of the answer, also if there is no body, as for HEAD.
    let mut cases = gets(&["/a.fcgi?length"]);
    cases.extend(["HEAD /a.fcgi?length", "HEAD /a.fcgi?announced"].map(|line| case(line, "", "")));
    compare(&format!("{NAME}: lengths"), build, &configuration, &cases, &[]);
}
