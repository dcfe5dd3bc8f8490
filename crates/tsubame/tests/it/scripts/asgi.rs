//! Applications of ASGI in the event loops of processes: requests, WebSockets, and the ends of both.

use std::time::{Duration, UNIX_EPOCH};

use crate::harness::frames::{DATA, END_STREAM, Ended, Frames, request};
use crate::harness::mpm::under_percore_and;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, End, get};

const ROOM: &str = include_str!("wsgi_applications/room.py");

fn site() -> Site {
    let site = Site::new();
    site.file("apps/room.py", ROOM);
    site
}

fn configuration(options: &str) -> String {
    format!(
        "LoadModule wsgi_module modules/mod_wsgi.so\nProtocols h2c http/1.1\nH2WebSockets on\n\
         WSGIDaemonProcess rooms {options}\nWSGIScriptAlias /room ${{ROOT}}/apps/room.py process-group=rooms\n\
         WSGIScriptAlias /own ${{ROOT}}/apps/room.py\n<Directory ${{ROOT}}/apps>\nRequire all granted\n\
         <Files room.py>\nSetHandler asgi-script\n</Files>\n</Directory>\n"
    )
}

/// The frames of a WebSocket from a client (RFC 6455 section 5.2).
fn frame(first: u8, content: &[u8]) -> Vec<u8> {
    let mask = [7, 1, 200, 3];
    let mut bytes = vec![first];
    match u16::try_from(content.len()) {
        Ok(length @ ..126) => bytes.push(0x80 | length as u8),
        Ok(length) => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(content.len() as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&mask);
    bytes.extend(content.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8A;

/// The next frame of the server: its first byte and its content.
fn heard(client: &mut Client) -> (u8, Vec<u8>) {
    let head = client.bytes(2);
    assert_eq!(head[1] & 0x80, 0, "servers mask nothing");
    let length = match head[1] {
        126 => client.bytes(2).iter().fold(0, |number, byte| number << 8 | usize::from(*byte)),
        127 => client.bytes(8).iter().fold(0, |number, byte| number << 8 | usize::from(*byte)),
        length => length.into(),
    };
    (head[0], if length == 0 { Vec::new() } else { client.bytes(length) })
}

/// The code in a frame that ends a connection.
fn code(content: &[u8]) -> u16 {
    u16::from_be_bytes(*content.first_chunk().unwrap_or_else(|| panic!("no code: {content:?}")))
}

fn handshake(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\n{more}\r\n"
    )
}

/// The key of RFC 6455 section 1.3.
const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A client whose WebSocket is open, and the head that opened it.
fn opened(server: &Server<'_>, more: &str) -> (Client, String) {
    let mut client = server.client();
    client.send(handshake("/room/talk", &format!("{KEY}{more}")));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(client.bytes(1));
    }
    (client, String::from_utf8(head).expect("text"))
}

under_percore_and! { event:
    /// Applications see the request, and their pieces reach the client when they are made.
    fn requests_reach_an_event_loop(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("processes=1"));
        server.announce("the room is closed");
        let ask = "GET /room/a%20b/scope?x=%20y HTTP/1.1\r\nHost: localhost\r\nX-Two-Words: 1\r\nX_Two_Words: 2\r\n\
                   Authorization: Basic eDp5\r\n\r\n";
        let text = server.client().request(ask).text();
        assert_eq!(
            text,
            "['http', '1.1', 'GET', 'http', '/room/a b/scope', b'/room/a%20b/scope', b'x=%20y', '/room', b'1', None, \
             '".to_string() + &server.client().address().ip().to_string() + "']"
        );
        let born = server.get("/room/born").text();
        assert!(born.split_once(' ').is_some_and(|(born, here)| born == here), "{born}");
        assert_ne!(server.get("/own/born").text(), born, "no group: another process");
        let body: Vec<u8> = (0..3_000_000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let head = format!("POST /room/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut client = server.client();
        assert!(client.request([head.as_bytes(), &body].concat()).body == body, "another body");
        let chunked = "POST /room/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        assert_eq!(client.request(chunked).text(), "abc");
        client.send(get("/room/stream"));
        let mut received = String::new();
        while !received.ends_with("first") {
            received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
        }
        // Others are served meanwhile.
        assert_eq!(server.get("/room/born").text(), born);
        site.file("apps/go", "");
        while !received.ends_with("second") {
            received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
        }
    }

    /// What goes wrong is logged, and no client takes half a response for a whole one.
    fn failures_are_reported(mpm: Mpm) {
        let site = site();
        let broken = site.file("apps/broken", "");
        let server = Server::start(mpm, &site, &configuration("processes=1"));
        server.allow_everything("tracebacks have many lines");
        assert_eq!(server.get("/room/born").status, 500);
        server.logged("The start of the ASGI application has failed. no database");
        std::fs::remove_file(broken).expect("remove");
        assert_eq!(server.get("/room/born").status, 200, "another process begins anew");
        for (path, line) in [
            ("/room/fails", "ValueError: before the head"),
            ("/room/forgets", "returned without a complete response"),
            ("/room/cancels", "CancelledError"),
        ] {
            assert_eq!(server.get(path).status, 500);
            server.logged(line);
        }
        for (path, line) in [("/room/late", "ValueError: after the head"), ("/room/large", "ValueError: after a large head")] {
            let mut client = server.client();
            client.send(get(path));
            let (rest, _) = client.rest();
            let text = String::from_utf8_lossy(&rest);
            assert!(text.contains("chunked") && !text.ends_with("0\r\n\r\n") || text.contains(" 500 "), "{text}");
            server.logged(line);
        }
        let mut client = server.client();
        client.send(get("/room/waits"));
        client.bytes(100);
        client.reset();
        server.logged("heard http.disconnect");
        let mut client = server.client();
        client.send(get("/room/listens"));
        client.bytes(100);
        client.reset();
        until("both are told", || (server.log().matches("told http.disconnect").count() == 2).then_some(()));
    }

    /// More requests than ever come while the process starts are all answered.
    fn a_burst_waits_for_the_process(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("processes=1"));
        server.announce("the room is closed");
        let mut clients: Vec<Client> = (0..300).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| client.send(get("/room/born")));
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
    }

    /// Messages of all lengths come back, whole or in pieces, and both sides may end.
    fn web_sockets_of_applications(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("processes=1"));
        server.allow_everything("tracebacks have many lines");
        let (mut client, head) = opened(&server, "Sec-WebSocket-Protocol: chat, talk\r\n");
        assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
        for line in [
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            "Sec-WebSocket-Protocol: chat",
            "x-room: 1",
        ] {
            assert!(head.lines().any(|have| have == line), "{line}: {head}");
        }
        for content in [&b"hello"[..], "gr\u{fc}\u{df}e".repeat(100).as_bytes(), &b"x".repeat(70_000), b""] {
            client.send(frame(TEXT, content));
            assert_eq!(heard(&mut client), (TEXT, content.to_vec()));
        }
        let binary: Vec<u8> = (0..=255).collect();
        client.send_in_pieces(&frame(BINARY, &binary), 3);
        assert_eq!(heard(&mut client), (BINARY, binary));
        // A message in pieces, with a question in between (RFC 6455 section 5.4); the character is cut, too.
        for piece in [frame(0x01, b"1\xc3"), frame(PING, b"there?"), frame(0x00, b"\xbc2"), frame(0x80, b"3")] {
            client.send(piece);
        }
        assert_eq!(heard(&mut client), (PONG, b"there?".to_vec()));
        assert_eq!(heard(&mut client), (TEXT, "1\u{fc}23".as_bytes().to_vec()));
        client.send(frame(TEXT, b"bye"));
        assert_eq!(heard(&mut client), (CLOSE, [&3001_u16.to_be_bytes()[..], b"asked"].concat()));
        client.send(frame(CLOSE, &3001_u16.to_be_bytes()));
        assert_eq!(client.rest(), (Vec::new(), End::Closed));

        let (mut client, _) = opened(&server, "");
        client.send(frame(CLOSE, &[&4000_u16.to_be_bytes()[..], b"enough"].concat()));
        assert_eq!(heard(&mut client), (CLOSE, 4000_u16.to_be_bytes().to_vec()));
        client.expect_end();
        server.logged("left with 4000");
        let (client, _) = opened(&server, "");
        client.reset();
        server.logged("left with 1006");
        let (mut client, _) = opened(&server, "");
        client.send(frame(TEXT, b"die"));
        assert_eq!(code(&heard(&mut client).1), 1011);
        server.logged("ValueError: in the room");
    }

    /// Whoever breaks the protocol is told so, and goes.
    fn broken_web_sockets_end(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("processes=1"));
        server.allow_everything("the application says who has left");
        let long = [&[0x82, 0xFF][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
        for (bytes, want) in [
            (vec![TEXT, 1, b'x'], 1002),                                      // not masked
            (frame(0xC1, b"x"), 1002),                                        // of an extension
            (frame(0x83, b"x"), 1002),                                        // unknown
            (frame(0x80, b"x"), 1002),                                        // continues nothing
            ([frame(0x01, b"x"), frame(TEXT, b"y")].concat(), 1002),          // begins in another one
            (frame(0x09, b"x"), 1002),                                        // a part of a ping
            (frame(PING, &[0; 126]), 1002),                                   // a long one
            (frame(TEXT, b"\xc3\x28"), 1007),                                 // no text
            (frame(0x01, b"\xff"), 1007),                                     // not even its beginning
            (frame(CLOSE, b"\x03"), 1002),                                    // half a code
            (frame(CLOSE, &1006_u16.to_be_bytes()), 1002),                    // a code that is never sent
            (frame(CLOSE, b"\x03\xe8\xff"), 1007),                            // a reason that is no text
            (long, 1009),
        ] {
            let (mut client, _) = opened(&server, "");
            client.send(&bytes);
            assert_eq!(code(&heard(&mut client).1), want, "{bytes:?}");
            client.expect_end();
        }
        for (path, more, status) in [
            ("/room/closed", KEY, 403),
            ("/room/busy", KEY, 429),
            ("/room/forgets", KEY, 500),
            ("/room/talk", "", 400),
            ("/room/talk", "Sec-WebSocket-Key: c2hvcnQ=\r\n", 400),
        ] {
            assert_eq!(server.client().request(handshake(path, more)).status, status, "{path} {more}");
        }
        let old = handshake("/room/talk", KEY).replace(": 13", ": 8");
        let response = server.client().request(old);
        assert_eq!((response.status, response.field("Sec-WebSocket-Version")), (426, Some("13")));
    }

    /// Over HTTP/2 a WebSocket is a stream (RFC 8441).
    fn web_sockets_of_applications_over_http2(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("processes=1"));
        server.announce("the room is closed");
        let mut client = Frames::connect(server.address(), &[]);
        let fields =
            [&request("CONNECT", "/room/talk")[..], &[(":protocol", "websocket"), ("sec-websocket-version", "13")]].concat();
        let stream = client.ask(&fields, false);
        assert!(client.send(DATA, 0, stream, &frame(TEXT, b"hello")), "data");
        assert!(client.send(DATA, 0, stream, &frame(TEXT, b"bye")), "data");
        let want = [&b"\x81\x05hello\x88\x07"[..], &3001_u16.to_be_bytes(), b"asked"].concat();
        let mut heard = Vec::new();
        while heard.len() < want.len() {
            let frame = client.frame().expect("a frame");
            if (frame.kind, frame.stream) == (DATA, stream) {
                heard.extend(frame.payload);
            }
        }
        assert_eq!(heard, want);
        assert!(client.send(DATA, END_STREAM, stream, &frame(CLOSE, &3001_u16.to_be_bytes())), "its end");
        assert_eq!(client.ended(stream), Ended::Answered(0, Vec::new()));
        assert!(client.head().iter().all(|(name, _)| name != "sec-websocket-accept"), "{:?}", client.head());
    }

    /// A process that is to end serves those it has for a while; its successor does not wait for it.
    fn a_changed_application_takes_over(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("processes=1 graceful-timeout=1"));
        server.allow_everything("the application says who has left");
        let (mut client, _) = opened(&server, "");
        client.send(frame(TEXT, b"x"));
        assert_eq!(heard(&mut client), (TEXT, b"x".to_vec()));
        let born = server.get("/room/born").text();
        let path = site.file("apps/room.py", format!("{ROOM}\n#\n"));
        let file = std::fs::File::options().write(true).open(path).expect("open");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("time");
        assert_ne!(server.get("/room/born").text(), born);
        client.send(frame(TEXT, b"y"));
        assert_eq!(heard(&mut client), (TEXT, b"y".to_vec()), "the old one goes on");
        assert_eq!(code(&heard(&mut client).1), 1012);
        client.send(frame(CLOSE, &1012_u16.to_be_bytes()));
        client.expect_end();
        server.logged("the room is closed");
    }
}
