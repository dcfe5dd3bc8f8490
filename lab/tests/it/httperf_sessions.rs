//! Sessions of users, as `httperf --wsesslog` plays them, seen by the server.

use std::process::Output;

use crate::scripted::site::{File, Site, echo, lab, said, text};

/// The output of `httperf` for this server.
fn httperf(site: &Site, arguments: &[&str]) -> Output {
    let port = format!("--port={}", site.address.port());
    said(lab().args(["httperf", "--server=127.0.0.1", &port]).args(arguments))
}

/// httperf's files of sessions: methods, bodies, bursts, pauses, and sessions in turn.
#[test]
fn httperf_plays_files_of_sessions() {
    let site = Site::new(echo);
    let file = File::new(
        "log",
        "# a comment\n/a think=0.01\n  /b\n\t/c method=HEAD\n/d method=POST contents='it\\'s\\n1'\n \n\n\
         /e method=PUT contents=\"two\\\nlines\"\n",
    );
    let output = httperf(&site, &[&format!("--wsesslog=3,0,{}", file.path())]);
    let told = text(&output.stdout);
    let first = ["GET /a", "GET /b", "HEAD /c", "POST /d it's\n1"];
    let all = [&first[..], &["PUT /e two\nlines"], &first].concat();
    assert_eq!(site.taken(), all, "{told}");
    for line in [
        "Total: connections 3 requests 9 replies 9 ",
        "(3/3)\n",
        "Session: avg 1.00 connections/session\n",
        "Session failtime [s]: 0.0\n",
        "Session length histogram: 0 1 0 0 2\n",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }

    // A burst over several connections, because each may carry one request.
    let site = Site::new(echo);
    httperf(&site, &[&format!("--wsesslog=1,0,{}", file.path()), "--max-piped-calls=1", "--max-connections=2"]);
    let mut seen: Vec<(usize, String)> = site.seen().iter().map(|seen| (seen.connection, seen.path.clone())).collect();
    seen.sort();
    assert_eq!(seen.iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>(), ["/a", "/b", "/d", "/c"]);
    assert_eq!(seen.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [0, 0, 0, 1]);
}

/// Sessions that fail, and those that go on over another connection.
#[test]
fn httperf_tells_what_became_of_sessions() {
    let site = Site::new(echo);
    for (log, arguments, lines) in [
        ("/a\n/close\n/b", &[][..], ["(2/2)", "avg 2.00 connections/session", "histogram: 0 0 0 2"]),
        ("/a\n/none\n/b", &[], ["(2/2)", "avg 1.00 connections/session", "histogram: 0 0 0 2"]),
        ("/a\n/none\n/b", &["--failure-status=404"], ["(0/2)", "avg 0.00 connections/session", "histogram: 0 0 2"]),
        ("/a\n/gone\n/b", &[], ["(0/2)", "connreset 4", "histogram: 0 2"]),
    ] {
        let file = File::new("became", log);
        let log = format!("--wsesslog=2,0,{}", file.path());
        let told = text(&httperf(&site, &[&[log.as_str()], arguments].concat()).stdout);
        assert!(lines.iter().all(|line| told.contains(&format!("{line}\n"))), "{lines:?}: {told}");
    }
}

/// Cookies of a session, and requests and answers as they are printed.
#[test]
fn httperf_keeps_cookies_and_prints() {
    let site = Site::new(echo);
    let file = File::new("printed", "/cookie\n/b method=POST contents='x\\ny'\n");
    let log = format!("--wsesslog=2,0,{}", file.path());
    let arguments = [&log, "--session-cookies", "--print-request", "--print-reply=body"];
    let told = text(&httperf(&site, &arguments).stdout);
    let cookies =
        |site: &Site| site.seen().iter().map(|seen| seen.field("Cookie").map(str::to_owned)).collect::<Vec<_>>();
    let own = Some("a=1".to_owned());
    assert_eq!(cookies(&site), [None, own.clone(), None, own], "{told}");
    let head = "SH1:POST /b HTTP/1.1\r\nSH1:User-Agent: httperf/0.9.0\r\nSH1:Host: 127.0.0.1\r\nSH1:Content-Length: 3\r\nSH1:Cookie: a=1\r\nSH1:\r\n";
    for part in [
        head,
        "SB1:x\nSB1:y\nSS1: header 96 content 3\n",
        "\nRB3:hello\nRB3:world\nRS3: header 39 content 11 footer 0\n",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("RH"), "only bodies of answers: {told}");

    let site = Site::new(echo);
    let told = text(&httperf(&site, &[&log, "--print-reply=header"]).stdout);
    assert_eq!(cookies(&site), [None, None, None, None], "{told}");
    assert!(told.contains("RH0:HTTP/1.1 200 OK\r\nRH0:Set-Cookie: a=1; path=/\r\n") && !told.contains("RB0"), "{told}");

    // Without sessions, too.
    let told = text(&httperf(&site, &["--num-conns=2", "--num-calls=2", "--print-request=header"]).stdout);
    assert!(told.contains("SS3: header ") && !told.contains("Session"), "{told}");
    assert!(told.contains("Total: connections 2 requests 4 replies 4 "), "{told}");
}

/// Mistakes in files of sessions, and options that belong to sessions or are not there.
#[test]
fn httperf_names_mistakes() {
    let site = Site::new(echo);
    for (log, why) in [
        ("", "FILE has no sessions"),
        ("/a\n/b foo=1", "FILE:2: \"foo=1\" is none of method=NAME"),
        ("\n/a contents='x", "FILE:2: contents='x has no closing '"),
        ("/a think=long", "FILE:1: \"long\" is not a number of seconds"),
        ("a.html", "FILE:1: \"a.html\" is neither a path"),
    ] {
        let file = File::new("wrong", log);
        let output = httperf(&site, &[&format!("--wsesslog=1,0,{}", file.path())]);
        let told = text(&output.stderr).replace(file.path(), "FILE");
        assert!(!output.status.success() && told.contains(why), "{log:?}: {told}");
    }
    for (arguments, why) in [
        (&["--session-cookies"][..], "--session-cookies is for sessions"),
        (&["--failure-status=500"], "--failure-status is for sessions"),
        (&["--wsesslog=1,0"], "N,X,FILE"),
        (&["--wsesslog=1,0,/none.here"], "cannot read /none.here"),
        (&["--wsesslog=1,0,x", "--burst-length=2"], "cannot be used with"),
        (&["--print-reply=foo"], "header and body can be printed"),
        (&["--retry-on-failure"], "--retry-on-failure is not supported"),
        (&["--close-with-reset"], "--close-with-reset is not supported"),
    ] {
        let output = httperf(&site, arguments);
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains(why), "{arguments:?}: {told}");
    }
    assert!(site.seen().is_empty(), "nothing is sent before all is read");
}
