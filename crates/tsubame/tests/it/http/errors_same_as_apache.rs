//! Error answers, `ErrorDocument`, and malformed requests: as in Apache.

use crate::harness::oracle::{Allowed, Case, both, compare, rows};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

/// Prints its request.
const TELL: &str =
    "#!/bin/sh\nprintf 'Content-type: text/plain\\n\\n'\necho \"$QUERY_STRING $REDIRECT_STATUS $REDIRECT_URL\"\n";

fn build(site: &Site) {
    for (name, text) in [
        ("index.html", "<p>root\n"),
        ("a.txt", "0123456789"),
        ("a.html", "a\n"),
        ("mine.html", "<p>mine\n"),
        ("d/index.html", "d\n"),
        ("d/f.txt", "f\n"),
        ("bare/x.txt", "x\n"),
    ] {
        site.page(name, text);
    }
    site.file("conf/passwords", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n\n");
    for (name, text) in [("tell.cgi", TELL), ("in.cgi", "#!/bin/sh\nprintf 'Content-type: text/plain\\n\\n'\nwc -c\n")]
    {
        let script = site.page(name, text);
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("mode");
    }
}

const SCRIPTS: &str = "AddHandler cgi-script .cgi\nOptions +ExecCGI\n";

/// Intended differences in lengths, ranges and connections.
const MEANT: [Allowed; 24] = [
    Allowed { case: "*|Range: bytes=20-", what: "%k", entry: "416 says how long the file is" },
    Allowed { case: "*|Range: bytes=20-", what: "content-range", entry: "416 says how long the file is" },
    Allowed { case: "*|Range: bytes=20-", what: "content-length", entry: "416 says how long the file is" },
    Allowed { case: "*|Range: bytes=20-", what: "transfer-encoding", entry: "416 says how long the file is" },
    Allowed { case: "* /none", what: "%{Location}o", entry: "An error document that fails" },
    Allowed { case: "GET /d/", what: "%{Location}o", entry: "An error document that fails" },
    Allowed { case: "* /none", what: "%>s", entry: "An error document that fails" },
    Allowed { case: "GET /d/", what: "%>s", entry: "An error document that fails" },
    Allowed { case: "* /none", what: "%{Content-Type}o", entry: "An error document that fails" },
    Allowed { case: "GET /d/", what: "%{Content-Type}o", entry: "An error document that fails" },
    Allowed { case: "* /none", what: "%b", entry: "An error document that fails" },
    Allowed { case: "GET /d/", what: "%b", entry: "An error document that fails" },
    Allowed { case: "* /none", what: "content-length", entry: "The length of an error page" },
    Allowed { case: "* /none", what: "transfer-encoding", entry: "The length of an error page" },
    Allowed { case: "GET /no%20ne?x", what: "content-length", entry: "The length of an error page" },
    Allowed { case: "GET /no%20ne?x", what: "transfer-encoding", entry: "The length of an error page" },
    Allowed { case: "* host", what: "content-length", entry: "The length of an error page" },
    Allowed { case: "too large*", what: "content-length", entry: "The length of an error page" },
    Allowed { case: "no *chunk", what: "content-length", entry: "The length of an error page" },
    Allowed { case: "another method", what: "allow", entry: "501 for an unregistered method lists all others" },
    Allowed { case: "GET /a.txt|Expect: foo", what: "%X", entry: "417 says that the connection closes" },
    Allowed { case: "GET /a.txt|Expect: foo", what: "connection", entry: "417 says that the connection closes" },
    Allowed {
        case: "GET /a.txt|Expect: 100-continue|Expect: foo",
        what: "%X",
        entry: "417 says that the connection closes",
    },
    Allowed {
        case: "GET /a.txt|Expect: 100-continue|Expect: foo",
        what: "connection",
        entry: "417 says that the connection closes",
    },
];

#[test]
fn documents() {
    let expression = format!("{SCRIPTS}ErrorDocument 404 /tell.cgi?u=%{{REQUEST_URI}}");
    let denied = "<Directory ${DOCS}/d>\nRequire all denied\n</Directory>\n";
    let denied_document = format!("ErrorDocument 404 /d/f.txt\n{denied}");
    let missing = format!("ErrorDocument 403 /nope\n{denied}");
    let elsewhere = format!("ErrorDocument 403 /bare\n{denied}");
    let none: &[&str] = &["GET /none", "HEAD /none"];
    rows(
        "documents",
        build,
        &[
            (&expression, &["GET /none", "GET /no%20ne?x"]),
            // A document that fails in its turn: the page names the first error alone.
            (&denied_document, none),
            (&missing, &["GET /d/"]),
            (&elsewhere, &["GET /d/"]),
            ("ErrorDocument 404 /d", none),
            ("ErrorDocument 404 /bare/", none),
            ("ErrorDocument 404 /r\nRedirect /r http://x.example/", none),
            ("ErrorDocument 404 /r\nRedirect gone /r", none),
            ("ErrorDocument 416 text", &["GET /a.txt|Range: bytes=20-"]),
            ("ErrorDocument 416 /mine.html", &["GET /a.txt|Range: bytes=20-", "GET /a.txt|Range: bytes=0-1"]),
            ("ErrorDocument 416 http://x.example/", &["GET /a.txt|Range: bytes=20-"]),
        ],
        &MEANT,
    );
}

/// An error document below an access file that refuses, and the index of a directory with one: what was asked once is not asked
/// again, though the file is read again each time (`<IfFile>`).
#[test]
fn documents_below_access_files() {
    let log_in = "AuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/conf/passwords\n";
    let texts = [
        ("ErrorDocument 403 /mine.html\nRequire ip 10\n".to_string(), ["GET /a.html", "GET /none", "GET /d/"]),
        (
            "ErrorDocument 403 /mine.html\nOrder allow,deny\nDeny from all\n".to_string(),
            ["GET /a.html", "GET /none", "GET /d/"],
        ),
        (
            format!("ErrorDocument 401 /mine.html\n{log_in}Require valid-user\n"),
            ["GET /a.html", "GET /d/", "GET /d/|Authorization: Basic YW5uOmFubg=="],
        ),
        (
            format!("{log_in}<Limit GET POST>\nRequire valid-user\n</Limit>\n"),
            ["OPTIONS /d/", "GET /d/", "OPTIONS /a.txt"],
        ),
    ];
    for (text, requests) in texts {
        let build = |site: &Site| {
            build(site);
            site.page(".htaccess", format!("<IfFile \"/\">\n{text}</IfFile>\n"));
        };
        let configuration = "<Directory ${DOCS}>\nAllowOverride All\n</Directory>";
        rows("documents_below_access_files", build, &[(configuration, &requests)], &MEANT);
    }
}

#[test]
fn suppressed_charset() {
    let requests: &[&str] = &["GET /d|X: b", "GET /none|X: b", "GET /g|X: b", "GET /a.txt|X: b", "GET /none"];
    let base = "SetEnvIf X b suppress-error-charset\nRedirect gone /g\nAddDefaultCharset utf-8\n";
    let text = format!("{base}ErrorDocument 404 \"not here\"");
    rows("suppressed_charset", build, &[(base, requests), (&text, requests)], &MEANT);
}

#[test]
fn input_that_is_not_a_request() {
    // The status of an error document does not show that there was none.
    let logged = ["%H", "%U", "%m", "%r"];
    let logged = logged.map(|what| Allowed { case: "*", what, entry: "The items of a refused request" });
    let meant: Vec<Allowed> = MEANT.into_iter().chain(logged).collect();
    let raw = |name: &str, bytes: &str| Case { name: name.into(), bytes: bytes.into() };
    let cases = [
        raw("no host", "GET / HTTP/1.1\r\n\r\n"),
        raw("no field", "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"),
        raw("no method", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("one word", "GET\r\n\r\n"),
        raw("bare LF", "GET / HTTP/1.1\nHost: a\n\n"),
        raw("a bad host", "GET /a.txt HTTP/1.1\r\nHost: a b\r\n\r\n"),
        raw("a long line", &format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000))),
        raw("a long field", &format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(9000))),
        raw("many fields", &format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(101))),
        raw("another host", "GET /a.txt HTTP/1.1\r\nHost: other\r\n\r\n"),
        raw("another method", "FOO /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        raw("HEAD without host", "HEAD / HTTP/1.1\r\n\r\n"),
        Case::of("GET /a.txt|Expect: foo"),
        Case::of("GET /a.txt|Expect: 100-continue|Expect: foo"),
        Case::of("GET /a.txt|Expect:"),
    ];
    let strict = "HttpProtocolOptions RegisteredMethods\nStrictHostCheck On\n";
    let documents = |what: &str| {
        [400, 414, 417, 501].iter().map(|status| format!("ErrorDocument {status} {what}\n")).collect::<String>()
    };
    for configuration in ["", &documents("/mine.html"), &documents("sorry"), &documents("http://x.example/")] {
        compare("input_that_is_not_a_request", build, &format!("{strict}{configuration}"), &cases, &meant);
    }
    // If the head ended early, Apache's script fails.
    let read = |case: &Case| ["no host", "a bad host", "another host"].contains(&case.name.as_str());
    let cases: Vec<Case> = cases.into_iter().filter(read).collect();
    let script = format!("{strict}{SCRIPTS}{}", documents("/tell.cgi?x"));
    let chunks = Allowed { case: "*", what: "transfer-encoding", entry: "The length of a short CGI answer" };
    let meant = [meant, vec![chunks]].concat();
    compare("input_that_is_not_a_request", build, &script, &cases, &meant);
}

