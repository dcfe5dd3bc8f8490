//! HTTP answers are Apache's: status, fields and body, request by request.

use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::site::Site;

fn build(site: &Site) {
    site.page("index.html", "<p>hello\n");
    site.page("a.txt", "0123456789");
    site.page("d/index.html", "d\n");
    site.page("empty.txt", "");
    std::fs::create_dir_all(site.root.join("htdocs/bare")).expect("directory");
    site.page("a b.txt", "blank\n");
    site.page("noext", "z\n");
}

/// `GET` of HTTP/1.1 with more fields.
fn case(name: &str, line: &str, fields: &[&str]) -> Case {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    Case { name: name.into(), bytes: format!("{line}\r\nHost: localhost\r\n{fields}\r\n").into_bytes() }
}

#[test]
fn registered_methods() {
    let configuration = "
        RegisterHttpMethod FOO
        HttpProtocolOptions RegisteredMethods
        <Files a.txt>
            Require method GET FOO
        </Files>";
    let methods = ["GET", "POST", "FOO", "BAR", "MERGE", "WHEN"];
    let cases: Vec<Case> =
        methods.iter().map(|method| case(method, &format!("{method} /a.txt HTTP/1.1"), &[])).collect();
    let entry = "501 for an unregistered method lists all others";
    let allowed = ["BAR", "WHEN"].map(|case| Allowed { case, what: "allow", entry });
    compare("registered_methods", build, configuration, &cases, &allowed);
}

/// White space, versions, methods and targets that are none, with and without `HttpProtocolOptions Unsafe`.
#[test]
fn odd_request_lines() {
    let lines = [
        "GET\t/a.txt HTTP/1.1",
        "GET /a.txt\tHTTP/1.1",
        "GET  /a.txt HTTP/1.1",
        "GET /a.txt  HTTP/1.1",
        "GET /a.txt HTTP/1.1 ",
        " GET /a.txt HTTP/1.1",
        "GET\u{b}/a.txt HTTP/1.1",
        "GET / HTTP/1.2",
        "GET / HTTP/1.9",
        "GET / HTTP/1.10",
        "GET / HTTP/1.",
        "GET / http/1.1",
        "GET / FTP/1.1",
        "G/T /a.txt HTTP/1.1",
        "/ /a.txt HTTP/1.1",
        "G@T /a.txt HTTP/1.1",
        "G(T /a.txt HTTP/1.1",
        "get /a.txt HTTP/1.1",
        "GET /a\"b HTTP/1.1",
        "GET /a<b HTTP/1.1",
        "GET /a{b HTTP/1.1",
        "GET /a\u{7f}b HTTP/1.1",
    ];
    let fields =
        ["A : b", "A\tB: b", "A:\tb", "A: b\tc", "A: b\u{b}c", "A: b\u{c}c", "A: b\u{1}c", "(A): b", ": b", "A"];
    let in_lines = lines.iter().map(|line| case(line, line, &[]));
    let in_fields = fields.iter().map(|field| case(field, "GET /a.txt HTTP/1.1", &[*field]));
    let cases: Vec<Case> = in_lines.chain(in_fields).collect();
    let minor = |case| Allowed { case, what: "%H", entry: "The protocol of a line that is not a request" };
    let blanks = |case| Allowed { case, what: "%r", entry: "A request line with several blanks" };
    let allowed = [
        minor("GET / HTTP/1.2"),
        minor("GET / HTTP/1.9"),
        blanks("GET  /a.txt HTTP/1.1"),
        blanks("GET /a.txt  HTTP/1.1"),
        blanks("GET /a.txt HTTP/1.1 "),
    ];
    for options in ["Strict", "Unsafe"] {
        compare(
            &format!("odd_request_lines, {options}"),
            build,
            &format!("HttpProtocolOptions {options}"),
            &cases,
            &allowed,
        );
    }
}

/// Bytes as they are.
fn raw(name: &str, bytes: &str) -> Case {
    Case { name: name.into(), bytes: bytes.into() }
}

