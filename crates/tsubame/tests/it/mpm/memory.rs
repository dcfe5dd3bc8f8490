//! Memory runs out: children may die of it, the server goes on.

use std::net::TcpStream;
use std::time::Duration;

use sys::rlimit::{self, Bounds, Limit};

use crate::harness::frames::{Frames, HEADERS, WINDOW_UPDATE};
use crate::harness::mpm::Mpm;
use crate::harness::server::{Server, Start, threads};
use crate::harness::site::Site;
use crate::harness::tls::{self, Secure};
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

/// The memory that a child may use beyond its use at start: a few large heads.
const HEADROOM: u64 = 4 << 20;

/// How often that happens: once, or with `TSUBAME_LONG` again and again.
fn rounds() -> usize {
    if std::env::var_os("TSUBAME_LONG").is_some() { 8 } else { 1 }
}

/// The address space of the largest child, in bytes.
fn size(server: &Server<'_>) -> u64 {
    let pages = |child: &i32| {
        let text = std::fs::read_to_string(format!("/proc/{child}/statm")).expect("statm");
        text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).expect("a size")
    };
    server.children().iter().map(pages).max().expect("a child") * 4096
}

/// Starts a server of which no process may have more address space than this, as long as nobody raises it.
fn limited(bytes: u64) -> Vec<String> {
    vec!["prlimit".into(), format!("--as={bytes}:")]
}

/// Whether a new connection is served.
fn serves(server: &Server<'_>) -> Option<()> {
    let mut client = Client::over(TcpStream::connect(server.address()).ok()?);
    client.send(get("/"));
    client.try_response_to("GET").ok().filter(|response| response.text() == "hello\n").map(drop)
}

/// Many large heads that never end: a child without memory dies and is replaced, and later clients are served. Under
/// percore, where a child has one thread, because the address space of threads is unpredictable.
#[test]
fn large_heads_of_many_clients() {
    let site = Site::with([("index.html", "hello\n")]);
    site.configure(Mpm::Percore, "");
    let bytes = size(&Server::start(Mpm::Percore, &site, "")) + HEADROOM;
    let server = Start::new(&site, Mpm::Percore).by(limited(bytes)).run();
    server.announce("exit signal Aborted");
    for part in ["die as soon as they start", "memory allocation of", "note: run with `RUST_BACKTRACE=1`"] {
        server.allow(part);
    }
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}", format!("X: {}\r\n", "x".repeat(8000)).repeat(60));
    for round in 1..=rounds() {
        let mut held = Vec::new();
        until("a child that has no memory left", || {
            let mut client = Client::over(TcpStream::connect(server.address()).ok()?);
            // Without a child, nothing could use all of the memory.
            client.patience_to_send(Duration::from_millis(1));
            client.send(&head);
            held.push(client);
            (server.log().matches("exit signal Aborted").count() >= round).then_some(())
        });
        drop(held);
        for _ in 0..20 {
            until("it serves again", || serves(&server));
        }
    }
}

/// The log reports threads that cannot be started, with a remedy; once they can be, all are started.
#[test]
fn threads_that_cannot_be_started() {
    for mpm in [Mpm::Worker, Mpm::Event] {
        let site = Site::with([("index.html", "hello\n")]);
        let many = "StartServers 1\nThreadLimit 400\nThreadsPerChild 400\nMaxRequestWorkers 400";
        site.configure(mpm, many);
        // 400 stacks of 2 MB are more than this.
        let server = Start::new(&site, mpm).by(limited(500_000_000)).run();
        server.allow("a child cannot serve; it is tried again once a second");
        // The last thread may have taken the last memory, which ends the child.
        server.allow("memory allocation of ");
        server.allow("Fatal glibc error: failed to register TLS destructor: out of memory");
        server.allow("failed to allocate an alternative stack");
        server.allow("skipping backtrace printing");
        server.allow("exit signal Aborted");
        let line = server.logged("of 400 worker threads can be started");
        assert!(line.contains("lower ThreadsPerChild"), "{line}");
        rlimit::set_of(server.pid(), Limit::Memory, Bounds { soft: None, hard: None }).expect("limit");
        until("all threads", || server.children().iter().any(|child| threads(*child) > 400).then_some(()));
        assert_eq!(server.get("/").text(), "hello\n");
    }
}

