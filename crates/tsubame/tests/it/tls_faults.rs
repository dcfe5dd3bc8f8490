//! Handshakes that do not go as they should: half of them, slow ones, very many, and what they cost others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::mpm::{Mpm, under_every_mpm};
use crate::server::Server;
use crate::site::Site;
use crate::tls::{self, Secure};
use crate::wait::{DEADLINE, until};

const HELLO: [(&str, &str); 1] = [("index.html", "hello\n")];

/// Room for so many connections at once, where room is a matter of numbers.
fn room(mpm: Mpm, count: u32) -> String {
    match mpm {
        Mpm::Percore => String::new(),
        Mpm::Prefork => format!("StartServers {count}\nMaxRequestWorkers {count}"),
        Mpm::Worker | Mpm::Event => format!("StartServers 1\nThreadsPerChild {count}\nMaxRequestWorkers {count}"),
    }
}

under_every_mpm! {
    fn a_handshake_may_come_byte_by_byte(mpm: Mpm) {
        let site = Site::with(HELLO);
        let (lines, config) = tls::lines(&site);
        let server = Server::start(mpm, &site, &lines);
        let mut socket = TcpStream::connect(server.address()).expect("connect");
        socket.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        socket.set_nodelay(true).expect("no delay");
        for byte in Secure::hello(&config) {
            socket.write_all(&[byte]).expect("a byte");
        }
        let mut first = [0; 6];
        socket.read_exact(&mut first).expect("the server's part");
        assert_eq!((first[0], first[5]), (22, 2), "a handshake record with a server hello: {first:?}");
    }

    /// `RequestReadTimeout handshake=`, and those that wait behind them are served.
    fn slow_handshakes_lose_their_place(mpm: Mpm) {
        let site = Site::with(HELLO);
        let (lines, config) = tls::lines(&site);
        let limits = format!("RequestReadTimeout handshake=1\n{}\n{lines}", room(mpm, 2));
        let server = Server::start(mpm, &site, &limits);
        server.allow("MaxRequestWorkers setting");
        let hello = Secure::hello(&config);
        let mut slow: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(server.address()).expect("connect")).collect();
        for (index, socket) in slow.iter_mut().enumerate() {
            // A client that says nothing is not accepted yet (AcceptFilter).
            socket.write_all(&hello[..1 + index * 20]).expect("a part of it");
        }
        assert!(Secure::to(server.address(), &config).get("/").ends_with("hello\n"));
        for mut socket in slow {
            socket.set_read_timeout(Some(DEADLINE)).expect("a deadline");
            let ended = socket.read(&mut [0; 64]).map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |read| read == 0);
            assert!(ended, "it is closed without a word");
        }
    }

    /// What is no handshake costs its connection and nothing else.
    fn nonsense_is_refused(mpm: Mpm) {
        let site = Site::with(HELLO);
        let (lines, config) = tls::lines(&site);
        let server = Server::start(mpm, &site, &lines);
        let hello = Secure::hello(&config);
        let mut damaged = hello.clone();
        damaged[43] = 255; // The length of the session id.
        let huge = [&[22, 3, 1, 0xff, 0xff][..], &[0; 70_000]].concat();
        for bytes in [&damaged[..], &[0x80, 46, 1, 3, 1][..], &[21, 3, 3, 0, 2, 2, 40], &huge[..], &[0; 300]] {
            let mut socket = TcpStream::connect(server.address()).expect("connect");
            socket.set_read_timeout(Some(DEADLINE)).expect("a deadline");
            // The connection may end before all was sent.
            let _ = socket.write_all(bytes);
            let _ = socket.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            // An alert or nothing; a reset where the rest was not read.
            let _ = socket.read_to_end(&mut answer);
            assert!(answer.is_empty() || answer[0] == 21, "{answer:?}");
        }
        assert!(Secure::to(server.address(), &config).get("/").ends_with("hello\n"));
    }
}

/// Clients that connect and say nothing, or half of a hello, hold no worker of event, and nothing of percore.
fn half_open(mpm: Mpm) {
    let site = Site::with(HELLO);
    let (lines, config) = tls::lines(&site);
    let server = Server::start(mpm, &site, &format!("{}\nAsyncRequestWorkerFactor 500\n{lines}", room(mpm, 4)));
    let hello = Secure::hello(&config);
    let count = if std::env::var_os("TSUBAME_LONG").is_some() { 10_000 } else { 400 };
    let held: Vec<TcpStream> = (0..count)
        .map(|index| {
            let mut socket = TcpStream::connect(server.address()).expect("connect");
            socket.write_all(&hello[..index % hello.len()]).expect("a part of it");
            socket
        })
        .collect();
    for _ in 0..10 {
        assert!(Secure::to(server.address(), &config).get("/").ends_with("hello\n"));
    }
    drop(held);
}

#[test]
fn half_open_handshakes_hold_no_worker_of_event() {
    half_open(Mpm::Event);
}

#[test]
fn half_open_handshakes_hold_up_nobody_of_percore() {
    half_open(Mpm::Percore);
}

/// Keys and signatures are computed by workers: the listener of event has other connections to look after.
#[test]
fn handshakes_do_not_compute_on_the_listener() {
    let site = Site::with(HELLO);
    let (lines, config) = tls::lines(&site);
    let server = Server::start(Mpm::Event, &site, &format!("{}\n{lines}", room(Mpm::Event, 4)));
    server.allow("MinSpareThreads of MaxRequestWorkers");
    let mut config = (*config).clone();
    config.resumption = rustls::client::Resumption::disabled();
    let config = std::sync::Arc::new(config);
    let child = *server.children().iter().next().expect("a child");
    // Nanoseconds that the listener, and all threads together, have used so far.
    let used = || {
        let of = |thread: &str| {
            let text = std::fs::read_to_string(format!("/proc/{child}/task/{thread}/schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
        };
        let threads = std::fs::read_dir(format!("/proc/{child}/task")).expect("threads");
        let all: u64 = threads.map(|entry| of(&entry.expect("thread").file_name().to_string_lossy())).sum();
        (of(&child.to_string()), all)
    };
    let before = used();
    let enough = Duration::from_millis(300).as_nanos() as u64;
    until("handshakes that cost enough to be told apart", || {
        assert!(Secure::to(server.address(), &config).get("/").ends_with("hello\n"));
        (used().1 - before.1 > enough).then_some(())
    });
    let after = used();
    let (listener, all) = (after.0 - before.0, after.1 - before.1);
    assert!(listener * 2 < all, "the listener has used {listener} ns of {all}");
}