/// For an unknown host name, the error log says which names it was compared with.
#[test]
fn hosts_that_are_not_known() {
    let host = |name: &str| format!("<VirtualHost *:8080>\nServerName {name}\n</VirtualHost>\n");
    let elsewhere = "<VirtualHost 127.0.0.1:8080>\nServerName one\n</VirtualHost>\n";
    let requests = ["other", "localhost", "two"]
        .map(|name| Case { name: name.into(), bytes: format!("GET /a.txt HTTP/1.1\r\nHost: {name}\r\n\r\n").into() });
    let lengths = [Allowed { case: "*", what: "content-length", entry: "The length of an error page" }];
    for hosts in ["".to_string(), host("one"), host("one") + &host("two"), elsewhere.into()] {
        compare("hosts_that_are_not_known", build, &format!("StrictHostCheck On\n{hosts}"), &requests, &lengths);
    }
}

/// A link that must not be followed: Apache reports with a separate number that it has already met the directory.
#[test]
fn links_that_may_not_be_followed() {
    let build = |site: &Site| {
        build(site);
        for (file, link) in [("../a.txt", "bare/index.html"), ("a.txt", "link.txt"), ("a.txt", "l.html")] {
            std::os::unix::fs::symlink(file, site.root.join("htdocs").join(link)).expect("link");
        }
        std::os::unix::fs::symlink("d", site.root.join("htdocs/to-d")).expect("link");
    };
    let requests: &[&str] = &["GET /bare/", "GET /link.txt", "GET /l", "GET /to-d/f.txt", "GET /none", "GET /d/none"];
    let text = "<Directory ${DOCS}>\nOptions MultiViews\n</Directory>\n";
    let whole = Allowed { case: "GET /to-d/f.txt", what: "%f", entry: "The file of a request" };
    let meant: Vec<Allowed> = MEANT.into_iter().chain([whole]).collect();
    rows("links_that_may_not_be_followed", build, &[(text, requests)], &meant);
}