#[test]
fn plain_requests() {
    let paths = [
        "/",
        "/index.html",
        "/a.txt",
        "/empty.txt",
        "/noext",
        "/none",
        "/d",
        "/d/",
        "/d?q=1",
        "/bare/",
        "/bare",
        "/a%20b.txt",
        "/a.txt/info",
        "/a.txt?x=y",
        "//a.txt",
        "/./a.txt",
        "/d/../a.txt",
        "/../a.txt",
        "/%2e%2e/a.txt",
        "/a%2fb",
        "/a%00",
        "/%zz",
        "/a%",
        "/d/%2e/index.html",
        "/.%2e/",
        "/d//index.html",
        "/A.TXT",
        "/a.txt%20",
        "/d;x/",
        "/a.txt#f",
        "/?",
    ];
    let mut cases: Vec<Case> = paths.iter().map(|path| case(path, &format!("GET {path} HTTP/1.1"), &[])).collect();
    for method in [
        "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "FOO", "get", "CONNECT", "PROPFIND", "MERGE",
        "BREW",
    ] {
        let name = format!("{method} of a file");
        cases.push(case(&name, &format!("{method} /a.txt HTTP/1.1"), &["X-A: b", "X-A: c"]));
        let name = format!("{method} of nothing");
        cases.push(case(&name, &format!("{method} /none HTTP/1.1"), &[]));
        let name = format!("{method} of a directory");
        cases.push(case(&name, &format!("{method} /d HTTP/1.1"), &[]));
        let name = format!("{method} of a directory with an index");
        cases.push(case(&name, &format!("{method} /d/ HTTP/1.1"), &[]));
        let name = format!("{method} of what is elsewhere");
        cases.push(case(&name, &format!("{method} /away HTTP/1.1"), &[]));
    }
    cases.push(case("CONNECT to a host", "CONNECT a:80 HTTP/1.1", &[]));
    cases.push(case("OPTIONS *", "OPTIONS * HTTP/1.1", &[]));
    cases.push(case("HEAD of an empty file", "HEAD /empty.txt HTTP/1.1", &[]));
    cases.push(case("GET *", "GET * HTTP/1.1", &[]));
    let allowed = [
        Allowed { case: "HEAD of nothing", what: "content-length", entry: "The length of an error page for HEAD" },
        Allowed { case: "HEAD of a directory", what: "content-length", entry: "The length of an error page for HEAD" },
        Allowed {
            case: "HEAD of what is elsewhere",
            what: "content-length",
            entry: "The length of an error page for HEAD",
        },
        Allowed {
            case: "HEAD of an empty file",
            what: "content-length",
            entry: "The length of an error page for HEAD",
        },
        Allowed { case: "TRACE of a file", what: "*", entry: "TRACE answers with the request as it came" },
        Allowed { case: "TRACE of nothing", what: "*", entry: "TRACE answers with the request as it came" },
        Allowed { case: "TRACE of a directory", what: "*", entry: "TRACE answers with the request as it came" },
        Allowed {
            case: "TRACE of a directory with an index",
            what: "*",
            entry: "TRACE answers with the request as it came",
        },
        Allowed { case: "CONNECT to a host", what: "%U", entry: "The file of a request" },
        Allowed { case: "CONNECT to a host", what: "%f", entry: "The file of a request" },
        Allowed { case: "OPTIONS *", what: "%f", entry: "The file of a request" },
        Allowed { case: "/a%2fb", what: "%U", entry: "The path of a request that cannot be decoded" },
        Allowed { case: "/a%00", what: "%U", entry: "The path of a request that cannot be decoded" },
    ];
    compare("plain_requests", build, "Redirect /away http://else.example/", &cases, &allowed);
}

/// No module adds fields to an answer about the server itself, and no filter changes it.
#[test]
fn answers_about_the_server() {
    // The time of the answer is replaced: the servers are asked one after the other.
    let configuration = "Header set X-A b\nHeader always set X-B c\nExpiresActive On\n\
        ExpiresDefault \"access plus 1 day\"\nHeader edit Expires \"^.* 20.*$\" tomorrow";
    let filtered = "SetOutputFilter BROTLI_COMPRESS\nDefaultLanguage nl\nProtocols h2c http/1.1\n\
        <If \"%{HTTP_USER_AGENT} =~ /x/\">\nSetEnv a b\n</If>";
    let cases = ["TRACE /a.txt", "TRACE /none", "OPTIONS *", "OPTIONS /a.txt", "OPTIONS /none"]
        .map(|what| case(what, &format!("{what} HTTP/1.1"), &["Accept-Encoding: br"]));
    let trace = |what| Allowed { case: "TRACE *", what, entry: "TRACE answers with the request as it came" };
    let allowed = [
        trace("content-length"),
        trace("transfer-encoding"),
        trace("body"),
        Allowed { case: "OPTIONS *", what: "%f", entry: "The file of a request" },
    ];
    compare("answers_about_the_server", build, configuration, &cases, &allowed);
    compare("answers_about_the_server", build, filtered, &cases, &allowed);
}

