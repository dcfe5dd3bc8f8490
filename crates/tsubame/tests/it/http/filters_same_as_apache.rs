//! Filters that change the bodies of answers, compared with Apache's.

use crate::harness::oracle::{Allowed, rows};
use crate::harness::site::Site;

const TEXT: &str = "first line: foo and bar\nsecond FOO line, a.c abc\n\n<p>foofoo</p> $1 \\ & end without feed";

fn build(site: &Site) {
    site.page("a.txt", TEXT);
    site.page("a.html", "<p>foo</p>\n");
    site.page("empty.txt", "");
    site.page("latin.txt", b"caf\xe9 \xa4\n");
    site.page("utf.txt", "caf\u{e9} \u{20ac} \u{4e2d}\n");
    site.page("sub/a.txt", TEXT);
    site.page("sub/.htaccess", "Substitute s/bar/inner/\nSubstitute s/foo/FROM-INSIDE/\n");
    site.page("image.png", "foo");
    site.page("other.txt", TEXT);
    site.page("large.txt", "foo and a long line of text that is not so long\n".repeat(3000));
    site.script("slow", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; echo foo; echo bar\n");
    site.script("tell", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; cat\n");
}

const SCRIPTS: &str =
    "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n";

/// How the end of a body is marked depends on how the body is made.
fn framing() -> Vec<Allowed> {
    let entry = "The length of a filtered answer";
    vec![Allowed { case: "*", what: "content-length", entry }, Allowed { case: "*", what: "transfer-encoding", entry }]
}

/// The configuration of each of the directories `0`, `1` ...
const RULES: &[&str] = &[
    "Substitute s/foo/<$0>/i",
    "Substitute \"s|(f)(o)|[$2$1&\\$]|\"",
    "Substitute s/a.c/-/n\nSubstitute s/FOO/x/in\nSubstitute s/\\/slash/n",
    "Substitute s/bar/foo/q\nSubstitute \"s/and foo/!/\"",
    "Substitute s/bar/foo/f\nSubstitute \"s/and foo/!/\"",
    "Substitute s/inner/seen/\nSubstitute s/foo/outer/\nSubstituteInheritBefore on",
    "Substitute s/inner/seen/\nSubstitute s/foo/outer/",
    "Substitute s/\u{e9}/e/",
    "",
];

#[test]
fn replaced_text() {
    let names = ["a.txt", "a.html", "empty.txt", "sub/a.txt", "latin.txt", "large.txt"];
    let everywhere = |site: &Site| {
        build(site);
        let files = ["a.txt", "a.html", "empty.txt", "sub/a.txt", "sub/.htaccess", "latin.txt", "large.txt"];
        for (number, name) in (0..RULES.len()).flat_map(|number| files.map(|name| (number, name))) {
            let text = std::fs::read(site.root.join("htdocs").join(name)).expect("a file");
            site.page(&format!("{number}/{name}"), text);
        }
    };
    let mut configuration =
        "SetOutputFilter SUBSTITUTE\n<Directory ${DOCS}>\nAllowOverride All\n</Directory>\n".to_string();
    let mut requests =
        ["HEAD /0/a.txt", "GET /0/a.txt|Range: bytes=0-9", "GET /0/a.txt|Range: bytes=900-"].map(String::from).to_vec();
    for (number, rules) in RULES.iter().enumerate() {
        configuration += &format!("<Directory ${{DOCS}}/{number}>\n{rules}\n</Directory>\n");
        requests.extend(names.map(|name| format!("GET /{number}/{name}")));
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    let mut allowed = framing();
    allowed.push(Allowed { case: "GET /0/a.txt|Range: *", what: "status", entry: "The length of a filtered answer" });
    rows("replaced_text", everywhere, &[(&configuration, &requests)], &allowed);
}

#[test]
fn data_buffers_and_reflections() {
    let requests: &[&str] =
        &["GET /a.txt", "GET /a.html", "GET /empty.txt", "HEAD /a.txt", "GET /large.txt", "GET /cgi/slow"];
    let data = format!("{SCRIPTS}SetOutputFilter DATA\nAddDefaultCharset utf-8");
    let buffer = format!("{SCRIPTS}SetOutputFilter BUFFER\n<Directory ${{DOCS}}>\nBufferSize 100\n</Directory>");
    let limit = format!("{SCRIPTS}SetOutputFilter RATE_LIMIT\nSetEnv rate-limit 400\nSetEnv rate-initial-burst 100");
    let none = format!("{SCRIPTS}SetOutputFilter RATE_LIMIT\nSetEnv rate-limit -1");
    let table: Vec<(&str, &[&str])> =
        vec![(&data, requests), (&buffer, requests), (&limit, requests), (&none, requests)];
    rows("data_buffers_and_reflections", build, &table, &framing());
    let reflector = "<Location /r>\nSetHandler reflector\nReflectorHeader X-One\nReflectorHeader X-Two X-Three\n</Location>\n\
        <Location /r/s>\nSetOutputFilter SUBSTITUTE\nSubstitute s/foo/bar/\n</Location>";
    let reflected: &[&str] = &[
        "GET /r",
        "OPTIONS /r",
        "POST /r|Content-Length: 0|X-One: 1|x-two: 2",
        "POST /r|Content-Length: 0|X-One: 1|X-One: 2|x-two: a, b|X-Two:",
        "POST /r|Content-Length: 0|Content-Type: text/x",
        "PUT /r|Content-Length: 0",
        "POST /r",
    ];
    let mut allowed = framing();
    // The time of the request.
    allowed.push(Allowed { case: "POST *", what: "last-modified", entry: "The length of a filtered answer" });
    rows("data_buffers_and_reflections", build, &[(reflector, reflected)], &allowed);
}

#[test]
fn brotli_and_charsets() {
    let requests: &[&str] = &[
        "GET /large.txt|Accept-Encoding: br",
        "GET /large.txt|Accept-Encoding: gzip, br;q=0.5",
        "GET /large.txt|Accept-Encoding: br;q=0",
        "GET /large.txt|Accept-Encoding: *",
        "GET /large.txt|Accept-Encoding: gzip",
        "GET /large.txt",
        "HEAD /large.txt|Accept-Encoding: br",
        "GET /a.html|Accept-Encoding: br",
        "GET /empty.txt|Accept-Encoding: br",
        "GET /none|Accept-Encoding: br",
        "GET /large.txt|If-None-Match: *",
        "GET /large.txt|If-None-Match: *|Accept-Encoding: br",
        "GET /large.txt|If-None-Match: *|Accept-Encoding: gzip",
        "GET /a.html|If-None-Match: *",
        "HEAD /a.html|If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT|Accept-Encoding: br",
    ];
    let mut allowed = framing();
    // Another library compresses.
    allowed.extend(["body", "%b"].map(|what| Allowed { case: "*", what, entry: "The length of a filtered answer" }));
    let configurations = [
        "SetOutputFilter BROTLI_COMPRESS",
        "SetOutputFilter BROTLI_COMPRESS\nBrotliAlterETag NoChange\nBrotliCompressionQuality 1",
        "SetOutputFilter BROTLI_COMPRESS;DEFLATE\nBrotliAlterETag Remove\n<Location /a.html>\nSetEnv no-brotli\n</Location>",
    ];
    let table: Vec<(&str, &[&str])> = configurations.iter().map(|one| (*one, requests)).collect();
    rows("brotli_and_charsets", build, &table, &allowed);
    let texts: &[&str] = &["GET /latin.txt", "GET /a.html", "GET /empty.txt", "GET /image.png", "HEAD /latin.txt"];
    let charsets = [
        "<Directory ${DOCS}>\nCharsetSourceEnc ISO-8859-15\nCharsetDefault UTF-8\n</Directory>",
        "<Directory ${DOCS}>\nCharsetSourceEnc ISO-8859-15\nCharsetDefault UTF-8\nCharsetOptions NoImplicitAdd\n</Directory>\n\
         <Location /latin.txt>\nSetOutputFilter XLATEOUT\n</Location>",
        "<Directory ${DOCS}>\nCharsetSourceEnc ISO-8859-1\nCharsetDefault utf-8\nCharsetOptions TranslateAllMimeTypes\n</Directory>",
        "<Directory ${DOCS}>\nCharsetSourceEnc utf-8\nCharsetDefault UTF-8\n</Directory>",
    ];
    let table: Vec<(&str, &[&str])> = charsets.iter().map(|one| (*one, texts)).collect();
    rows("brotli_and_charsets", build, &table, &framing());
}

#[test]
fn programs_as_filters() {
    let configuration = format!(
        "{SCRIPTS}ExtFilterDefine upper mode=output cmd=\"/usr/bin/tr a-z A-Z\"\n\
         ExtFilterDefine plain cmd=\"/usr/bin/tr o 0\" intype=text/plain outtype=text/x-changed\n\
         ExtFilterDefine asked cmd=\"/usr/bin/tr o 0\" enableenv=please\nExtFilterDefine spared cmd=\"/usr/bin/tr o 0\" disableenv=please\n\
         ExtFilterDefine env cmd=\"/bin/sh -c 'cat; echo $REQUEST_URI $SCRIPT_NAME'\"\n\
         <Location /a.txt>\nSetOutputFilter upper\n</Location>\n<Location /a.html>\nSetOutputFilter plain;upper\n</Location>\n\
         <Location /latin.txt>\nSetOutputFilter plain\n</Location>\n<Location /large.txt>\nSetOutputFilter UPPER\n</Location>\n\
         <Location /utf.txt>\nSetOutputFilter asked\n</Location>\n<Location /other.txt>\nSetEnv please\nSetOutputFilter asked;spared\n</Location>\n\
         <Location /cgi>\nSetOutputFilter upper\n</Location>\n<Location /image.png>\nSetOutputFilter env\n</Location>"
    );
    let requests: &[&str] = &[
        "GET /a.txt",
        "GET /a.html",
        "GET /latin.txt",
        "GET /large.txt",
        "GET /utf.txt",
        "GET /other.txt",
        "GET /cgi/slow",
        "GET /image.png?q",
    ];
    let mut allowed = framing();
    allowed.push(Allowed { case: "*", what: "accept-ranges", entry: "The length of a filtered answer" });
    rows("programs_as_filters", build, &[(&configuration, requests)], &allowed);
}
