//! How bodies of requests are received: when the clock of a slow client starts, how small pieces arrive, what is counted.

use std::time::Duration;

use crate::harness::mpm::under_percore_and;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::get;

const SCRIPTS: &str =
    "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n";

/// A file, and scripts that wait as long as another file is there, and then say what they were sent.
fn site() -> Site {
    let site = Site::with([("a.txt", "0123456789")]);
    for name in ["echo", "again"] {
        let text = "#!/bin/sh\nwhile [ -e ../hold ]; do sleep 0.02; done\nbody=$(cat); printf '\\n%s' \"$body\"\n";
        site.script(name, text);
    }
    site
}

/// How often the children of a server have written with write(2), which is not how they send to clients.
fn writes(server: &Server<'_>) -> u64 {
    let of = |child: i32| {
        let text = std::fs::read_to_string(format!("/proc/{child}/io")).expect("io");
        let line = text.lines().find_map(|line| line.strip_prefix("syscw: ")).expect("a number");
        line.parse::<u64>().expect("a number")
    };
    server.children().into_iter().map(of).sum()
}

under_percore_and! {
    prefork:

    /// A client is asked for its body when a script can take it, and its time starts then: it cannot help the wait at the gate.
    fn the_clock_starts_after_the_gate(mpm: Mpm) {
        let site = site();
        let limits = "RequestReadTimeout body=2\nTimeout 2\nCGIScriptTimeout 60\nAdmissionLimit 1\nAdmissionQueue 9\n";
        let server = Server::start(mpm, &site, &format!("{SCRIPTS}{limits}"));
        server.allow("server seems busy");
        site.file("hold", "");
        let mut first = [server.client(), server.client()];
        first[0].send(get("/cgi/echo"));
        first[1].send(get("/cgi/again"));
        until("scripts that run", || (server.scripts() == 2).then_some(()));
        let post = |script: &str, field: &str| {
            let mut client = server.client();
            client.send(format!(
                "POST /cgi/{script} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 3\r\n{field}\r\n"
            ));
            client
        };
        let (mut waits, mut sends) = (post("echo", "Expect: 100-continue\r\n"), post("again", ""));
        // Longer than a client may take.
        waits.hears_nothing_for(Duration::from_millis(2500));
        std::fs::remove_file(site.root.join("hold")).expect("hold");
        assert_eq!(waits.bytes(25), b"HTTP/1.1 100 Continue\r\n\r\n");
        waits.send("abc");
        sends.send("def");
        assert_eq!((waits.response().text(), sends.response().text()), ("abc".into(), "def".into()));
        first.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    }

    /// However small the chunks are, a script reads in one piece what arrived together.
    fn tiny_chunks_are_one_piece(mpm: Mpm) {
        const CHUNKS: usize = 3000;

        let site = site();
        let server = Server::start(mpm, &site, SCRIPTS);
        let head = "POST /cgi/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        let request = format!("{head}{}0\r\n\r\n", "1\r\nx\r\n".repeat(CHUNKS));
        let mut client = server.client();
        assert_eq!(client.request(&request).body.len(), CHUNKS);
        let before = writes(&server);
        assert_eq!(client.request(&request).body.len(), CHUNKS);
        let written = writes(&server) - before;
        assert!(written < CHUNKS as u64 / 10, "{written} writes for {CHUNKS} chunks");
    }

    /// HTTP/1.0 has no interim responses: a client that asks for one gets none, and sends its body.
    fn an_old_client_is_not_told_to_go_on(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, SCRIPTS);
        let mut client = server.client();
        client.send("POST /cgi/echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        until("a script that reads", || (server.scripts() == 1).then_some(()));
        client.hears_nothing_for(Duration::from_millis(200));
        client.send("abc");
        let answer = client.response();
        assert_eq!((answer.text().as_str(), answer.interim.as_slice()), ("abc", [].as_slice()));
    }

    /// Bytes received after the end of a body belong to the next request, and are counted there.
    fn bytes_after_a_body_are_counted_once(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "LogFormat \"%I %r\" bytes\nCustomLog logs/bytes bytes\n");
        let head = "POST /a.txt HTTP/1.1\r\nHost: localhost\r\n";
        let requests = [
            format!("{head}Content-Length: 5\r\n\r\nabcde"),
            format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"),
            get("/a.txt"),
        ];
        let mut client = server.client();
        client.send(requests.concat());
        requests.iter().for_each(|_| assert_eq!(client.response().status, 200));
        // A request in two pieces: its body comes when it is asked for.
        client.send(&requests[0][..requests[0].len() - 3]);
        client.hears_nothing_for(Duration::from_millis(100));
        client.send(format!("cde{}", requests[2]));
        [0, 1].iter().for_each(|_| assert_eq!(client.response().status, 200));
        let all = [&requests[0], &requests[1], &requests[2], &requests[0], &requests[2]];
        let wanted: Vec<String> =
            all.iter().map(|text| format!("{} {}", text.len(), text.lines().next().expect("a line"))).collect();
        until("all lines of the log", || (site.read("logs/bytes").lines().count() == wanted.len()).then_some(()));
        assert_eq!(site.read("logs/bytes").lines().collect::<Vec<_>>(), wanted);
    }

    /// An unused body is read to its end to keep the connection, unless the end is far away.
    fn a_long_body_that_nobody_wants_is_not_waited_for(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "RequestReadTimeout body=0\nTimeout 300\nRedirect /old /new\n");
        let mut client = server.client();
        let head = "POST /old HTTP/1.1\r\nHost: localhost\r\n";
        let short = client.request(format!("{head}Content-Length: 100000\r\n\r\n{}", "x".repeat(100_000)));
        assert_eq!((short.status, short.closes()), (302, false));
        client.send(format!("{head}Content-Length: 10000000\r\n\r\n{}", "x".repeat(400_000)));
        let long = client.response();
        assert_eq!((long.status, long.closes()), (302, true));
    }
}