/// The memory that the children do not share, in bytes.
fn held(server: &Server<'_>) -> u64 {
    let of = |child: &i32| sys::process::Pid::new(*child).and_then(|pid| sys::process::anonymous_memory(pid).ok());
    server.children().iter().filter_map(of).sum()
}

/// A server of which the children have the smallest budget for waiting clients: it is a part of what the process may have.
fn with_little(site: &Site) -> Server<'_> {
    site.configure(Mpm::Percore, "");
    let server = Start::new(site, Mpm::Percore).by(limited(512 << 20)).run();
    server.allow("hold as much memory as they may");
    server
}

/// Clients that never finish their large heads share a budget: those that have waited longest give way beyond it, small
/// requests are still served, and the memory is released when the clients have left.
#[test]
fn unfinished_heads_hold_no_more_than_a_budget() {
    /// Of each child, in bytes: see the server's budget for waiting clients, and buffers twice as large.
    const MOST: u64 = 40 << 20;

    let site = Site::with([("index.html", "hello\n")]);
    let server = with_little(&site);
    until("the first request to be served", || serves(&server));
    let before = held(&server);
    let children = server.children().len() as u64;
    let head = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\n{}",
        (0..90).map(|number| format!("X-{number}: {}\r\n", "x".repeat(8000))).collect::<String>()
    );
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..60 * children {
        let mut client = Client::over(TcpStream::connect(server.address()).expect("connect"));
        client.send(&head);
        clients.push(client);
    }
    let refused = || server.log().matches("unfinished requests hold").count();
    until("some to be refused", || (refused() > 0).then_some(()));
    // The newest have their place.
    let last = clients.last_mut().expect("a client");
    last.send("\r\n");
    assert_eq!(last.response().status, 200);
    until("small requests to be served", || serves(&server));
    let grown = held(&server).saturating_sub(before);
    assert!(grown < MOST * children, "{} KiB in {children} children", grown >> 10);
    drop(clients);
    until("the memory to be given back", || (held(&server) < before + (8 << 20)).then_some(()));
}

/// A large head counts until its answer is out, not only until it is whole: it is kept as long.
#[test]
fn large_heads_count_until_they_are_answered() {
    let site = Site::with([("index.html", "hello\n")]);
    let server = with_little(&site);
    let fields: String = (0..90).map(|number| format!("X-{number}: {}\r\n", "x".repeat(8000))).collect();
    // The answer waits for the body.
    let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n{fields}\r\n");
    let mut clients: Vec<Client> = Vec::new();
    let refused = || server.log().matches("hold as much memory as they may").count();
    until("some to be refused", || {
        if clients.len() < 60 * server.children().len() {
            let mut client = Client::over(TcpStream::connect(server.address()).expect("connect"));
            client.send(&head);
            clients.push(client);
        }
        (refused() > 0).then_some(())
    });
    clients.iter_mut().for_each(|client| client.send("ab"));
    let answers: Vec<u16> =
        clients.iter_mut().filter_map(|client| Some(client.try_response_to("GET").ok()?.status)).collect();
    let answered = answers.iter().filter(|status| **status == 200).count();
    assert!(answered > 20, "{answers:?}");
    // An answered request releases its memory, even if the connection stays open.
    let before = refused();
    for _ in 0..30 {
        assert_eq!(server.client().request(format!("{head}ab")).status, 200);
    }
    assert_eq!(refused(), before);
}

/// The trailers of a body share the budget of heads: they are refused beyond it, even if each is small enough.
#[test]
fn unfinished_trailers_share_the_budget() {
    let site = Site::with([("index.html", "hello\n")]);
    let server = with_little(&site);
    until("the first request to be served", || serves(&server));
    let fields: String = (0..90).map(|number| format!("X-{number}: {}\r\n", "x".repeat(8000))).collect();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..60 * server.children().len() {
        let mut client = Client::over(TcpStream::connect(server.address()).expect("connect"));
        client.send(format!("{head}0\r\n{fields}"));
        clients.push(client);
    }
    let refused = until("one to be refused", || clients.iter().position(|client| !client.is_silent()));
    assert_eq!(clients.swap_remove(refused).response().status, 413);
    until("small requests to be served", || serves(&server));
    // An abandoned request releases its memory.
    drop(clients);
    let whole = format!("{head}0\r\n{fields}\r\n");
    until("others to have room", || (server.client().request(&whole).status == 200).then_some(()));
}

/// Whether the children hold no more than this beyond what they held before.
fn holds(server: &Server<'_>, before: u64, more: u64) -> Option<()> {
    (held(server) < before + more).then_some(())
}

