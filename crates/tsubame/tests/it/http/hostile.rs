//! Clients that mean harm: requests hidden in others, and heads that never end.

use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

/// The request hidden after each request; if it is served, a request was smuggled in.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";

const CONFIGURATION: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\nCustomLog logs/access \"%U\"\nLogLevel crit";

fn site() -> Site {
    let site = Site::with([("index.html", "hello\n"), ("a.txt", "0123456789"), ("hidden", "hidden\n")]);
    site.script("echo", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ncat\n");
    site
}

/// Fields, and the bytes after the head of a `POST`, that another server could read differently: refused with this
/// status before a handler runs.
const BAD_FRAMING: &[(&str, &str, u16)] = &[
    ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n", 400),
    ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
    ("Content-Length: 3\r\nContent-Length: 3\r\n", "abc", 400),
    ("Content-Length: 3\r\nContent-Length: 45\r\n", "abc", 400),
    ("Content-Length: 3, 3\r\n", "abc", 400),
    ("Content-Length: +3\r\n", "abc", 400),
    ("Content-Length: -0\r\n", "", 400),
    ("Content-Length: 0x3\r\n", "abc", 400),
    ("Content-Length: 3 0\r\n", "abc", 400),
    ("Content-Length: 3;0\r\n", "abc", 400),
    ("Content-Length: \r\n", "", 400),
    ("Content-Length: 18446744073709551619\r\n", "abc", 400),
    ("Content-Length: 9223372036854775808\r\n", "abc", 400),
    ("Content-Length : 3\r\n", "abc", 400),
    ("Content-Length\t: 3\r\n", "abc", 400),
    ("Content-Length\0: 3\r\n", "abc", 400),
    ("Content-Length: 3\0\r\n", "abc", 400),
    ("Content-Length: 3\rTransfer-Encoding: chunked\r\n", "abc", 400),
    ("Content-Length: 3\nTransfer-Encoding: chunked\r\n", "abc", 400),
    ("X: y\n\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
    (" Content-Length: 3\r\n", "abc", 400),
    ("Transfer-Encoding : chunked\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding\0: chunked\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding: chunked\0\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding: chunked;a=b\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding: identity\r\n", "", 400),
    ("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding: identity, chunked\r\n", "0\r\n\r\n", 501),
    ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n", 400),
    ("Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 501),
    ("Transfer-Encoding:\r\n", "", 400),
    ("Host: localhost\r\n", "", 400),
    ("Host: else\r\n", "", 400),
];

/// Ambiguous or malformed chunked bodies: the connection is closed after them.
const BAD_CHUNKS: &[&str] = &[
    "3\nabc\r\n0\r\n\r\n",
    "3\r\nabc\n0\r\n\r\n",
    "3\r\nabc0\r\n\r\n",
    "3\r\nabcd\r\n0\r\n\r\n",
    "3\r\nabcx\n0\r\n\r\n",
    "3\r\nabc\r\n0\n\n",
    "+3\r\nabc\r\n0\r\n\r\n",
    "-3\r\nabc\r\n0\r\n\r\n",
    "0x3\r\nabc\r\n0\r\n\r\n",
    " 3\r\nabc\r\n0\r\n\r\n",
    "3\0\r\nabc\r\n0\r\n\r\n",
    "3;a\nb\r\nabc\r\n0\r\n\r\n",
    "3;a\0b\r\nabc\r\n0\r\n\r\n",
    "3;a\rb\r\nabc\r\n0\r\n\r\n",
    "\r\n3\r\nabc\r\n0\r\n\r\n",
    "10000000000000003\r\nabc\r\n0\r\n\r\n",
    "8000000000000000\r\nabc\r\n0\r\n\r\n",
    "3\r\nabc\r\n0\r\nX : y\r\n\r\n",
    "3\r\nabc\r\n0\r\nX: y\r\n z\r\n\r\n",
    "3\r\nabc\r\n0\r\nX\r\n\r\n",
    "3\r\nabc\r\n0\r\nX: \0\r\n\r\n",
];

/// Heads of other kinds that are refused, and with which status.
const BAD_HEADS: &[(&str, u16)] = &[
    ("GET / HTTP/1.1\nHost: localhost\n\n", 400),
    ("GET / HTTP/1.1\r\nHost: localhost\r\n\n", 400),
    ("GET / HTTP/1.1\rHost: localhost\r\n\r\n", 400),
    ("GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n X: y\r\nHost: localhost\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: localhost, else\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: me@localhost\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n", 400),
    ("GET http://else:x/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("GET http://me@localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("GET ftp://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("GET / HTTP/1.1 \r\nHost: localhost\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: localhost\r\nX\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: localhost\r\n: y\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x01\r\n\r\n", 400),
    ("GET / HTTP/9.1\r\nHost: localhost\r\n\r\n", 505),
];

/// The statuses of all answers to these bytes until the connection ends.
fn statuses(server: &Server<'_>, bytes: &str, whole: bool) -> Vec<u16> {
    let mut client = server.client();
    if whole {
        client.send(bytes);
    } else {
        client.send_in_pieces(bytes.as_bytes(), 7);
    }
    client.half_close();
    let mut statuses = Vec::new();
    while let Ok((response, end)) = client.beginning_to("GET") {
        assert!(!response.text().contains("hidden"), "{bytes:?}: {response:?}");
        statuses.push(response.status);
        if end.is_err() {
            break;
        }
    }
    statuses
}

/// No hidden request was served.
fn nothing_was_hidden(server: &Server<'_>) {
    // Another child may still write the line of a request before it.
    assert_eq!(server.get("/index.html").status, 200);
    let log = until("the line of the last request", || {
        Some(server.site.read("logs/access")).filter(|log| log.contains("/index.html\n"))
    });
    assert!(!log.contains("/hidden"), "{log}");
}

under_every_mpm! {
    /// Lines that use their own results, as whoever writes `.htaccess` may write them, end when the text is too long.
    fn no_line_doubles_a_text_for_ever(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let long = format!("SetEnvIf Request_URI . A={}", "a".repeat(8000));
        let names: Vec<String> = (0..400).map(|n| format!("v{n}")).collect();
        let nested = format!("SetEnvIfExpr \"{}'a'{} =~ /(.*)/\" A=$1", "base64(".repeat(100), ")".repeat(100));
        let cases = [
            ("env", "SetEnvIf Request_URI . A=0123456789", "SetEnvIf A (.*) B=$1$1\nSetEnvIf B (.*) A=$1$1", 40),
            ("expr", "SetEnvIf Request_URI . A=0123456789", "SetEnvIfExpr \"reqenv('A') =~ /(.*)/\" A=$1$1", 40),
            ("edit", "Header set X 0123456789", "Header edit X (.*) $1$1", 40),
            ("each", "Header set X 0123456789", "Header edit* X (.) $1$1", 40),
            ("set", "Header set X 0123456789", "Header set X \"expr=%{resp:X}%{resp:X}\"", 40),
            ("sent", "RequestHeader set X 0123456789", "RequestHeader edit X (.*) $1$1", 40),
            ("rewrite", "RewriteEngine On", "RewriteRule (.*) $1$1", 40),
            ("rewritten", "RewriteEngine On\nRewriteRule . - [E=A:0123456789]", "RewriteRule . - [E=A:%{ENV:A}%{ENV:A}]", 40),
            // One text that is too long.
            ("redirect-of-a-path-that-is-not-short", "", &format!("RedirectMatch (.*) {}", "$1".repeat(4000)), 1),
            ("nested", "", &nested, 1),
            // No text is too long, but there are many.
            ("headers", &long, "RequestHeader add X %{A}e", 600),
            ("variables", &long, "SetEnvIf A (.*) B=$1", 600),
            ("echoes", &format!("{long}\nRequestHeader set X %{{A}}e"), "Header echo ^X", 600),
            ("names", "", &format!("SetEnvIf Request_URI . {}", names.join(" ")), 50),
            ("rules", &format!("{long}\nRewriteEngine On"), "RewriteRule ^ - [E=B:%{ENV:A}]", 600),
            ("query", "RewriteEngine On", &format!("RewriteRule ^ f.txt?{} [QSA]", "a".repeat(8000)), 100),
        ];
        for (name, first, again, times) in cases {
            site.page(&format!("{name}/f.txt"), "hello\n");
            site.page(&format!("{name}/.htaccess"), format!("{first}\n{}", format!("{again}\n").repeat(times)));
        }
        let server = Server::start(mpm, &site, "<Directory ${DOCS}>\nAllowOverride All\n</Directory>\nLogLevel crit");
        for (name, ..) in cases {
            assert_eq!(server.get(&format!("/{name}/f.txt")).status, 500, "{name} under {mpm}");
        }
        assert_eq!(server.get("/index.html").text(), "hello\n");
    }

    /// A user exchanges a file, or the directory of a file, for a link to what is not the user's, again and again: whatever
    /// the server finds at any moment, it never goes through the link.
    fn no_link_slips_in(mpm: Mpm) {
        let site = Site::with([("plain", "own\n"), ("dir/f", "own\n")]);
        site.file("secret/f", "secret\n");
        let options = "<Directory ${DOCS}>\nOptions None\n</Directory>\nLogLevel emerg";
        let server = Server::start(mpm, &site, options);
        let (docs, secret) = (site.root.join("htdocs"), site.root.join("secret"));
        std::os::unix::fs::symlink(secret.join("f"), docs.join("plain-link")).expect("a link");
        std::os::unix::fs::symlink(&secret, docs.join("dir-link")).expect("a link");
        let ended = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let exchange = |name: &str| {
                    let (link, aside) = (docs.join(format!("{name}-link")), docs.join(format!("{name}-aside")));
                    let name = docs.join(name);
                    for (from, to) in [(&name, &aside), (&link, &name), (&name, &link), (&aside, &name)] {
                        std::fs::rename(from, to).expect("another name");
                    }
                };
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    exchange("plain");
                    exchange("dir");
                }
            });
            let ask = |number: usize| {
                let mut client = server.client();
                client.send(get(if number.is_multiple_of(2) { "/plain" } else { "/dir/f" }));
                client.try_response_to("GET")
            };
            let answers: Vec<_> = (0..600).map(ask).collect();
            // Whatever they are, the other thread ends first.
            ended.store(true, std::sync::atomic::Ordering::Relaxed);
            let texts: Vec<String> = answers.iter().map(|answer| answer.as_ref().expect("an answer").text()).collect();
            assert!(!texts.iter().any(|text| text.contains("secret")), "under {mpm}");
            assert!(texts.iter().any(|text| text == "own\n"), "under {mpm} nothing was served");
        });
    }

    /// Requests whose end two servers could see in different places are refused, with the connection, whole or in pieces.
    fn no_request_hides_in_another(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        for (fields, body, status) in BAD_FRAMING {
            let bytes = format!("POST /a.txt HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{body}{HIDDEN}");
            for whole in [true, false] {
                assert_eq!(statuses(&server, &bytes, whole), [*status], "{mpm}: {fields:?}");
            }
        }
        let old = format!("POST /a.txt HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}");
        assert_eq!(statuses(&server, &old, true), [400]);
        for (head, status) in BAD_HEADS {
            for whole in [true, false] {
                assert_eq!(statuses(&server, &format!("{head}{HIDDEN}"), whole), [*status], "{mpm}: {head:?}");
            }
        }
        nothing_was_hidden(&server);
    }

    /// The same for chunks, whether a script reads them or not.
    fn no_request_hides_behind_chunks(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        // Trailers have the limits of a head: the length of a field, and how many there are.
        let long = format!("0\r\nX: {}\r\n\r\n", "y".repeat(9000));
        let many = format!("0\r\n{}\r\n", "X: y\r\n".repeat(101));
        for body in BAD_CHUNKS.iter().copied().chain([&*long, &*many]) {
            for path in ["/cgi/echo", "/a.txt"] {
                let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
                let found = statuses(&server, &format!("{head}{body}{HIDDEN}"), true);
                assert_eq!(found.len(), 1, "{mpm}: {path}: {body:?}: {found:?}");
            }
        }
        nothing_was_hidden(&server);
    }

    /// Allowed forms are understood, or the tests above would see nothing: the request after it is served.
    fn visible_files_are_served(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        for (fields, body) in [
            ("Content-Length: 3\r\n", "abc"),
            ("Content-Length: 000000003\r\n", "abc"),
            ("content-length:3 \t\r\n", "abc"),
            ("X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "abc"),
            ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            ("Transfer-Encoding: Chunked\r\n", "3 \r\nabc\r\n0\r\nX: y\r\n\r\n"),
            ("Transfer-Encoding: chunked\r\n", "0003;a=\"b\"\r\nabc\r\n000\r\n\r\n"),
        ] {
            let mut client = server.client();
            client.send(format!("POST /cgi/echo HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{body}{HIDDEN}"));
            assert_eq!(client.response().text(), "abc", "{mpm}: {fields:?}");
            assert_eq!(client.response().text(), "hidden\n", "{mpm}: {fields:?}");
        }
    }
}

/// Hundreds of heads that arrive byte by byte delay no other request, and time out.
#[test]
fn slow_heads_hold_nobody_up() {
    for mpm in [Mpm::Percore, Mpm::Event] {
        let site = site();
        let server = Server::start(mpm, &site, "RequestReadTimeout header=5\nAsyncRequestWorkerFactor 500");
        let mut slow: Vec<Client> = (0..300).map(|_| server.client()).collect();
        for byte in "GET / HTTP/1.1\r\nHost: l".as_bytes().chunks(1) {
            slow.iter_mut().for_each(|client| client.send(byte));
        }
        assert_eq!(server.get("/").text(), "hello\n");
        for client in &mut slow {
            // Their time is not over yet: that request has not waited for them.
            assert!(!client.has_input(), "{mpm}");
        }
        for client in &mut slow {
            assert_eq!(client.response().status, 408, "{mpm}");
        }
        assert_eq!(server.client().request(get("/")).text(), "hello\n");
    }
}