#[test]
fn ranges() {
    let ranges = [
        "bytes=0-4",
        "bytes=5-",
        "bytes=-3",
        "bytes=0-0",
        "bytes=9-9",
        "bytes=9-20",
        "bytes=10-",
        "bytes=-0",
        "bytes=20-30",
        "bytes=0-1,3-4",
        "bytes=0-1, 8-",
        "bytes=0-9",
        "bytes=0-",
        "bytes=-20",
        "bytes=5-2",
        "bytes=a-b",
        "bytes=",
        "items=0-1",
        "bytes=0-1,20-30",
        "bytes=3-4,0-1",
        "bytes=0-5,2-7",
        "bytes=0-0,0-0,0-0",
        "Bytes=0-1",
        "bytes= 0-1",
        "bytes=0 - 1",
        "bytes=0-1,",
        "bytes=,0-1",
        "bytes=-",
        "bytes=--1",
        "bytes=0-99999999999999999999",
    ];
    let mut cases: Vec<Case> =
        ranges.iter().map(|range| case(range, "GET /a.txt HTTP/1.1", &[&format!("Range: {range}")])).collect();
    let many = (0..300).map(|n| format!("{}-{}", n % 10, n % 10)).collect::<Vec<_>>().join(",");
    cases.push(case("too many ranges", "GET /a.txt HTTP/1.1", &[&format!("Range: bytes={many}")]));
    cases.push(case("a range of HEAD", "HEAD /a.txt HTTP/1.1", &["Range: bytes=0-1"]));
    cases.push(case("a range of nothing", "GET /none HTTP/1.1", &["Range: bytes=0-1"]));
    cases.push(case("a range of an empty file", "GET /empty.txt HTTP/1.1", &["Range: bytes=0-1"]));
    let date = "Tue, 14 Nov 2023 22:13:20 GMT";
    for (name, value) in [("the date", date), ("another date", "Tue, 14 Nov 2023 22:13:21 GMT"), ("a tag", "\"x\"")] {
        let field = format!("If-Range: {value}");
        cases.push(case(&format!("If-Range with {name}"), "GET /a.txt HTTP/1.1", &["Range: bytes=0-1", &field]));
    }
    let unsatisfiable = |case, what| Allowed { case, what, entry: "416 says how long the file is" };
    let blanks = |case| Allowed { case, what: "status", entry: "Blanks in a list of ranges" };
    let allowed = [
        unsatisfiable("bytes=10-", "content-range"),
        unsatisfiable("bytes=10-", "content-length"),
        unsatisfiable("bytes=10-", "transfer-encoding"),
        unsatisfiable("bytes=10-", "%k"),
        unsatisfiable("bytes=20-30", "%k"),
        unsatisfiable("bytes=20-30", "content-range"),
        unsatisfiable("bytes=20-30", "content-length"),
        unsatisfiable("bytes=20-30", "transfer-encoding"),
        blanks("bytes=0-1, 8-"),
        blanks("bytes= 0-1"),
        blanks("bytes=,0-1"),
    ];
    compare("ranges", build, "", &cases, &allowed);
}