/// Answers over HTTP/2 that nobody reads, however far the client opens its windows: a connection holds a part of one
/// answer, not of each, and its memory goes back to the system when it closes.
fn unread_streams(mpm: Mpm) {
    const CONNECTIONS: usize = 40;
    const STREAMS: usize = 50;
    /// What a connection may hold, in bytes: a queue, the wire, and a request and its file for each stream.
    const MOST: u64 = 1 << 20;

    let site = Site::with([("index.html", "hello\n")]);
    site.page("large", vec![b'x'; 10 << 20]);
    // Under event, no third child is started meanwhile, with memory of its own.
    let children = if mpm == Mpm::Event {
        "StartServers 2\nThreadsPerChild 25\nMaxRequestWorkers 50\nMinSpareThreads 1\n"
    } else {
        ""
    };
    let server = Server::start(mpm, &site, &format!("{children}Protocols h2c http/1.1\nMaxMemFree 2048"));
    until("the first request to be served", || serves(&server));
    let before = held(&server);
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        // SETTINGS_INITIAL_WINDOW_SIZE
        let mut client = Frames::connect(server.address(), &[(4, 1 << 20)]);
        client.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        for _ in 0..STREAMS {
            client.get("/large");
        }
        clients.push(client);
    }
    for client in &mut clients {
        // Each is being answered.
        until("an answer", || client.frame().is_some_and(|frame| frame.kind == HEADERS).then_some(()));
    }
    until("small requests to be served", || serves(&server));
    let grown = held(&server).saturating_sub(before);
    assert!(grown < MOST * CONNECTIONS as u64, "{} KiB for {CONNECTIONS} connections under {mpm}", grown >> 10);
    // One that reads gets all of its answers, whatever the others do.
    let mut reader = Frames::connect(server.address(), &[(4, 1 << 20)]);
    let streams = [(); 3].map(|()| reader.get("/large"));
    for ended in reader.all(&streams) {
        assert!(matches!(ended, crate::harness::frames::Ended::Answered(200, body) if body.len() == 10 << 20));
    }
    drop((clients, reader));
    // Under event, fifty threads have stacks and buffers of their own.
    let stays = if mpm == Mpm::Event { 32 << 20 } else { 6 << 20 };
    until("the memory to be given back", || holds(&server, before, stays));
}

#[test]
fn unread_streams_hold_little_and_give_it_back_under_percore() {
    unread_streams(Mpm::Percore);
}

#[test]
fn unread_streams_hold_little_and_give_it_back_under_event() {
    unread_streams(Mpm::Event);
}

/// Windows that a client keeps shut cost no piece of the file.
#[test]
fn streams_without_a_window_hold_no_data() {
    const STREAMS: usize = 50;

    let site = Site::with([("index.html", "hello\n")]);
    site.page("large", vec![b'x'; 10 << 20]);
    let server = Server::start(Mpm::Percore, &site, "Protocols h2c http/1.1");
    until("the first request to be served", || serves(&server));
    let before = held(&server);
    let mut clients: Vec<Frames> = (0..20).map(|_| Frames::connect(server.address(), &[(4, 1)])).collect();
    for client in &mut clients {
        for _ in 0..STREAMS {
            client.get("/large");
        }
        let mut begun = 0;
        while begun < STREAMS {
            begun += usize::from(client.frame().expect("a frame").kind == HEADERS);
        }
    }
    let each = held(&server).saturating_sub(before) / (20 * STREAMS as u64);
    assert!(each < 24 << 10, "{each} bytes for each stream");
}

/// Small heads that never end are below every budget; what they held goes back to the system all the same.
#[test]
fn the_memory_of_many_half_heads_is_given_back() {
    const COUNT: usize = 900;

    let site = Site::with([("index.html", "hello\n")]);
    let server = Server::start(Mpm::Percore, &site, "RequestReadTimeout header=0\nTimeout 100");
    until("the first request to be served", || serves(&server));
    let before = held(&server);
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(7900));
    let mut clients: Vec<Client> = (0..COUNT).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.send(&head));
    until("all heads to be there", || (held(&server) > before + COUNT as u64 * 7900).then_some(()));
    drop(clients);
    until("the memory to be given back", || holds(&server, before, 2 << 20));
}

