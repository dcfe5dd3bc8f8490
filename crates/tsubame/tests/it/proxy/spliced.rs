//! Long bodies of a backend, which the kernel passes on: nothing is lost, nothing is added, and whoever ends early is noticed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sys::process::Pid;

use crate::harness::descriptors;
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::get;

/// More than a pipe, a socket's buffer, or a turn of a connection takes.
const LENGTH: usize = 3_000_001;
const PORT: u16 = crate::proxy::origin::PORT;

/// Bytes that differ wherever a part could be missing or come twice.
fn content() -> Vec<u8> {
    (0_u32..).flat_map(u32::to_le_bytes).take(LENGTH).collect()
}

/// What the backend has seen.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    /// How many of them could not be written to any more.
    broken: AtomicUsize,
}

/// A backend whose answers are long; the last part of the path says how they go wrong.
fn backend(ip: Ipv4Addr) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind((ip, PORT)).expect("bind");
    let (address, seen) = (listener.local_addr().expect("address"), Arc::<Seen>::default());
    let it = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            it.connections.fetch_add(1, Ordering::Relaxed);
            let it = it.clone();
            std::thread::spawn(move || {
                if serve(stream).is_none() {
                    it.broken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    (address, seen)
}

/// Answers requests until an answer ends the connection. `None`: it could not be written.
fn serve(mut stream: TcpStream) -> Option<()> {
    let body = content();
    let mut head = Vec::new();
    loop {
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return Some(());
        }
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let line = String::from_utf8_lossy(&head).into_owned();
        head.clear();
        let kind = line.split(' ').nth(1).and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_string();
        let length = if kind == "endless" { usize::MAX >> 1 } else { LENGTH };
        let framing = if kind == "closed" { String::new() } else { format!("Content-Length: {length}\r\n") };
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{framing}Content-Type: a/b\r\n\r\n").as_bytes()).ok()?;
        match kind.as_str() {
            "cut" => return stream.write_all(&body[..LENGTH / 2]).ok(),
            "closed" => return stream.write_all(&body).ok(),
            "more" => stream.write_all(&[&body[..], b"HTTP/1.1 200 OK\r\n"].concat()).ok()?,
            "stuck" => {
                stream.write_all(&body[..LENGTH / 2]).ok()?;
                // Until the proxy gives up.
                return std::io::copy(&mut stream, &mut std::io::sink()).ok().map(drop);
            }
            "slices" => body.chunks(70_001).try_for_each(|part| stream.write_all(part)).ok()?,
            "endless" => loop {
                stream.write_all(&body).ok()?;
            },
            _ => stream.write_all(&body).ok()?,
        }
    }
}

/// Whether a process has both ends of a pipe.
fn has_pipe(child: i32) -> bool {
    let mut ends = Pid::new(child).map(descriptors::of).unwrap_or_default();
    ends.retain(|target| target.starts_with("pipe:"));
    ends.sort();
    ends.windows(2).any(|pair| pair[0] == pair[1])
}

#[test]
fn long_bodies_are_passed_on() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let (address, seen) = backend(site.ip);
        let text = format!(
            "ProxyPass /app/ http://{address}/\nProxyTimeout 1\nLogFormat \"%U %>s %X %B %O %I\" own\nCustomLog logs/own own\n"
        );
        let server = Server::start(mpm, &site, &text);
        server.allow("AH01110: error reading response");
        let body = content();
        let mut client = server.client();
        for path in ["whole", "slices", "whole"] {
            let response = client.get(&format!("/app/{path}"));
            assert_eq!(response.field("Content-Length"), Some(LENGTH.to_string().as_str()), "{mpm}: {path}");
            assert!(response.body == body, "{mpm}: {path}: {} bytes", response.body.len());
        }
        assert_eq!(seen.connections.load(Ordering::Relaxed), 1, "{mpm}");
        // What comes behind a body is not for this client, nor for the next request.
        assert!(client.get("/app/more").body == body, "{mpm}");
        assert!(client.get("/app/whole").body == body, "{mpm}");
        assert_eq!(seen.connections.load(Ordering::Relaxed), 2, "{mpm}");
        let closed = server.get("/app/closed");
        assert!(closed.body == body, "{mpm}: {} bytes", closed.body.len());

        for path in ["cut", "stuck"] {
            let mut client = server.client();
            client.send(get(&format!("/app/{path}")));
            let (response, end) = client.beginning_to("GET").expect("a head");
            assert!(end.is_err() && response.body.len() <= LENGTH / 2, "{mpm}: {path}");
            assert!(body.starts_with(&response.body), "{mpm}: {path}");
        }
        let line = |path: &str, end: &str, bytes: usize| {
            let head = 140;
            let lines = site.read_lines("logs/own");
            let fields = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
            lines.lines().map(fields).any(|line| {
                let sent: usize = line[4].parse().expect("a number");
                line[..4] == [format!("/app/{path}"), "200".into(), end.into(), bytes.to_string()]
                    && (bytes..bytes + head).contains(&sent)
            })
        };
        until("the log", || line("whole", "+", LENGTH).then_some(()));
        until("the log", || line("cut", "X", LENGTH / 2).then_some(()));
    }
}

/// A client that does not read stops the backend, gets everything once it reads, and is not missed when it goes.
#[test]
fn clients_are_slow_or_go() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let (address, seen) = backend(site.ip);
        let server = Server::start(mpm, &site, &format!("ProxyPass /app/ http://{address}/ disablereuse=on\n"));
        let body = content();
        let mut slow: Vec<_> = (0..4).map(|_| server.client()).collect();
        slow.iter_mut().for_each(|client| client.send(get("/app/whole")));
        let mut other = server.client();
        assert!(other.get("/app/whole").body == body, "{mpm}");
        for mut client in slow {
            assert!(client.response().body == body, "{mpm}");
        }
        let mut gone = server.client();
        gone.send(get("/app/endless"));
        assert_eq!(gone.bytes(1000).len(), 1000);
        until("a pipe", || server.children().into_iter().any(has_pipe).then_some(()));
        gone.reset();
        until("a broken connection", || (seen.broken.load(Ordering::Relaxed) == 1).then_some(()));
        assert!(server.get("/app/whole").body == body, "{mpm}");
    }
}
