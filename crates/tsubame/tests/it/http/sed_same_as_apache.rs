//! The stream editor of mod_sed, compared with Apache's.

use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::site::Site;
use crate::http::input_filters_same_as_apache::{chunked, framing, post};

const TEXT: &str = "first line: foo and bar\nsecond FOO line, a.c abc aab\n\n<p>foofoo</p> $1 \\ & *x* a|b\n\
    foo 4 [x]\nab*c ]b[ (1) 2-3\n\tblank\u{1}\u{7f}\nthe last one, without feed";

fn build(site: &Site) {
    site.page("a.txt", TEXT);
    site.page("fed.txt", "one\ntwo\n\nfour\n");
    site.page("empty.txt", "");
    site.page("large.txt", "foo and a long line of text that is not so long\n".repeat(3000));
    site.page("wide.txt", "foo ".repeat(8000));
    site.script("slow", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; echo foo; echo bar\n");
    site.script("tell", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; cat\n");
    // Apache writes all of a body before it reads what the script says of it.
    site.script("sum", "#!/bin/sh\nsum=$(sha256sum)\nprintf 'Content-Type: text/plain\n\n'\necho \"$sum\"\n");
}

/// Scripts, a directive for each line.
const SCRIPTS: &[&str] = &[
    "s/foo/bar/",
    "s/foo/[&]/g",
    "s/o*/x/g",
    "s/a*b/X/g",
    "s/o/0/2",
    "s/o/0/2\nt\ns/l/L/",
    "s/\\(f\\)\\(o\\)*/\\2\\1/",
    "s/\\([a-z]\\)\\1/<\\1>/g",
    "s/[^]a-c]/-/g",
    "s/[z-a]/-/g;s/[]-]/!/g;s/[a-]/?/",
    "s/o\\{2\\}/00/g;s/a\\{1,\\}b/!/;s/[a-z]\\{2,3\\}$/#/",
    "s|a\\|b|x|;s,\\.,;,g",
    "s/^/> /;s/$/ </",
    "s/a$b/x/;s/a^b/x/;s/^*x/y/;s/\\*x/z/",
    "s/.*/(&)/",
    "s/\\(.*\\)line\\(.*\\)/\\2\\&\\n\\1/",
    "2,4d",
    "2!d",
    "$d",
    "$!d",
    "2,1p",
    "/foo/,/foo/d",
    "/foo/!s/a/A/g",
    "1;3d",
    "\\,</p>,d",
    "#n\n/foo/p\n$=",
    "#n\ns/foo/x/p;s/a/b/P",
    "N;s/\\n/+/",
    "N;P;D",
    "$!N;s/\\n/+/g",
    "n;d",
    "1!G;h;$!d",
    "x;G;1!H",
    "G",
    "y/abc\\n/xyz /",
    "l",
    "=",
    "2q",
    "/foo/{s//bar/g;p\n}\ns/bar/BAZ/;x;p;x",
    ":again\ns/o/0/;tagain",
    "/foo/b next\ns/^/no /\nb\n:next\ns/^/yes /",
    "s/a/b/;ta\ns/$/ none/\nd;:a",
    "/first/s//second/;s//third/",
    "s/x/y/;# a comment\n# and one more\ns/a/A/",
    "1,2{/foo/d;p",
    "b nowhere",
];

/// Apache adds that a script has failed.
fn allowed() -> Vec<Allowed> {
    let mut allowed = framing();
    allowed.push(Allowed { case: "*", what: "error log", entry: "Messages of Apache's filters" });
    allowed
}

#[test]
fn edited_answers() {
    let mut configuration = "SetOutputFilter Sed\nScriptAlias /cgi/ ${ROOT}/cgi-bin/\nAliasMatch ^/[0-9]+/(.*)$ ${DOCS}/$1\n\
        <Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n<Location /cgi>\nOutputSed s/foo/edited/\n</Location>\n"
        .to_string();
    let mut cases = vec![
        Case::of("GET /cgi/slow"),
        Case::of("GET /a.txt"),
        Case::of("HEAD /0/a.txt"),
        Case::of("GET /0/empty.txt"),
        Case::of("GET /1/large.txt"),
        Case::of("GET /1/wide.txt"),
        Case::of("GET /0/none"),
    ];
    for (number, script) in SCRIPTS.iter().enumerate() {
        let lines: String = script.lines().map(|line| format!("OutputSed \"{line}\"\n")).collect();
        configuration += &format!("<Location /{number}>\n{lines}</Location>\n");
        cases.extend(["a", "fed"].map(|name| Case::of(&format!("GET /{number}/{name}.txt"))));
    }
    compare("edited_answers", build, &configuration, &cases, &allowed());
}

#[test]
fn edited_bodies() {
    let large = "a line with foo in it\n".repeat(12_000);
    let wide = "foo ".repeat(8000);
    let mut cases = vec![
        Case::of("GET /cgi/tell"),
        post("/cgi/tell", "", b""),
        post("/cgi/none", "", b"foo"),
        post("/cgi/tell/none", "", b"foo"),
    ];
    for target in ["/cgi/tell", "/cgi/tell/1", "/cgi/tell/2"] {
        for text in ["foo=1&bar=foo", "one foo\ntwo\n\nthree foo\n"] {
            cases.push(post(target, "", text.as_bytes()));
            cases.extend([1, 7].map(|size| chunked(target, "", text.as_bytes(), size)));
        }
    }
    for text in [large.as_bytes(), wide.as_bytes()] {
        cases.push(post("/cgi/sum", "", text));
        cases.extend([1000, 50_000].map(|size| chunked("/cgi/sum", "", text, size)));
    }
    let configuration = "SetInputFilter Sed\nScriptAlias /cgi/ ${ROOT}/cgi-bin/\n\
        <Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
        <Location /cgi>\nInputSed s/foo/bar/g\n</Location>\n<Location /cgi/tell/1>\nInputSed N\nInputSed \"s/\\n/+/\"\n</Location>\n\
        <Location /cgi/tell/2>\nInputSed 2q\nInputSed $!d\n</Location>\n<Location /cgi/tell/none>\nInputSed \"b none\"\n</Location>\n";
    compare("edited_bodies", build, configuration, &cases, &allowed());
}
