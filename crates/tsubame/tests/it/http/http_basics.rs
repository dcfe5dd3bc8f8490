//! HTTP/1.1 as RFC 9110 and 9112 have it: connections, methods, framing.

use crate::harness::mpm::under_every_mpm;
use crate::harness::oracle::both;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::{Client, Framing, get};

fn site() -> Site {
    Site::with([("index.html", "hello\n"), ("a.txt", "0123456789"), ("d/index.html", "d\n")])
}

under_every_mpm! {
    /// Requests one after the other over one connection.
    fn a_connection_is_kept(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "");
        let mut client = server.client();
        for _ in 0..10 {
            let response = client.get("/a.txt");
            assert_eq!((response.status, response.text().as_str()), (200, "0123456789"));
            assert_eq!(response.framing, Framing::Length);
            assert!(!response.closes());
        }
    }

    /// Many requests in one packet are answered in their order.
    fn requests_may_be_pipelined(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "");
        let mut client = server.client();
        let paths = ["/a.txt", "/", "/none", "/d/", "/a.txt"];
        client.send(paths.map(get).concat());
        let statuses = paths.map(|_| client.response().status);
        assert_eq!(statuses, [200, 200, 404, 200, 200]);
    }

    /// The one after `MaxKeepAliveRequests` of them closes, as in Apache.
    fn the_last_request_closes(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "MaxKeepAliveRequests 3");
        let mut client = server.client();
        let closes = [0, 1, 2, 3].map(|_| client.get("/a.txt").closes());
        assert_eq!(closes, [false, false, false, true]);
        client.expect_end();
    }

    /// `KeepAlive Off`, `Connection: close`, and HTTP/1.0 without `keep-alive`.
    fn a_connection_closes_when_it_should(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "");
        for request in [
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: x, Close ,y\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n",
        ] {
            let mut client = server.client();
            let response = client.request(request);
            assert_eq!((response.status, response.field("Connection")), (200, Some("close")), "{request:?}");
            client.expect_end();
        }
        let mut client = server.client();
        let response = client.request("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!((response.status, response.field("Connection")), (200, Some("Keep-Alive")));
        assert_eq!(response.field("Keep-Alive"), Some("timeout=5, max=100"));
        assert_eq!(client.get("/").status, 200);
    }

    /// `HEAD` is answered as `GET`, without the body.
    fn head_is_get_without_body(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "");
        let mut client = server.client();
        let get = client.get("/a.txt");
        let head = client.request("HEAD /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(head.status, 200);
        let kept = |fields: &[(String, String)]| {
            fields.iter().filter(|(name, _)| name != "Date").cloned().collect::<Vec<_>>()
        };
        assert_eq!(kept(&head.fields), kept(&get.fields));
        assert_eq!(client.get("/a.txt").text(), "0123456789");
    }

    /// The bytes may come one at a time.
    fn a_request_may_come_in_pieces(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "");
        let mut client = server.client();
        for size in [1, 2, 3, 7, 30] {
            client.send_in_pieces(get("/a.txt").as_bytes(), size);
            assert_eq!(client.response().text(), "0123456789");
        }
    }

    /// A client that has said everything may shut its side, and is still answered.
    fn a_half_closed_client_is_answered(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "");
        let mut client = server.client();
        client.send([get("/a.txt"), get("/")].concat());
        client.half_close();
        assert_eq!(client.response().text(), "0123456789");
        assert_eq!(client.response().text(), "hello\n");
        client.expect_end();
    }

    /// `MergeSlashes Off` hides no path from its sections.
    fn sections_hold_for_any_number_of_slashes(mpm: Mpm) {
        let site = Site::with([("d/deny/a.txt", "a"), ("d/place/a.txt", "a"), ("d/ok/a.txt", "a")]);
        let text = "MergeSlashes Off\n<Directory ${DOCS}/d/deny>\nRequire all denied\n</Directory>\n\
            <Location /d/place>\nRequire all denied\n</Location>";
        let server = Server::start(mpm, &site, text);
        server.allow("AH01630: client denied by server configuration");
        for (name, status) in [("deny", 403), ("place", 403), ("ok", 200)] {
            for path in [format!("/d/{name}/a.txt"), format!("/d//{name}/a.txt"), format!("//d///{name}//a.txt")] {
                assert_eq!(server.get(&path).status, status, "{path}");
            }
        }
    }

    /// `StrictHostCheck` answers refused clients.
    fn an_unknown_host_is_told_so(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "StrictHostCheck On");
        server.announce("AH10156: Requested hostname 'other' did not match any ServerName/ServerAlias in the global server");
        assert_eq!(server.get("/").status, 200);
        let mut client = server.client();
        let response = client.request("GET / HTTP/1.1\r\nHost: other\r\n\r\n");
        assert!(response.status == 400 && response.closes());
        client.expect_end();
    }

    /// A field that cannot be sent ends the connection, and no part of the answer follows the error.
    fn a_field_that_cannot_be_sent(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "ErrorDocument 404 http://h.example/%{unescape:%{QUERY_STRING}}");
        server.announce("contains invalid characters, aborting request");
        let mut client = server.client();
        client.send([get("/none?%0d%0aX-A:%20b"), get("/")].concat());
        let response = client.response();
        assert!(response.status == 500 && response.closes() && response.text().contains("Additionally, a 302 Found"));
        client.expect_end();
    }

    /// Nobody ends a child by an access file with sections in sections without end.
    fn a_deep_access_file_is_refused(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "<Directory ${DOCS}>\nAllowOverride All\n</Directory>");
        let children = server.children();
        for (start, end) in [("<IfModule core.c>", "</IfModule>"), ("<If true>", "</If>"), ("<RequireAll>", "</RequireAll>")] {
            site.page(".htaccess", format!("{start}\n").repeat(20_000) + &format!("{end}\n").repeat(20_000));
            server.announce("is the innermost of more than 200 sections");
            assert_eq!(server.get("/a.txt").status, 500, "{start}");
        }
        assert_eq!(server.children(), children);
    }

    /// A full disk, even the error log's, does not stop the server.
    fn a_disk_may_be_full(mpm: Mpm) {
        let site = site();
        let logs = "ErrorLog /dev/full\nLogLevel info\nCustomLog /dev/full %t";
        let server = Server::start(mpm, &site, logs);
        for _ in 0..3 {
            assert_eq!(server.get("/none").status, 404);
            assert_eq!(server.get("/a.txt").status, 200);
        }
    }

    /// `<IfFile>` in an access file looks for the file at each request.
    fn an_access_file_may_ask_for_files(mpm: Mpm) {
        let site = site();
        site.page(".htaccess", "<IfFile conf/closed>\nRequire all denied\n</IfFile>\n");
        let server = Server::start(mpm, &site, "<Directory ${DOCS}>\nAllowOverride All\n</Directory>");
        server.allow("AH01630: client denied by server configuration");
        // Until other access files are remembered: not those that have just been changed.
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_millis(100) {
            assert_eq!(server.get("/a.txt").status, 200);
        }
        let flag = site.file("conf/closed", "");
        assert_eq!(server.get("/a.txt").status, 403);
        std::fs::remove_file(flag).expect("remove");
        assert_eq!(server.get("/a.txt").status, 200);
    }
}

