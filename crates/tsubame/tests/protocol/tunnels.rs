//! What may come before an answer, and what may come instead of one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};

use sys::process::Pid;
use sys::signal::Signal;

use crate::frames::{self, Ended, Frames};
use crate::{DEADLINE, Site};

/// The same handlers speak over a protocol that is not HTTP/1: the interim response comes first, the tunnel is one exchange of
/// several.
pub(crate) fn handlers_know_no_wire(site: &Site) {
    let mut client = site.connect();
    client.ask(&[(1, "/hints"), (2, "/tunnel protocol=shout says=hello"), (3, "/tunnel"), (4, "/uninvited")]);
    let mut answers: Vec<_> = (0..5).map(|_| client.answer()).collect();
    let hint = answers.iter().position(|(number, answer)| (*number, answer.0) == (1, 103)).expect("a hint");
    let (_, (_, fields, _)) = answers.remove(hint);
    assert_eq!(fields.get("link").map(String::as_str), Some("</a.css>"));
    let rest = answers.iter().position(|(number, _)| *number == 1).expect("an answer");
    assert!(rest >= hint, "the hint came first");
    answers.sort_by_key(|(number, _)| *number);
    let told: Vec<(u32, u16)> = answers.iter().map(|(number, answer)| (*number, answer.0)).collect();
    assert_eq!(told, [(1, 200), (2, 200), (3, 426), (4, 500)]);
    assert_eq!((answers[0].1.2.as_str(), answers[1].1.2.as_str()), ("the answer\n", "HELLO"));
}

/// A connection over HTTP/1, and the head that comes first.
fn ask(site: &Site, request: &str) -> (BufReader<TcpStream>, String) {
    let mut stream = TcpStream::connect(&site.address).expect("connect");
    stream.set_read_timeout(Some(DEADLINE)).expect("timeout");
    stream.write_all(request.as_bytes()).expect("write");
    let mut stream = BufReader::new(stream);
    let head = read_head(&mut stream);
    (stream, head)
}

fn read_head(stream: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).expect("a line"), 0, "{head}");
    }
    head
}

const UPGRADE: &str = "Host: test.example\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n";

fn open(site: &Site, early: &str) -> (BufReader<TcpStream>, String) {
    let (stream, head) = ask(site, &format!("GET /tunnel HTTP/1.1\r\n{UPGRADE}{early}"));
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    (stream, head)
}

fn hears(stream: &mut BufReader<TcpStream>, want: &str) {
    let mut bytes = vec![0; want.len()];
    stream.read_exact(&mut bytes).expect("what it says");
    assert_eq!(String::from_utf8_lossy(&bytes), want);
}

fn says(stream: &mut BufReader<TcpStream>, text: &str) {
    stream.get_mut().write_all(text.as_bytes()).expect("say");
}

/// What came behind the head comes first, both sides may speak at any time, and all of it is counted.
pub(crate) fn carries_both_directions(site: &Site) {
    let (mut tunnel, head) = open(site, "early ");
    for line in ["Upgrade: shout", "Connection: Upgrade"] {
        assert_eq!(head.lines().filter(|other| *other == line).count(), 1, "{head}");
    }
    assert!(!head.contains("Content-Length") && !head.contains("close"), "{head}");
    hears(&mut tunnel, "EARLY ");
    says(&mut tunnel, "more");
    hears(&mut tunnel, "MORE");
    // Under prefork there is one process, which has the tunnel.
    if site.mpm != "prefork" {
        let (mut other, _) = ask(site, "GET /status?auto HTTP/1.0\r\n\r\n");
        let mut page = String::new();
        other.read_to_string(&mut page).expect("a page");
        let value =
            |name: &str| page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("");
        match site.mpm {
            "worker" => assert_eq!(value("Scoreboard").matches('W').count(), 2, "{page}"),
            _ => assert_eq!(value("ConnsAsyncWriting"), "1", "{page}"),
        }
    }
    says(&mut tunnel, "end");
    tunnel.get_mut().shutdown(Shutdown::Write).expect("shutdown");
    hears(&mut tunnel, "END");
    assert_eq!(tunnel.read(&mut [0]).expect("the end"), 0);
    drop(tunnel);
    let request = format!("GET /tunnel HTTP/1.1\r\n{UPGRADE}").len();
    let line = format!("/tunnel 101 {} {}", request + 13, head.len() + 13);
    let end = std::time::Instant::now() + DEADLINE;
    loop {
        let log = std::fs::read_to_string(site.path("bytes")).unwrap_or_default();
        if log.lines().any(|other| other == line) {
            return;
        }
        assert!(std::time::Instant::now() < end, "{line} in {log}");
        std::thread::yield_now();
    }
}