#[test]
fn conditionals() {
    let (date, before, after) =
        ("Tue, 14 Nov 2023 22:13:20 GMT", "Tue, 14 Nov 2023 22:13:19 GMT", "Tue, 14 Nov 2023 22:13:21 GMT");
    let mut cases = Vec::new();
    for method in ["GET", "HEAD", "POST"] {
        for field in ["If-Modified-Since", "If-Unmodified-Since"] {
            for value in
                [date, before, after, "nonsense", "Tuesday, 14-Nov-23 22:13:20 GMT", "Tue Nov 14 22:13:20 2023"]
            {
                let name = format!("{method} {field}: {value}");
                cases.push(case(&name, &format!("{method} /a.txt HTTP/1.1"), &[&format!("{field}: {value}")]));
            }
        }
        for field in ["If-Match", "If-None-Match"] {
            for value in
                ["*", "\"x\"", "W/\"x\"", "\"a-60a24181e4000\"", "\"x\", \"a-60a24181e4000\"", "W/\"a-60a24181e4000\""]
            {
                let name = format!("{method} {field}: {value}");
                cases.push(case(&name, &format!("{method} /a.txt HTTP/1.1"), &[&format!("{field}: {value}")]));
            }
        }
    }
    let both = ["If-None-Match: \"x\"", &format!("If-Modified-Since: {date}")];
    cases.push(case("another tag and the same date", "GET /a.txt HTTP/1.1", &both));
    cases.push(case("a condition on nothing", "GET /none HTTP/1.1", &["If-Match: *"]));
    let head = |case| Allowed { case, what: "content-length", entry: "The length of a 412 for HEAD" };
    let allowed = [
        head("HEAD If-Unmodified-Since: Tue, 14 Nov 2023 22:13:19 GMT"),
        head("HEAD If-Match: \"x\""),
        head("HEAD If-Match: W/\"x\""),
        head("HEAD If-Match: W/\"a-60a24181e4000\""),
        Allowed {
            case: "POST If-None-Match: W/\"a-60a24181e4000\"",
            what: "status",
            entry: "A weak tag in If-None-Match",
        },
    ];
    compare("conditionals", build, "", &cases, &allowed);
}

