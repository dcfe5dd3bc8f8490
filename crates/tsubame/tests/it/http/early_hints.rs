//! Responses that scripts send before their answers (103, RFC 8297).

use crate::harness::mpm::under_percore_and;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

const CONFIGURATION: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\nCustomLog logs/access \"%U %>s %O\"\n\
    <Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n";

const HINTS: &str = "Status: 103 Early Hints\\nLink: </a.css>; rel=preload\\nConnection: close\\n\
    Link: </b.js>; rel=preload\\nContent-Type: text/x\\n\\n";

fn site() -> Site {
    let site = Site::with([]);
    let answer = "printf 'Content-Type: text/plain\\n\\n'; cat";
    let repeated = |count: usize| format!("printf 'Status: 103\\nLink: <x>\\n\\n%.0s' $(seq {count}); {answer}");
    for (name, text) in [
        ("hints", format!("printf '{HINTS}'; {answer}")),
        ("many", repeated(16)),
        ("toomany", repeated(17)),
        ("only", format!("printf '{HINTS}'")),
        ("bad", format!("printf 'Status: 103\\nX-A: \\001\\n\\n'; {answer}")),
        ("nph-hints", format!("printf 'HTTP/1.1 200 OK\\n\\n{HINTS}'")),
    ] {
        site.script(name, &format!("#!/bin/sh\n{text}\n"));
    }
    site
}

/// A request with a body of four bytes, none of which has arrived.
fn ask(server: &Server<'_>, name: &str, version: &str) -> Client {
    let mut client = server.client();
    client.send(format!("POST /cgi/{name} HTTP/{version}\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"));
    client
}

/// A head, as it stands there.
fn head(client: &mut Client) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(client.bytes(1)[0]));
    }
    head
}

under_percore_and! {
    worker:

    /// They arrive while the script makes its answer, and the connection stays.
    fn hints_come_before_the_answer(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = ask(&server, "hints", "1.1");
        let hints = head(&mut client);
        let want = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nLink: </b.js>; rel=preload\r\n\r\n";
        assert_eq!(hints, want);
        client.send("body");
        let answer = head(&mut client);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && !answer.contains("Link"), "{answer}");
        // Whether the end was there in time for a length depends on the moment.
        let body = if answer.contains("chunked") { "4\r\nbody\r\n0\r\n\r\n" } else { "body" };
        assert_eq!(client.bytes(body.len()), body.as_bytes());
        let line = format!("/cgi/hints 200 {}\n", hints.len() + answer.len() + body.len());
        let log = || std::fs::read_to_string(site.root.join("logs/access")).unwrap_or_default();
        until("all bytes in the log", || (log() == line).then_some(()));
        client.send("POST /cgi/many HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmore");
        for _ in 0..16 {
            assert_eq!(head(&mut client), "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n");
        }
        assert_eq!(client.response().text(), "more");
    }

    /// A client of HTTP/1.0 would take them for the answer.
    fn old_clients_get_none(mpm: Mpm) {
        let site = site();
        let configured = format!("{CONFIGURATION}SetEnvIf X-Old yes downgrade-1.0 force-response-1.0\n");
        let server = Server::start(mpm, &site, &configured);
        let mut client = server.client();
        client.send("POST /cgi/hints HTTP/1.1\r\nHost: localhost\r\nX-Old: yes\r\nContent-Length: 4\r\n\r\nbody");
        let response = client.response();
        assert_eq!((response.status, response.interim.len(), response.text().as_str()), (200, 0, "body"));
        drop(server);
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = ask(&server, "hints", "1.0");
        client.send("body");
        let response = client.response();
        assert_eq!((response.status, response.interim.len(), response.text().as_str()), (200, 0, "body"));
    }

    /// Hints without an answer, without end, or with what no field may carry, are the script's fault.
    fn hints_are_no_answer(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow("AH02651: Error writing request body to script");
        for (name, line, hints) in [
            ("toomany", "End of script output before headers: toomany", 16),
            ("only", "End of script output before headers: only", 1),
            ("bad", "AH02430: Response header 'X-A' value of", 0),
        ] {
            server.announce(line);
            let mut client = ask(&server, name, "1.1");
            client.send("body");
            (0..hints).for_each(|_| assert!(head(&mut client).starts_with("HTTP/1.1 103 ")));
            assert_eq!(client.response().status, 500, "{name}");
        }
        // A script that talks to the client directly sends it itself.
        let mut client = server.client();
        client.send("GET /cgi/nph-hints HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(client.rest().0.starts_with(b"HTTP/1.1 200 OK\n\nStatus: 103"));
    }
}