/// A client that has not asked for a tunnel, or could not have one, gets none.
pub(crate) fn wants_to_be_asked_for(site: &Site) {
    let uninvited = ["Upgrade: shout\r\n\r\n", "Connection: upgrade\r\n\r\n"];
    let refused = uninvited.map(|fields| format!("GET /tunnel HTTP/1.1\r\nHost: test.example\r\n{fields}"));
    let old = format!("GET /tunnel HTTP/1.0\r\n{UPGRADE}");
    let body = format!("POST /tunnel HTTP/1.1\r\nContent-Length: 4\r\n{UPGRADE}body");
    for request in refused.iter().chain([&old, &body]) {
        let (_, head) = ask(site, request);
        assert!(head.starts_with("HTTP/1.1 426 "), "{request}: {head}");
    }
    let (_, head) = ask(site, "GET /uninvited HTTP/1.1\r\nHost: test.example\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
    let (mut stream, hints) = ask(site, "GET /hints HTTP/1.1\r\nHost: test.example\r\n\r\n");
    assert_eq!(hints, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200 "));
}

/// Over HTTP/2 a tunnel is what an extended CONNECT asks for (RFC 8441), and other streams go on beside it.
pub(crate) fn is_one_stream_of_several(site: &Site) {
    let mut client = Frames::connect(site.address.parse().expect("an address"), &[]);
    let settings = client.frame().expect("settings");
    let enables = |setting: &[u8]| setting == [0, 8, 0, 0, 0, 1];
    assert!(settings.kind == frames::SETTINGS && settings.payload.chunks(6).any(enables), "{settings:?}");
    let connect = |path, protocol| {
        let [scheme, authority] = [(":scheme", "http"), (":authority", "test.example")];
        [(":method", "CONNECT"), (":protocol", protocol), scheme, (":path", path), authority]
    };
    let tunnel = client.ask(&connect("/tunnel", "shout"), false);
    client.send(frames::DATA, 0, tunnel, b"early ");
    let mut heard = Vec::new();
    while heard.len() < 6 {
        let frame = client.frame().expect("what it says");
        if frame.kind == frames::DATA && frame.stream == tunnel {
            heard.extend(frame.payload);
        }
    }
    assert_eq!(heard, b"EARLY ");
    let beside = client.ask(&frames::request("GET", "/uninvited"), true);
    let other = client.ask(&connect("/tunnel", "whisper"), true);
    assert!(matches!(&client.all(&[beside, other])[..], [Ended::Answered(500, _), Ended::Answered(426, _)]));
    client.send(frames::DATA, frames::END_STREAM, tunnel, b"end");
    assert_eq!(client.ended(tunnel), Ended::Answered(0, b"END".to_vec()), "its head has come before");
}

/// A tunnel that is silent for too long ends, and so does one of a server that is about to end, however busy it is.
pub(crate) fn has_an_end(site: &Site) {
    let (mut silent, _) = open(site, "");
    says(&mut silent, "once");
    hears(&mut silent, "ONCE");
    assert_eq!(silent.read(&mut [0]).expect("the end"), 0);
    let (mut busy, _) = open(site, "");
    let pid = Pid::new(site.server.id().cast_signed()).expect("pid");
    pid.kill(Signal::WINCH).expect("signal");
    let end = std::time::Instant::now() + DEADLINE;
    while busy.get_mut().write_all(b"on").is_ok() && matches!(busy.read(&mut [0; 2]), Ok(1..)) {
        assert!(std::time::Instant::now() < end, "it has no end");
    }
}
