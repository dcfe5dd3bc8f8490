//! Responses that a backend sends again and again with the same head: what clients, the backend and the logs see of them is what
//! they would see of any other.

use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use crate::harness::asker::Asker;
use crate::harness::frames::{Frames, RST_STREAM, request};
use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Response;
use crate::proxy::origin::Origin;

const PROTOCOLS: &str = "Protocols h2c http/1.1\nH2Upgrade off\n";

/// A client at this address.
fn client_at(ip: Ipv4Addr, server: &Server<'_>, is_http2: bool) -> Asker {
    let socket = sys::socket::connect_from(Some(IpAddr::V4(ip)), server.address()).expect("a socket");
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false).expect("it blocks");
    Asker::over(stream, is_http2)
}

fn seen(response: &Response) -> (u16, String, String) {
    (response.status, response.field("Date").unwrap_or_default().to_string(), response.text())
}

under_every_mpm! {
    /// The date and the content are those of the answer, each time, whatever else the backend may send in between.
    fn each_has_its_own_content(mpm: Mpm) {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let text = format!("{PROTOCOLS}ProxyPass / http://{}/\nLogFormat \"%s %B %{{Date}}o\" own\nCustomLog logs/own own\n", origin.address);
        let server = Server::start(mpm, &site, &text);
        let mut expected = Vec::new();
        let names = ["dated", "dated-late", "dated-otherwise", "dated-in-lengths", "dated-in-parts", "dated-and-gone", "dated-chunked"];
        for (is_http2, name) in [false, true].into_iter().flat_map(|is_http2| names.map(|name| (is_http2, name))) {
            let mut client = Asker::new(&server, is_http2);
            for _ in 0..12 {
                let response = client.response("GET", &format!("GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
                let (status, date, text) = seen(&response);
                let count = origin.count();
                let longer = if name == "dated-in-lengths" && count.is_multiple_of(3) { "longer" } else { "" };
                assert_eq!(text, format!("{:02}{longer}", count % 100), "{name}");
                assert_eq!(date, format!("Mon, 01 Jan 2001 00:00:{:02} GMT", count % 60), "{name}");
                let cookie = response.field("Set-Cookie");
                assert_eq!(cookie.is_some(), name == "dated-otherwise" && count.is_multiple_of(3), "{name}");
                expected.push(format!("{status} {} {date}", text.len()));
            }
        }
        let mut lines = until("all lines of the log", || {
            let lines: Vec<String> = site.read("logs/own").lines().map(str::to_string).collect();
            (lines.len() >= expected.len()).then_some(lines)
        });
        // The thread of one client may write its last line after another one has written for the next client.
        lines.sort();
        expected.sort();
        assert!(lines == expected, "{mpm}: {lines:#?}\n{expected:#?}");
    }

    /// A request with the head of another client's has its own client's address.
    fn each_comes_from_its_own_client(mpm: Mpm) {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let text = format!("{PROTOCOLS}ProxyPass /app/ http://{0}/\nProxyPass /bare/ http://{0}/\n<Location /bare/>\nProxyAddHeaders Off\n</Location>\n", origin.address);
        let server = Server::start(mpm, &site, &text);
        // Prefork's children serve one client each.
        let most = if mpm == Mpm::Prefork { 1 } else { 4 };
        for round in 0..8 {
            let at = |at: u8| Ipv4Addr::new(127, 9, 9, 1 + (at + round) % 4);
            let mut clients: Vec<_> = (0..most).map(|number| client_at(at(number), &server, round % 2 == 1)).collect();
            for step in 0..8 {
                let at = step % clients.len();
                let path = ["app", "app", "bare"][step % 3];
                let head = format!("GET /{path}/dated-echo HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
                let text = clients[at].response("GET", &head).text().to_lowercase();
                let own = if path == "app" { format!(", 127.9.9.{}", 1 + (at as u8 + round) % 4) } else { String::new() };
                assert!(text.contains(&format!("\nx-forwarded-for: 192.0.2.1{own}\n")), "{mpm}: {text}");
            }
        }
    }
}

/// A date that the configuration sets takes the place of the backend's, each time.
#[test]
fn the_configuration_may_set_the_date() {
    const DATE: &str = "Tue, 02 Jan 2001 00:00:00 GMT";
    let site = Site::new();
    let origin = Origin::start(site.ip);
    let text = format!("{PROTOCOLS}ProxyPass / http://{}/\nHeader always set Date \"{DATE}\"\n", origin.address);
    let server = Server::start(Mpm::Percore, &site, &text);
    for is_http2 in [false, true] {
        let mut client = Asker::new(&server, is_http2);
        for step in 0..8 {
            let response = client.response("GET", "GET /dated HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert_eq!(seen(&response).1, DATE, "HTTP/2: {is_http2}, step {step}");
        }
    }
}

/// Chunks with another reading, or none, are what they are without a known head: a body that is in them, or a failure. What a backend
/// sends beyond an answer belongs to no other.
#[test]
fn chunks_have_one_reading() {
    let site = Site::new();
    let origin = Origin::start(site.ip);
    let server = Server::start(Mpm::Percore, &site, &format!("ProxyPass / http://{}/\n", origin.address));
    server.allow_everything("bad answers of the backend are logged");
    let mut client = server.client();
    for (name, text) in [
        ("dated-chunked", ""),
        ("dated-chunked-in-two", ""),
        ("dated-chunked-extended", ""),
        ("dated-chunked-padded", ""),
        ("dated-chunked-with-fields", ""),
        ("dated-chunked-longer", "longer"),
        ("dated-chunked-and-more", ""),
        ("dated-chunked-bare", "bad"),
        ("dated-chunked-long", "bad"),
        ("dated-chunked-signed", "bad"),
    ] {
        for step in 0..24 {
            let response = client.get(&format!("/{name}"));
            if response.closes() {
                client = server.client();
            }
            let count = origin.count();
            let is_usual = !count.is_multiple_of(4);
            if !is_usual && text == "bad" {
                assert_eq!(response.status, 502, "{name}, step {step}");
                continue;
            }
            let text = if is_usual { "" } else { text };
            let date = format!("Mon, 01 Jan 2001 00:00:{:02} GMT", count % 60);
            assert_eq!(seen(&response), (200, date, format!("{:02}{text}", count % 100)), "{name}, step {step}");
        }
    }
}

/// A backend that has closed its connections gets the request over a new one, and a silent one ends the wait.
#[test]
fn a_backend_may_have_gone() {
    let site = Site::new();
    let origin = Origin::start(site.ip);
    let text = format!("{PROTOCOLS}ProxyPass / http://{}/ timeout=1\n", origin.address);
    let server = Server::start(Mpm::Percore, &site, &text);
    server.allow_everything("a silent backend is logged");
    for is_http2 in [false, true] {
        let mut client = Asker::new(&server, is_http2);
        let mut get = |name: &str| client.response("GET", &format!("GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        for round in 0..4 {
            for _ in 0..6 {
                assert_eq!(get("dated").status, 200);
            }
            match round {
                0 | 2 | 3 => origin.close_all(),
                _ => {
                    origin.be_silent_once();
                    let start = Instant::now();
                    assert_eq!(get("dated").status, 504);
                    // Not the time of the expected answer, and then that of any.
                    assert!(start.elapsed() < Duration::from_millis(1900), "{:?}", start.elapsed());
                }
            }
        }
        // What comes too much belongs to no response.
        for _ in 0..12 {
            let text = get("dated-and-more").text();
            assert_eq!(text, format!("{:02}", origin.count() % 100));
        }
    }
}

/// A stream that its client resets while the backend is asked leaves nothing to the next one.
#[test]
fn a_stream_may_have_gone() {
    let site = Site::new();
    let origin = Origin::start(site.ip);
    let server = Server::start(Mpm::Percore, &site, &format!("{PROTOCOLS}ProxyPass / http://{}/\n", origin.address));
    let mut client = Frames::connect(server.address(), &[]);
    for _ in 0..4 {
        for _ in 0..6 {
            let (status, _, body) = client.response(&request("GET", "/dated"));
            let text = format!("{:02}", origin.count() % 100);
            assert_eq!((status, String::from_utf8_lossy(&body)), (200, text.into()));
        }
        let before = origin.count();
        origin.be_silent_once();
        let stream = client.get("/dated");
        until("the request at the backend", || (origin.count() > before).then_some(()));
        client.send(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
}
