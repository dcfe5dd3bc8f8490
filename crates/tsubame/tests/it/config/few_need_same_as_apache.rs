//! Small modules of which each site needs one at most, beside Apache: methods that are allowed, files that are answers,
//! messages of one's own, a line before each request.

use crate::harness::oracle::{Allowed, Case, both, compare, rows};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

#[test]
fn methods_that_are_allowed() {
    let build = |site: &Site| {
        site.page("f.txt", "x\n");
        site.page("in/f.txt", "x\n");
        site.page("in/more/f.txt", "x\n");
        site.page("all/f.txt", "x\n");
    };
    let text = "RegisterHttpMethod FROB\n<Location /in>\nAllowMethods GET FROB\n</Location>\n\
        <Location /in/more>\nAllowMethods POST\nAllowMethods HEAD\n</Location>\n\
        <Location /in/none>\nAllowMethods OPTIONS\n</Location>\n\
        <Directory ${DOCS}/all>\nAllowMethods POST\nAllowMethods reset\n</Directory>\n";
    let mut requests = Vec::new();
    for path in ["/f.txt", "/in/f.txt", "/in/more/f.txt", "/in/none", "/all/f.txt"] {
        for method in ["GET", "HEAD", "POST", "OPTIONS", "PUT", "FROB", "NONE", "TRACE", "DELETE"] {
            requests.push(format!("{method} {path}"));
        }
    }
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    let allowed = [
        Allowed { case: "* /in/*", what: "allow", entry: "The methods that AllowMethods allows" },
        Allowed { case: "HEAD *", what: "content-length", entry: "The length of an error page for HEAD" },
        Allowed { case: "TRACE *", what: "content-length", entry: "TRACE answers with the request as it came" },
        Allowed { case: "TRACE *", what: "transfer-encoding", entry: "TRACE answers with the request as it came" },
    ];
    compare("methods_that_are_allowed", build, text, &cases, &allowed);
}

#[test]
fn files_that_are_answers() {
    let build = |site: &Site| {
        site.page("target.html", "target\n");
        for (name, text) in [
            ("plain", "Content-Type: text/x\nX-A: 1\nX-A: 2\nSet-Cookie: a=b\n\nbody\n"),
            ("crlf", "Content-type: text/x\r\nContent-Length: 2\r\n\r\nbody\r\n"),
            ("gone", "Status: 410 Gone for good\nContent-Type: text/x\n\nbody\n"),
            ("there", "Location: /target.html\n\nbody\n"),
            ("moved", "Status: 301 Moved\nLocation: http://x.example/\n\nbody\n"),
            ("moved-here", "Status: 301 Moved\nLocation: /target.html\n\nbody\n"),
            ("away", "Location: http://x.example/\n\nbody\n"),
            ("tag", "ETag: \"x\"\nLast-Modified: Tue, 14 Nov 2023 22:13:20 GMT\nContent-Type: text/x\n\nbody\n"),
            ("empty", ""),
            ("bad", "no field\n\nbody\n"),
            ("half", "Content-Type: text/x\n"),
            ("only", "Content-Type: text/x\n\n"),
            ("odd", "Bad Name: x\n\nbody\n"),
        ] {
            site.page(&format!("{name}.asis"), text);
        }
    };
    let requests = [
        "GET /plain.asis",
        "HEAD /plain.asis",
        "POST /plain.asis",
        "OPTIONS /plain.asis",
        "GET /crlf.asis",
        "GET /gone.asis",
        "GET /there.asis",
        "HEAD /there.asis",
        "GET /moved.asis",
        "GET /moved-here.asis",
        "GET /away.asis",
        "GET /tag.asis",
        "GET /tag.asis|If-None-Match: \"x\"",
        "GET /tag.asis|Range: bytes=1-2",
        "GET /empty.asis",
        "GET /bad.asis",
        "GET /half.asis",
        "GET /only.asis",
        "GET /odd.asis",
        "GET /none.asis",
    ];
    let entry = "Files that are sent as they are";
    let allowed = [
        Allowed { case: "HEAD /plain.asis", what: "content-length", entry },
        Allowed { case: "GET /bad.asis", what: "error log", entry },
        Allowed { case: "GET /half.asis", what: "content-type", entry },
        Allowed { case: "GET /half.asis", what: "%{Content-Type}o", entry },
        Allowed { case: "GET /odd.asis", what: "%b", entry: "The length of an error page" },
        Allowed { case: "GET /odd.asis", what: "content-length", entry: "The length of an error page" },
    ];
    rows("files_that_are_answers", build, &[("AddHandler send-as-is .asis", &requests[..])], &allowed);
}

#[test]
fn custom_messages() {
    let build = |site: &Site| {
        site.page("f.txt", "x\n");
        site.page("in/f.txt", "x\n");
    };
    let text = "LogLevel log_debug:info\nLogMessage \"log %{REQUEST_STATUS}\"\n\
        LogMessage \"fix %{REQUEST_URI}\" hook=fixups\nLogMessage \"if\" hook=handler expr=%{REQUEST_URI}=~m#in#\n\
        <Location /in>\nLogMessage type hook=type_checker\nLogMessage access hook=check_access\n\
        LogMessage ex hook=check_access_ex\nLogMessage map hook=map_to_storage\n\
        LogMessage translate hook=translate_name\nLogMessage \"last\" expr=%{REQUEST_STATUS}=200\n\
        LogMessage failed hook=fixups expr=file('/none')=1\n</Location>\n\
        <Location /all>\nLogMessage all hook=all\n</Location>\n";
    let requests = ["GET /f.txt", "GET /in/f.txt", "GET /in/none", "GET /all"];
    let allowed = [Allowed { case: "GET /all", what: "error log", entry: "The moment insert_filter of LogMessage" }];
    rows("custom_messages", build, &[(text, &requests[..])], &allowed);
}

/// Lines before and after each request; the ids are checked, and removed.
#[test]
fn a_line_before_each_request() {
    let build = |site: &Site| {
        site.page("f.txt", "x\n");
    };
    let text = "ForensicLog logs/forensic\nErrorDocument 404 /f.txt\n";
    both("a_line_before_each_request", build, text, |site| {
        let mut client = Client::connect(site.address());
        let fields = "X-A: a|b:c%\r\nX-A: two\r\nX-B: \u{e4}\t1\r\n";
        for path in ["/f.txt", "/none?a|b"] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes());
            client.response();
        }
        let lines = until("lines", || {
            let lines: Vec<String> = site.read("logs/forensic").lines().map(str::to_string).collect();
            (lines.len() == 4).then_some(lines)
        });
        for (pair, path) in lines.chunks(2).zip(["/f.txt", "/none?a%7cb"]) {
            let (id, rest) = pair[0].strip_prefix('+').and_then(|line| line.split_once('|')).expect("an id");
            let want = format!("GET {path} HTTP/1.1|Host:localhost|X-A:a%7cb%3ac%25, two|X-B:%c3%a4%091");
            assert_eq!(rest, want);
            assert_eq!(pair[1], format!("-{id}"));
            assert!(crate::logs::unique_ids::is_id(id), "{id}");
        }
    });
}
