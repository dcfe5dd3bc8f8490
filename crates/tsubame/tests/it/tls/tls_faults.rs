//! Handshakes that go wrong: partial, slow, and very many ones, and their cost to other clients.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use sys::rlimit::{self, Bounds, Limit};

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::tls::{self, Secure};
use crate::harness::wait::{DEADLINE, until, within};

const HELLO: [(&str, &str); 1] = [("index.html", "hello\n")];

/// Room for so many connections at once, where room is a matter of numbers.
fn room(mpm: Mpm, count: u32) -> String {
    match mpm {
        Mpm::Percore => String::new(),
        Mpm::Prefork => format!("StartServers {count}\nMaxRequestWorkers {count}"),
        Mpm::Worker | Mpm::Event => format!("StartServers 1\nThreadsPerChild {count}\nMaxRequestWorkers {count}"),
    }
}

under_percore_and! {
    event:

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

    /// A client that announces its end on an idle connection hears ours (RFC 8446 section 6.1).
    fn an_idle_client_that_leaves_hears_the_end(mpm: Mpm) {
        let site = Site::with(HELLO);
        let (lines, config) = tls::lines(&site);
        let server = Server::start(mpm, &site, &format!("KeepAliveTimeout 300\n{lines}"));
        let (answer, ends) = Secure::to(server.address(), &config).leaves("/");
        assert!(answer.starts_with("HTTP/1.1 200 ") && ends, "{answer}");
    }

    /// `RequestReadTimeout handshake=` closes slow handshakes, and the connections waiting after them are served.
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

    /// Bytes that are no handshake end their own connection and have no other effect.
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

/// In the log of the virtual host that the address stands for, at its level, as in Apache.
#[test]
fn handshakes_are_told_to_the_host_of_the_address() {
    let site = Site::with(HELLO);
    let (lines, _) = tls::lines(&site);
    let lines = lines.replace("SSLEngine on", "SSLEngine on\nErrorLog logs/own\nLogLevel ssl:info");
    let server = Server::start(Mpm::Event, &site, &lines);
    let mut socket = TcpStream::connect(server.address()).expect("connect");
    socket.write_all(&[22, 3, 1, 0, 5, 1, 0, 0, 1, 0]).expect("no hello");
    let logged = until("the last line", || Some(site.read("logs/own")).filter(|text| text.contains("AH02008: ")));
    let peer = format!("[client {}] AH01964: Connection to child ", socket.local_addr().expect("address"));
    assert!(logged.contains(&peer) && logged.contains(" established (server localhost:443)"), "{logged}");
}

/// Clients that connect and say nothing, or half of a hello, hold no worker of event, and nothing of percore.
fn half_open(mpm: Mpm) {
    let site = Site::with(HELLO);
    let (lines, config) = tls::lines(&site);
    let server = Server::start(mpm, &site, &format!("{}\nAsyncRequestWorkerFactor 500\n{lines}", room(mpm, 4)));
    let hello = Secure::hello(&config);
    let held: Vec<TcpStream> = (0..400)
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

under_percore_and! {
    event:

    /// With `TSUBAME_LONG`: a part of a hello each, and every other client adds a byte now and then. Others are served meanwhile, nobody
    /// costs much, and all lose their place in the end.
    fn ten_thousand_slow_handshakes(mpm: Mpm) {
        const COUNT: usize = 10_000;
        if std::env::var_os("TSUBAME_LONG").is_none() {
            return;
        }
        let bounds = rlimit::get(Limit::Descriptors);
        // The server inherits it.
        rlimit::set(Limit::Descriptors, Bounds { soft: bounds.hard, ..bounds }).expect("limit");
        let site = Site::with(HELLO);
        let (lines, config) = tls::lines(&site);
        // If each connection holds a thread or a process, their time has to be short: they wait for each other.
        let (holds_nothing, room) = match mpm {
            Mpm::Percore => (true, ""),
            Mpm::Event => (true, "StartServers 1\nThreadsPerChild 4\nMaxRequestWorkers 4\nAsyncRequestWorkerFactor 5000"),
            Mpm::Worker => (false, "ServerLimit 4\nStartServers 4\nThreadsPerChild 64\nMaxRequestWorkers 256"),
            Mpm::Prefork => (false, "ServerLimit 256\nStartServers 256\nMaxSpareServers 256\nMaxRequestWorkers 256"),
        };
        let limit = if holds_nothing { 30 } else { 1 };
        let server = Server::start(mpm, &site, &format!("{room}\nRequestReadTimeout handshake={limit}\n{lines}"));
        server.allow("MaxRequestWorkers");
        assert!(Secure::to(server.address(), &config).get("/").ends_with("hello\n"));
        let (hello, before) = (Secure::hello(&config), memory(&server));
        let begun = Instant::now();
        let mut held: Vec<(usize, TcpStream)> = (0..COUNT)
            .map(|index| {
                let mut socket = TcpStream::connect(server.address()).expect("connect");
                let length = 1 + index % (hello.len() / 2);
                socket.write_all(&hello[..length]).expect("a part of it");
                socket.set_nonblocking(true).expect("non-blocking");
                (length, socket)
            })
            .collect();
        let each = memory(&server).saturating_sub(before) / COUNT as u64;
        let mut longest = Duration::ZERO;
        for _ in 0..10 {
            let asked = Instant::now();
            assert!(Secure::to(server.address(), &config).get("/").ends_with("hello\n"));
            longest = longest.max(asked.elapsed());
        }
        let ended = |socket: &mut TcpStream| match socket.read(&mut [0; 64]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        within(Duration::from_secs(600), || {
            held.retain_mut(|(length, socket)| !ended(socket) && {
                if *length % 2 == 0 && *length < hello.len() - 1 {
                    // One that ends just now is gone next time.
                    let _ = socket.write_all(&hello[*length..*length + 2]);
                    *length += 2;
                }
                true
            });
            held.is_empty().then_some(())
        })
        .expect("the end of all handshakes");
        let took = begun.elapsed();
        println!("{mpm}: {each} bytes each; a request took {longest:?} at most meanwhile; all had ended after {took:?}");
        assert!(!holds_nothing || each < 32 * 1024 && longest < Duration::from_secs(5));
    }
}

/// The memory of the children, in bytes; shared memory is divided among them.
fn memory(server: &Server<'_>) -> u64 {
    let kilobytes = |child: &i32| {
        let text = std::fs::read_to_string(format!("/proc/{child}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
    };
    server.children().iter().map(kilobytes).sum::<u64>() * 1024
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
    // It reads each client's first message, which takes long in a program that was not optimized.
    assert!(listener * 4 < all * 3, "the listener has used {listener} ns of {all}");
}