/// An unfinished ClientHello is held once, and counts as an unfinished head does.
#[test]
fn an_unfinished_hello_is_held_once() {
    use std::io::{Read, Write};

    const LENGTH: usize = 60_000;

    let site = Site::with([("index.html", "hello\n")]);
    let (lines, config) = tls::lines(&site);
    site.configure(Mpm::Percore, &format!("{lines}\nRequestReadTimeout handshake=0\nTimeout 100"));
    let server = Start::new(&site, Mpm::Percore).by(limited(512 << 20)).run();
    server.allow("hold as much memory as they may");
    assert!(Secure::to(server.address(), &config).get("/").ends_with("hello\n"));
    let before = held(&server);
    let mut message = vec![1, 0, (LENGTH >> 8) as u8, LENGTH as u8];
    message.resize(LENGTH, 0);
    let records: Vec<u8> = message
        .chunks(16_384)
        .flat_map(|part| [&[22, 3, 1, (part.len() >> 8) as u8, part.len() as u8], part].concat())
        .collect();
    let hold = |count: usize| {
        let mut sockets: Vec<TcpStream> =
            (0..count).map(|_| TcpStream::connect(server.address()).expect("connect")).collect();
        sockets.iter_mut().for_each(|socket| socket.write_all(&records).expect("a part of a hello"));
        sockets
    };
    let some = hold(100);
    until("all of it", || (held(&server) >= before + 100 * LENGTH as u64).then_some(()));
    let each = (held(&server) - before) / 100;
    assert!(each < LENGTH as u64 * 14 / 10, "{each} bytes for each hello");
    // More than there is room for in any child, however the kernel spreads them: those that have waited longest go.
    let mut more = Vec::new();
    let is_closed = |mut socket: &TcpStream| {
        socket.set_nonblocking(true).expect("non-blocking");
        match socket.read(&mut [0; 8]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    until("the oldest to go", || {
        more.extend(hold(50));
        some.iter().all(is_closed).then_some(())
    });
    assert!(!is_closed(more.last().expect("a socket")), "the newest stays");
    assert!(server.log().contains("hold as much memory as they may"), "the log says why");
    assert!(Secure::to(server.address(), &config).get("/").ends_with("hello\n"));
}

/// The private memory of a process, in bytes.
fn private(process: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.strip_prefix("Private_Dirty:"));
    lines.filter_map(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).sum::<u64>() * 1024
}

/// The process that keeps the log files has nothing of the configuration, before a reload and after it.
#[test]
fn the_keeper_of_logs_forgets_the_configuration() {
    let site = Site::with([("index.html", "hello\n")]);
    let hosts: String = (0..2000)
        .map(|n| {
            format!("<VirtualHost *:8080>\nServerName h{n}.test\nServerAlias a{n}.test b{n}.test\n</VirtualHost>\n")
        })
        .collect();
    let mut server = Server::start(Mpm::Percore, &site, &hosts);
    let keeper = || {
        let all = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid())).expect("children");
        let is_keeper = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(": logs"))
        };
        all.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()).find(is_keeper).expect("a keeper")
    };
    let process = keeper();
    server.restart(sys::signal::Signal::USR1);
    let process_now = {
        let all = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid())).expect("children");
        all.split_whitespace().any(|pid| pid == process.to_string())
    };
    assert!(process_now, "it is the same one");
    let bytes = private(process);
    assert!(bytes > 0 && bytes < 3 << 20, "{bytes} bytes");
}

/// A host that was requested costs a child what it remembers of its directory, and no page of the host itself.
#[test]
fn a_requested_host_costs_little() {
    const HOSTS: usize = 3000;

    let site = Site::with([("index.html", "hello\n")]);
    let hosts: String =
        (0..HOSTS).map(|n| format!("<VirtualHost *:8080>\nServerName h{n}.test\n</VirtualHost>\n")).collect();
    let server = Server::start(Mpm::Percore, &site, &format!("MaxKeepAliveRequests 0\n{hosts}"));
    let all = || server.children().iter().map(|child| private(*child)).sum::<u64>();
    let mut client = server.client();
    let mut ask = |host: usize| {
        let response = client.request(format!("GET /index.html HTTP/1.1\r\nHost: h{host}.test\r\n\r\n"));
        assert_eq!(response.status, 200);
    };
    ask(0);
    let before = all();
    (0..HOSTS).for_each(&mut ask);
    let each = (all() - before) / HOSTS as u64;
    assert!(each < 2000, "{each} bytes for each host");
}