#[test]
fn versions_and_hosts() {
    let cases = [
        raw("HTTP/1.0", "GET /a.txt HTTP/1.0\r\n\r\n"),
        raw("HTTP/1.0 kept", "GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /d/ HTTP/1.0\r\n\r\n"),
        raw("HTTP/1.0 pipelined without keep-alive", "GET /a.txt HTTP/1.0\r\n\r\nGET /d/ HTTP/1.0\r\n\r\n"),
        raw("HTTP/1.1 without Host", "GET /a.txt HTTP/1.1\r\n\r\n"),
        raw("an empty Host", "GET /a.txt HTTP/1.1\r\nHost:\r\n\r\n"),
        raw("two Hosts", "GET /a.txt HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        raw("a Host that is none", "GET /a.txt HTTP/1.1\r\nHost: a b\r\n\r\n"),
        raw("a Host with a path", "GET /a.txt HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        raw("a Host with a port", "GET /d HTTP/1.1\r\nHost: a.example:99\r\n\r\n"),
        raw("a Host with a bad port", "GET /d HTTP/1.1\r\nHost: a.example:x\r\n\r\n"),
        raw("an IPv6 Host", "GET /d HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
        raw("absolute form", "GET http://b.example/d HTTP/1.1\r\nHost: a.example\r\n\r\n"),
        raw("absolute form without path", "GET http://b.example HTTP/1.1\r\nHost: b.example\r\n\r\n"),
        raw("absolute form without Host", "GET http://b.example/a.txt HTTP/1.1\r\n\r\n"),
        raw("another scheme", "GET ftp://b.example/a.txt HTTP/1.1\r\nHost: b.example\r\n\r\n"),
        raw("HTTP/1.2", "GET /a.txt HTTP/1.2\r\nHost: a\r\n\r\n"),
        raw("HTTP/2.0", "GET /a.txt HTTP/2.0\r\nHost: a\r\n\r\n"),
        raw("HTTP/3", "GET /a.txt HTTP/3\r\nHost: a\r\n\r\n"),
        raw("HTTP/1.10", "GET /a.txt HTTP/1.10\r\nHost: a\r\n\r\n"),
        raw("http/1.1", "GET /a.txt http/1.1\r\nHost: a\r\n\r\n"),
        raw("no version", "GET /a.txt\r\nHost: a\r\n\r\n"),
        raw("another protocol", "GET /a.txt FOO/1.1\r\nHost: a\r\n\r\n"),
        raw("empty lines first", "\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        raw("keep-alive asked for", "GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"),
        raw("an unknown expectation", "GET /a.txt HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n"),
        raw("an expectation without a body", "GET /a.txt HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n"),
    ];
    let allowed = [
        Allowed { case: "HTTP/2.0", what: "status", entry: "A major version that is not spoken" },
        Allowed { case: "the preface of HTTP/2", what: "status", entry: "A major version that is not spoken" },
        Allowed { case: "no version", what: "count", entry: "HTTP/0.9 is not spoken" },
        Allowed { case: "no version", what: "rest", entry: "HTTP/0.9 is not spoken" },
        Allowed { case: "an unknown expectation", what: "%X", entry: "417 says that the connection closes" },
        Allowed { case: "an unknown expectation", what: "connection", entry: "417 says that the connection closes" },
        Allowed { case: "an expectation without a body", what: "connection", entry: "An expectation without a body" },
        Allowed { case: "an expectation without a body", what: "%X", entry: "An expectation without a body" },
        Allowed { case: "HTTP/1.2", what: "%H", entry: "The protocol of a line that is not a request" },
    ];
    compare("versions_and_hosts", build, "", &cases, &allowed);
}

#[test]
fn malformed_heads() {
    let cases = [
        raw("two blanks in the line", "GET  /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("a tab in the line", "GET\t/a.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("a blank before the line", " GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("a blank in the target", "GET /a b.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("a bare LF", "GET /a.txt HTTP/1.1\nHost: a\n\n"),
        raw("a bare CR in a value", "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"),
        raw("NUL in a value", "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n"),
        raw("NUL in the target", "GET /a\0.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("a control byte in a value", "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: a\x01b\r\n\r\n"),
        raw("obs-fold", "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n"),
        raw("a fold as the first field", "GET /a.txt HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n"),
        raw("a blank before the colon", "GET /a.txt HTTP/1.1\r\nHost : a\r\n\r\n"),
        raw("no colon", "GET /a.txt HTTP/1.1\r\nHost: a\r\nfoo\r\n\r\n"),
        raw("no name", "GET /a.txt HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n"),
        raw("a name that is no token", "GET /a.txt HTTP/1.1\r\nHost: a\r\nX(): x\r\n\r\n"),
        raw("two hosts", "GET /a.txt HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        raw("two hosts without an end", "GET /a.txt HTTP/1.1\r\nHost: a\r\nHost: b\r\n"),
        raw("two hosts and no colon", "GET /a.txt HTTP/1.1\r\nHost: a\r\nHost: b\r\nfoo\r\n\r\n"),
        raw("an 8-bit value", "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: \u{e9}\r\n\r\n"),
        raw("only a word", "GET\r\n\r\n"),
        raw("nonsense", "\x16\x03\x01\x02\r\n\r\n"),
        raw("a method that is no token", "G(T /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("a target without slash", "GET a.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("a target in quotes", "GET /\"a\" HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("an 8-bit target", "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("a long line", &format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000))),
        raw("a long field", &format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(9000))),
        raw("many fields", &format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(101))),
    ];
    compare("malformed_heads", build, "", &cases, &[]);
}

#[test]
fn request_framing() {
    let post = |fields: &str, body: &str| format!("POST /a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}");
    let next = "GET /d/ HTTP/1.1\r\nHost: a\r\n\r\n";
    let table: &[(&str, &str, &str)] = &[
        ("a length", "Content-Length: 3\r\n", "abc"),
        ("the same length twice", "Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
        ("two lengths", "Content-Length: 3\r\nContent-Length: 4\r\n", "abc"),
        ("a list of lengths", "Content-Length: 3, 3\r\n", "abc"),
        ("a negative length", "Content-Length: -3\r\n", "abc"),
        ("a length with a sign", "Content-Length: +3\r\n", "abc"),
        ("a length in hex", "Content-Length: 0x3\r\n", "abc"),
        ("an empty length", "Content-Length:\r\n", "abc"),
        ("a huge length", "Content-Length: 99999999999999999999\r\n", "abc"),
        ("chunks", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("chunks with trailers", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\nX: y\r\n\r\n"),
        ("chunks with extensions", "Transfer-Encoding: chunked\r\n", "3;x=y\r\nabc\r\n0;z\r\n\r\n"),
        ("both", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("both, the other way", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("an unknown coding", "Transfer-Encoding: gzip\r\n", ""),
        ("two codings", "Transfer-Encoding: gzip, chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("chunked is not last", "Transfer-Encoding: chunked, gzip\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("chunked twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("identity", "Transfer-Encoding: identity\r\nContent-Length: 3\r\n", "abc"),
        ("Chunked", "Transfer-Encoding: Chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("a chunk size that is none", "Transfer-Encoding: chunked\r\n", "x\r\nabc\r\n0\r\n\r\n"),
        ("a chunk without its end", "Transfer-Encoding: chunked\r\n", "3\r\nabcd\r\n0\r\n\r\n"),
        ("a huge chunk size", "Transfer-Encoding: chunked\r\n", "ffffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
        ("a negative chunk size", "Transfer-Encoding: chunked\r\n", "-3\r\nabc\r\n0\r\n\r\n"),
        ("a length for GET", "X: y\r\n", ""),
    ];
    let cases: Vec<Case> =
        table.iter().map(|(name, fields, body)| raw(name, &[post(fields, body), next.into()].concat())).collect();
    let strict = |case, what| Allowed { case, what, entry: "Requests that two servers could read differently" };
    let length = |case| Allowed { case, what: "content-length", entry: "The length of an error page" };
    let allowed = [
        strict("both", "status"),
        strict("both, the other way", "status"),
        strict("two codings", "status"),
        strict("two codings", "count"),
        strict("chunked twice", "status"),
        strict("chunked twice", "count"),
        length("a chunk size that is none"),
        length("a chunk without its end"),
        length("a huge chunk size"),
        length("a negative chunk size"),
    ];
    compare("request_framing", build, "", &cases, &allowed);
}

/// Up to each limit, and beyond it.
#[test]
fn limits() {
    let line = |length: usize| {
        let rest = "x".repeat(length - "GET /? HTTP/1.1".len());
        case(&format!("a line of {length}"), &format!("GET /?{rest} HTTP/1.1"), &[])
    };
    let field = |length: usize| {
        let value = "y".repeat(length - 3);
        case(&format!("a field of {length}"), "GET /a.txt HTTP/1.1", &[&format!("X: {value}")])
    };
    let fields = |count: usize| {
        let fields: Vec<String> = (1..count).map(|n| format!("F{n}: x")).collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        case(&format!("{count} fields"), "GET /a.txt HTTP/1.1", &fields)
    };
    let post = |name: &str, fields: &str, body: &str| {
        raw(name, &format!("POST /a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
    };
    let mut cases: Vec<Case> = [98, 99, 100, 101, 102, 103, 500, 9000].map(line).into();
    cases.extend([48, 49, 50, 51, 52, 53, 500, 9000].map(field));
    cases.extend([2, 3, 4, 5, 100].map(fields));
    for length in [99, 100, 101] {
        let body = "b".repeat(length);
        cases.push(post(&format!("a body of {length}"), &format!("Content-Length: {length}\r\n"), &body));
        let chunk = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
        cases.push(post(&format!("a chunk of {length}"), "Transfer-Encoding: chunked\r\n", &chunk));
    }
    let configuration = "LimitRequestLine 100\nLimitRequestFields 3\nLimitRequestFieldSize 50\nLimitRequestBody 100";
    let allowed = [
        Allowed { case: "a body of 101", what: "content-length", entry: "The length of an error page" },
        Allowed { case: "a chunk of 101", what: "content-length", entry: "The length of an error page" },
    ];
    compare("limits", build, configuration, &cases, &allowed);
}

/// How often a connection is used.
#[test]
fn keep_alive() {
    let kept = "GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    let old = "GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let cases = [raw("five in a row", &kept.repeat(5)), raw("five of HTTP/1.0", &old.repeat(5))];
    for configuration in ["MaxKeepAliveRequests 3", "MaxKeepAliveRequests 0", "KeepAlive Off", "KeepAliveTimeout 0"] {
        compare("keep_alive", build, configuration, &cases, &[]);
    }
}