/// `%<f` is the file of the request, not the file of its error document.
#[test]
fn the_file_of_the_original_request_is_logged() {
    let lines = "ErrorDocument 404 /mine.html\nCustomLog logs/files \"%<f %>f %f\"\n";
    both("the_file_of_the_original_request_is_logged", build, lines, |site| {
        let mut client = Client::connect(site.address());
        assert_eq!(client.get("/none").status, 404);
        assert_eq!(client.get("/a.txt").status, 200);
        let docs = format!("{}/htdocs", site.path());
        let want = format!("{docs}/none {docs}/mine.html {docs}/mine.html\n{0} {0} {0}\n", format!("{docs}/a.txt"));
        until("the log", || (site.read("logs/files").lines().count() == 2).then_some(()));
        assert_eq!(site.read("logs/files"), want);
    });
}

/// After a request that expects what no server can do there is no other.
#[test]
fn an_unmet_expectation_closes() {
    let next = "GET /d/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let of = |fields: &str| Case {
        name: fields.into(),
        bytes: format!("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{next}").into_bytes(),
    };
    let cases = [of("Expect: foo\r\n"), of("Expect: 100-continue\r\nExpect: foo\r\n"), of("Expect:\r\n")];
    let closes = Allowed { case: "*Expect: foo*", what: "connection", entry: "417 says that the connection closes" };
    let logged = Allowed { case: "*Expect: foo*", what: "%X", entry: "417 says that the connection closes" };
    compare("an_unmet_expectation_closes", build, "", &cases, &[closes, logged]);
}

