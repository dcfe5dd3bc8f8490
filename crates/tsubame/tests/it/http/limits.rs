//! Limits and time-outs: input that is too much, too long or too slow, and the fate of the connection.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

fn site() -> Site {
    Site::with([("index.html", "hello\n"), ("a.txt", "0123456789")])
}

/// A request of one line and these fields.
fn with_fields(fields: &str) -> String {
    format!("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

under_percore_and! {
    worker:

    /// `LimitRequestLine`, `LimitRequestFields`, `LimitRequestFieldSize`. Another test compares the exact limits with
    /// Apache's.
    fn heads_are_limited(mpm: Mpm) {
        let site = site();
        let limits = "LimitRequestLine 100\nLimitRequestFields 3\nLimitRequestFieldSize 50";
        let server = Server::start(mpm, &site, limits);
        let line = |length: usize| {
            let rest = length - "GET /? HTTP/1.1".len();
            format!("GET /?{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(rest))
        };
        let field = |length: usize| with_fields(&format!("X: {}\r\n", "y".repeat(length - 3)));
        for (request, status) in [
            (line(100), 200),
            (line(200), 414),
            (line(5000), 414),
            (with_fields("A: b\r\nC: d\r\n"), 200),
            (with_fields("A: b\r\nC: d\r\nE: f\r\n"), 400),
            (field(50), 200),
            (field(100), 400),
            (field(5000), 400),
        ] {
            let mut client = server.client();
            let response = client.request(&request);
            assert_eq!(response.status, status, "{request}");
            if status != 200 {
                assert!(response.closes(), "{request}");
                client.expect_end();
            }
        }
    }

    /// `LimitRequestBody`: a length that is too large is refused before it comes, chunks when they become too many.
    fn bodies_are_limited(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "LimitRequestBody 100");
        let post = |length: usize, rest: &str| {
            format!("POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{rest}")
        };
        assert_eq!(server.client().request(post(100, &"x".repeat(100))).status, 200);
        let mut client = server.client();
        let response = client.request(post(101, ""));
        assert_eq!((response.status, response.closes()), (413, true));
        drop(client);
        assert_eq!(server.client().request(post(usize::MAX / 4, "")).status, 413);
    }

    /// A body is not asked for where it is refused anyway; where it is read, `100 Continue` comes first.
    fn a_client_that_waits_is_told_to_go_on(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "LimitRequestBody 100");
        let head = |length: usize| {
            format!("POST /a.txt HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n")
        };
        let refused = server.client().request(head(101));
        assert_eq!((refused.status, refused.interim.as_slice(), refused.closes()), (413, [].as_slice(), true));
        let mut client = server.client();
        let answered = client.request(head(5));
        // Nobody reads the body of a POST to a plain file: the answer comes at once, and the connection ends with it.
        assert_eq!((answered.status, answered.closes()), (200, true));
    }

    /// `KeepAliveTimeout`: the connection is closed in time, and quietly.
    fn an_idle_connection_is_closed(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "KeepAliveTimeout 300ms");
        let mut client = server.client();
        assert_eq!(client.get("/").status, 200);
        let begin = Instant::now();
        client.expect_end();
        let waited = begin.elapsed();
        assert!(waited > Duration::from_millis(250) && waited < Duration::from_secs(5), "{waited:?}");
    }

    /// `Timeout` for a head that never ends: an incomplete head gets a 408, an idle connection is just closed.
    fn a_slow_head_is_given_up(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "Timeout 1\nAcceptFilter http none");
        let mut silent = server.client();
        let mut slow = server.client();
        slow.send("GET / HTTP/1.1\r\nHost: loc");
        let response = slow.response();
        assert_eq!((response.status, response.closes()), (408, true));
        slow.expect_end();
        silent.expect_end();
    }

    /// `RequestReadTimeout`: a head that comes too slowly, however steadily, and a body that stops.
    fn slow_requests_are_given_up(mpm: Mpm) {
        let site = site();
        site.script("echo", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ncat\n");
        let configuration = "RequestReadTimeout header=1 body=1\nScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/";
        let server = Server::start(mpm, &site, configuration);
        server.announce("AH01225: Error reading request entity data");
        let mut client = server.client();
        let begin = Instant::now();
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ");
        // A byte every few milliseconds, until the server has had enough.
        client.patience(Duration::from_millis(5));
        let response = until("the end of the server's patience", || {
            client.send("x");
            client.try_response_to("GET").ok()
        });
        assert_eq!((response.status, response.closes()), (408, true));
        assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
        let mut client = server.client();
        client.send("POST /cgi-bin/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
        // The script has begun its answer, which does not become whole.
        let (response, whole) = client.beginning_to("POST").expect("the beginning of an answer");
        assert!(response.closes() || whole.is_err(), "{response:?}");
        assert_eq!(server.get("/").status, 200);
    }

    /// A body in chunks, with trailers and extensions, after `100 Continue`: a script gets the content, and the next
    /// request after the body is found.
    fn chunks_reach_a_script(mpm: Mpm) {
        let site = site();
        site.script("echo", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ncat\n");
        let server = Server::start(mpm, &site, "ScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/");
        let mut client = server.client();
        let head = "POST /cgi-bin/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n";
        client.send(format!("{head}Expect: 100-continue\r\n\r\n"));
        assert_eq!(client.bytes(25), b"HTTP/1.1 100 Continue\r\n\r\n");
        client.send("3\r\nabc\r\n4;ext=\"x\"\r\ndefg\r\n0\r\nX-Trailer: y\r\n\r\n");
        assert_eq!(client.response().text(), "abcdefg");
        for size in [1, 2, 5, 100] {
            client.send_in_pieces(format!("{head}\r\n7\r\n0123456\r\n1\r\n7\r\n0\r\n\r\n").as_bytes(), size);
            client.send(get("/"));
            assert_eq!(client.response().text(), "01234567");
            assert_eq!(client.response().text(), "hello\n");
        }
    }

    /// `Timeout` for a body that never comes: the answer does, and the connection is over.
    fn a_slow_body_is_given_up(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "Timeout 1");
        let mut client = server.client();
        client.send("POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab");
        assert!(client.response().closes());
        client.expect_end();
    }

    /// `Timeout` for a client that does not take its answer: the connection is reset, the server goes on.
    fn a_client_that_does_not_read_is_given_up(mpm: Mpm) {
        let site = site();
        site.page("large", vec![b'x'; 64 << 20]);
        let server = Server::start(mpm, &site, "Timeout 1");
        let mut client = server.client();
        client.send(get("/large"));
        client.bytes(1000);
        let leaks = || crate::harness::descriptors::leaks(server.pid(), server.children());
        crate::harness::wait::until("the server gives up", || leaks().is_empty().then_some(()));
        let (bytes, _) = client.rest();
        assert!(bytes.len() < 64 << 20, "it was not given up");
    }

    /// A slow reader gets everything: progress extends the deadline.
    fn a_slow_reader_gets_everything(mpm: Mpm) {
        let site = site();
        let size = 24 << 20;
        site.page("large", (0..size).map(|n| (n % 251) as u8).collect::<Vec<u8>>());
        let server = Server::start(mpm, &site, "");
        let mut client = server.client();
        client.send(get("/large"));
        let mut other = server.client();
        assert_eq!(other.get("/").status, 200, "others are served meanwhile");
        let response = client.response();
        assert_eq!(response.body.len(), size);
        assert!(response.body.iter().enumerate().all(|(n, byte)| *byte == (n % 251) as u8));
    }
}

/// A client that keeps sending after the end is disconnected two seconds after the time-out.
#[test]
fn endless_senders_are_cut_off() {
    for mpm in [Mpm::Percore, Mpm::Worker] {
        let site = site();
        let server = Server::start(mpm, &site, "RequestReadTimeout header=1");
        let mut stream = TcpStream::connect(server.address()).expect("connect");
        let mut client = Client::over(stream.try_clone().expect("the same connection"));
        client.send("GET / HTTP/1.1\r\nHost: loc");
        assert_eq!(client.response().status, 408, "{mpm}");
        let begin = Instant::now();
        while stream.write_all(&[b'x'; 4096]).is_ok() {
            assert!(begin.elapsed() < Duration::from_secs(15), "{mpm}: it is still there");
        }
        assert!(begin.elapsed() > Duration::from_secs(1), "{mpm}: {:?}", begin.elapsed());
    }
}