/// Heads that end before they are whole: a request that has begun with a line is answered when the client stops sending, as
/// in Apache; less than a line is not.
#[test]
fn heads_that_are_cut_off() {
    let build = |site: &Site| drop(site.page("index.html", "hello\n"));
    both("heads_that_are_cut_off", build, "", |site| {
        for (head, status) in [
            ("GET / HTTP/1.0\r", None),
            ("GET / HTTP/1.0", None),
            ("GET /", None),
            ("\r", None),
            ("\r\n", None),
            ("GET / HTTP/1.0\r\n", Some(400)),
            ("GET / HTTP/1.0\r\nA: b\r", Some(400)),
            ("GET / HTTP/1.0\r\nA: b\r\n", Some(400)),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r", Some(400)),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nX-", Some(400)),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Some(200)),
        ] {
            let mut client = Client::connect(site.address());
            client.send(head);
            client.half_close();
            let (answer, _) = client.rest();
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let found = answer.split(' ').nth(1).and_then(|word| word.parse::<u16>().ok());
            assert_eq!(found, status, "{head:?}: {answer}");
        }
    });
}

/// What Apache takes and refuses of lengths, fragments and hosts, strictly and not.
#[test]
fn lengths_fragments_and_hosts() {
    let build = |site: &Site| drop(site.page("index.html", "hello\n"));
    for (lines, at) in [("", 0), ("HttpProtocolOptions Unsafe", 1)] {
        both("lengths_fragments_and_hosts", build, lines, |site| {
            for (head, statuses) in [
                ("GET /#frag HTTP/1.1\r\nHost: localhost", [400, 200]),
                ("GET /index.html#frag?x HTTP/1.1\r\nHost: localhost", [400, 200]),
                ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost", [400, 200]),
                ("GET / HTTP/1.0\r\nHost: localhost\r\nHost: LOCALHOST", [400, 200]),
                ("GET / HTTP/1.1\r\r\nHost: localhost", [400, 400]),
                ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length:  3 ", [200, 200]),
                ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length:\t3\t", [200, 200]),
                ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: \u{b}3", [400, 400]),
                ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3 3", [400, 400]),
                ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +3", [400, 400]),
                ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", [400, 400]),
                ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 3", [400, 400]),
                ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length : 3", [400, 400]),
            ] {
                let mut client = Client::connect(site.address());
                client.send(format!("{head}\r\nConnection: close\r\n\r\nabc"));
                assert_eq!(client.response().status, statuses[at], "{head:?} {lines}");
            }
        });
    }
}

/// What the configuration or a script says in `Connection`: one field with what the server says, and `close` is meant.
#[test]
fn an_answer_may_close_its_connection() {
    let build = |site: &Site| {
        for name in ["other", "always", "close", "closes"] {
            site.page(name, "hello\n");
        }
    };
    let lines = "<Location /other>\nHeader set Connection foo\n</Location>\n\
        <Location /always>\nHeader always set Connection foo\n</Location>\n\
        <Location /close>\nHeader set Connection close\n</Location>\n\
        <Location /closes>\nHeader set Connection \"Foo, Close\"\n</Location>";
    both("an_answer_may_close_its_connection", build, lines, |site| {
        let (one, kept, host) =
            ("HTTP/1.0\r\n", "HTTP/1.0\r\nConnection: keep-alive\r\n", "HTTP/1.1\r\nHost: localhost\r\n");
        for (path, rest, says, stays) in [
            ("other", one, "foo, close", false),
            ("other", kept, "foo, Keep-Alive", true),
            ("other", host, "foo", true),
            ("always", one, "foo, close", false),
            ("close", one, "close", false),
            ("close", kept, "close", false),
            ("close", host, "close", false),
            ("closes", host, "Foo, Close", false),
        ] {
            let mut client = Client::connect(site.address());
            let answer = client.request(format!("GET /{path} {rest}\r\n"));
            assert_eq!(answer.all("Connection"), [says], "{path} {rest}");
            match stays {
                true => assert_eq!(client.get("/other").status, 200),
                false => client.expect_end(),
            }
        }
    });
}