/// Control characters reach no client, whatever their source.
#[test]
fn values_that_cannot_be_sent() {
    let meant = [
        Allowed { case: "*", what: "%b", entry: "The length of an error page" },
        Allowed { case: "*", what: "content-length", entry: "The length of an error page" },
    ];
    rows(
        "values_that_cannot_be_sent",
        build,
        &[
            ("RedirectMatch ^/r/(.*) http://x/?a=$1", &["GET /r/%0aX", "GET /r/%01X", "GET /r/x%7f", "HEAD /r/%0a"]),
            ("<Files a.txt>\nForceType \"text/x\u{1}y\"\n</Files>", &["GET /a.txt"]),
            ("AddType \"text/x\u{1}y\" .txt\nAddCharset \"a\u{7f}b\" .html", &["GET /a.txt", "GET /a.html"]),
            ("AddLanguage \"x\u{1}\" .txt\nAddEncoding \"x\u{1}\" .html", &["GET /a.txt", "GET /a.html"]),
        ],
        &meant,
    );
}

/// A request for a file, or for nothing, has its body read before it is answered.
#[test]
fn bodies_that_nobody_needs() {
    let post = |name: &str, path: &str, chunks: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
        Case { name: name.into(), bytes: format!("{head}{chunks}GET /d/ HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes() }
    };
    let chunk = |length: usize| format!("{length:x}\r\n{}\r\n0\r\n\r\n", "b".repeat(length));
    let cases = [
        post("as large as allowed", "/a.txt", &chunk(100)),
        post("too large", "/a.txt", &chunk(101)),
        post("too large for nothing", "/none", &chunk(101)),
        post("no chunk", "/a.txt", "zz\r\n"),
        post("no end of a chunk", "/a.txt", "3\r\nabcd\r\n0\r\n\r\n"),
    ];
    for configuration in ["LimitRequestBody 100", "LimitRequestBody 100\nErrorDocument 413 /mine.html"] {
        compare("bodies_that_nobody_needs", build, configuration, &cases, &MEANT);
    }
    let small = Case {
        name: "many small chunks".into(),
        bytes: format!(
            "POST /in.cgi HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            "1\r\nx\r\n".repeat(4200)
        )
        .into_bytes(),
    };
    let lengths = [
        Allowed { case: "*", what: "transfer-encoding", entry: "The length of a short CGI answer" },
        Allowed { case: "*", what: "content-length", entry: "The length of a short CGI answer" },
    ];
    compare("bodies_that_nobody_needs", build, SCRIPTS, &[small], &lengths);
}

/// A user without name is in no file, not even in an empty line of one.
#[test]
fn users_without_name() {
    let configuration = "<Directory ${DOCS}/d>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/conf/passwords\n\
        Require valid-user\n</Directory>";
    rows("users_without_name", build, &[(configuration, &["GET /d/f.txt|Authorization: Basic Og=="])], &[]);
}
