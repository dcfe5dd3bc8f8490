//! Connections that wait for their clients: under event they hold no worker, and no client waits for ever.

use std::collections::BTreeMap;
use std::time::Duration;

use sys::process::Pid;
use sys::rlimit::{self, Bounds, Limit};

use crate::harness::descriptors;
use crate::harness::mpm::Mpm;
use crate::harness::needs;
use crate::harness::oracle::{self, Apache};
use crate::harness::server::{Server, Start, children, threads};
use crate::harness::site::{self, Site};
use crate::harness::wait::{until, within};
use crate::harness::wire::{Client, get};

/// One child with four workers that may have as many connections as come.
const FOUR_WORKERS: &str = "StartServers 1\nThreadsPerChild 4\nMaxRequestWorkers 4\nMinSpareThreads 1\n\
    AsyncRequestWorkerFactor 5000\nKeepAliveTimeout 300\nTimeout 300\n\
    <Location /status>\nSetHandler server-status\n</Location>";

fn site() -> Site {
    let site = Site::with([("index.html", "hello\n"), ("a.txt", "0123456789")]);
    site.page("large", vec![b'x'; 8 * 1024 * 1024]);
    site
}

/// How many connections wait at once: some, or with `TSUBAME_LONG` very many. Raises the limit of descriptors for them.
fn connection_count() -> usize {
    let bounds = rlimit::get(Limit::Descriptors);
    // The server inherits it.
    rlimit::set(Limit::Descriptors, Bounds { soft: bounds.hard, ..bounds }).expect("limit");
    if std::env::var_os("TSUBAME_LONG").is_some() { 10_000 } else { 2_000 }
}

/// A number of the status page.
fn status_number(server: &Server<'_>, field: &str) -> usize {
    let page =
        server.client().request("GET /status?auto HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").text();
    let value = page.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {field}: {page}"))
}

fn wait_for_status(server: &Server<'_>, field: &str, wanted: usize) {
    let mut last = None;
    within(Duration::from_secs(20), || {
        last = Some(status_number(server, field));
        (last == Some(wanted)).then_some(())
    })
    .unwrap_or_else(|| panic!("{field}: {last:?} and not {wanted}"));
}

/// A new request is answered as if there were no other connection: one that had to wait for a worker would wait for a timeout of
/// this file's servers, each of which is longer than a test's client waits.
fn expect_prompt_response(server: &Server<'_>) {
    assert_eq!(server.get("/a.txt").status, 200);
}

/// How often each worker thread of a child went to sleep.
fn sleeps(child: i32) -> BTreeMap<String, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{child}/task")).expect("threads").flatten();
    let status = tasks.map(|task| std::fs::read_to_string(task.path().join("status")).expect("status"));
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("field");
        line.trim_start_matches(':').trim().to_string()
    };
    status
        .filter(|text| field(text, "Name").starts_with("worker-"))
        .map(|text| (field(&text, "Pid"), field(&text, "voluntary_ctxt_switches").parse().expect("number")))
        .collect()
}

/// Thousands wait for a next request that never comes, and then all go at once: no worker ever hears of it.
#[test]
fn idle_connections_cost_no_worker() {
    let site = site();
    let count = connection_count();
    let server = Server::start(Mpm::Event, &site, FOUR_WORKERS);
    let kept = |_| {
        let mut client = server.client();
        assert_eq!(client.get("/a.txt").status, 200);
        client
    };
    let mut clients: Vec<Client> = (0..count).map(kept).collect();
    wait_for_status(&server, "ConnsAsyncKeepAlive", count);
    wait_for_status(&server, "ConnsTotal", count + 1);
    wait_for_status(&server, "BusyWorkers", 1);
    wait_for_status(&server, "IdleWorkers", 3);
    expect_prompt_response(&server);
    assert_eq!(clients[count / 2].get("/a.txt").status, 200);

    let child = *server.children().first().expect("a child");
    let open = || descriptors::of(Pid::new(child).expect("pid")).len();
    let (mut last, mut looks) = (sleeps(child), 0);
    let settled = until("workers that sleep", || {
        let now = sleeps(child);
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
        (looks == 10).then(|| last.clone())
    });
    assert!(settled.len() == 4 && open() > count);
    drop(clients);
    until("the end of all connections", || (open() < 100).then_some(()));
    assert_eq!(sleeps(child), settled, "a worker was woken to read an end");
    wait_for_status(&server, "ConnsTotal", 1);
}

/// Slow readers and closing connections hold no worker either.
#[test]
fn slow_and_closing_clients_cost_no_worker() {
    let site = site();
    connection_count();
    let server = Server::start(Mpm::Event, &site, FOUR_WORKERS);
    let mut slow: Vec<Client> = (0..200).map(|_| server.client()).collect();
    slow.iter_mut().for_each(|client| client.send(get("/large")));
    let mut closing: Vec<Client> = (0..200).map(|_| server.client()).collect();
    for client in &mut closing {
        assert_eq!(client.request("GET / HTTP/1.1\r\nHost: a b\r\n\r\n").status, 400);
    }
    wait_for_status(&server, "ConnsAsyncWriting", 200);
    wait_for_status(&server, "ConnsAsyncClosing", 200);
    wait_for_status(&server, "BusyWorkers", 1);
    wait_for_status(&server, "IdleWorkers", 3);
    for _ in 0..10 {
        expect_prompt_response(&server);
    }
    let mut patient = slow.pop().expect("one");
    assert_eq!(patient.response().body.len(), 8 * 1024 * 1024);
    assert_eq!(patient.get("/a.txt").status, 200);
    drop((slow, closing));
    wait_for_status(&server, "ConnsAsyncWriting", 0);
    wait_for_status(&server, "ConnsAsyncClosing", 0);
}

/// A partial head holds no worker, whether the rest follows, an error, or a time-out.
#[test]
fn half_heads_cost_no_worker() {
    let site = site();
    connection_count();
    let mut server = Server::start(Mpm::Event, &site, &format!("{FOUR_WORKERS}\nRequestReadTimeout header=60"));
    let mut halves: Vec<Client> = (0..300).map(|_| server.client()).collect();
    halves.iter_mut().for_each(|client| client.send("GET /a.txt HTTP/1.1\r\nHo"));
    wait_for_status(&server, "ConnsTotal", 301);
    wait_for_status(&server, "BusyWorkers", 1);
    for _ in 0..10 {
        expect_prompt_response(&server);
    }
    for (index, client) in halves.iter_mut().enumerate() {
        let (rest, status) = [("st: localhost\r\n\r\n", 200), (" : x\r\n\r\n", 400)][index % 2];
        client.send(&rest[..3]);
        client.send(&rest[3..]);
        assert_eq!(client.response().status, status);
    }
    site.configure(Mpm::Event, &format!("{FOUR_WORKERS}\nRequestReadTimeout header=1"));
    drop(halves);
    server.restart(sys::signal::Signal::USR1);
    let mut late = server.client();
    late.send("GET /a.txt HTTP/1.1\r\nHo");
    assert_eq!(late.response().status, 408);
}

/// They will need one, though: as many children start as if they held workers, and new clients are served.
#[test]
fn half_heads_bring_more_children() {
    let site = site();
    let text = "ServerLimit 8\nStartServers 1\nThreadsPerChild 4\nMinSpareThreads 2\nMaxRequestWorkers 32\n\
        RequestReadTimeout header=60";
    let server = Server::start(Mpm::Event, &site, text);
    server.allow("MaxRequestWorkers setting");
    server.allow("server seems busy");
    let mut halves: Vec<Client> = (0..14).map(|_| server.client()).collect();
    halves.iter_mut().for_each(|client| client.send("GET /a.txt HTTP/1.1\r\nHo"));
    until("more children", || (server.children().len() > 1).then_some(()));
    assert_eq!(server.get("/a.txt").status, 200);
}

/// A worker that waits for a script is busy; the others serve.
#[test]
fn a_wait_for_a_script_holds_one_worker() {
    let site = site();
    site.script("wait", "#!/bin/sh\nwhile [ ! -e ../enough ]; do sleep 0.05; done; printf '\\nready'\n");
    let text = format!("{FOUR_WORKERS}\nScriptAlias /cgi/ ${{ROOT}}/cgi-bin/");
    for mpm in [Mpm::Worker, Mpm::Event] {
        let _ = std::fs::remove_file(site.root.join("enough"));
        let lines = text.replace(
            "AsyncRequestWorkerFactor 5000\n",
            if mpm == Mpm::Event { "AsyncRequestWorkerFactor 9\n" } else { "" },
        );
        let server = Server::start(mpm, &site, &lines);
        let mut clients = [server.client(), server.client(), server.client()];
        clients.iter_mut().for_each(|client| client.send(get("/cgi/wait")));
        wait_for_status(&server, "BusyWorkers", 4);
        wait_for_status(&server, "IdleWorkers", 0);
        expect_prompt_response(&server);
        site.file("enough", "");
        clients.iter_mut().for_each(|client| assert_eq!(client.response().text(), "ready"));
    }
}

/// Under worker a thread belongs to its connection: it shows what that does.
#[test]
fn a_worker_shows_its_connection() {
    let site = site();
    let server = Server::start(Mpm::Worker, &site, &FOUR_WORKERS.replace("AsyncRequestWorkerFactor 5000\n", ""));
    let mut kept = server.client();
    assert_eq!(kept.get("/a.txt").status, 200);
    let mut begun = server.client();
    begun.send("GET /");
    let board = || {
        let page =
            server.client().request("GET /status?auto HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").text();
        let line = page.lines().find_map(|line| line.strip_prefix("Scoreboard: ")).expect("scoreboard");
        let mut letters: Vec<char> = line.chars().collect();
        letters.sort_unstable();
        letters.into_iter().collect::<String>()
    };
    until("one idle, one kept alive, one reading, one answering", || (board() == "KRW_").then_some(()));
    drop((kept, begun));
    until("the others are idle", || (board() == "W___").then_some(()));
}

/// Many more connections than workers, in the four configurations of a famous comparison (the two large ones made
/// smaller): everybody is answered.
#[test]
fn nobody_hangs() {
    let site = site();
    connection_count();
    let configurations = [
        "StartServers 4\nMinSpareThreads 4\nMaxSpareThreads 4\nThreadsPerChild 2\nMaxRequestWorkers 2",
        "ServerLimit 6000\nMaxRequestWorkers 600\nStartServers 4\nMinSpareThreads 4\nMaxSpareThreads 4\nThreadsPerChild 2",
        "ServerLimit 60\nMaxRequestWorkers 600\nThreadLimit 1000\nStartServers 10\nMinSpareThreads 100\n\
         MaxSpareThreads 100\nThreadsPerChild 100",
        "AsyncRequestWorkerFactor 2\nServerLimit 32\nMaxRequestWorkers 512\nThreadLimit 256\nStartServers 2048\n\
         MinSpareThreads 512\nMaxSpareThreads 512\nThreadsPerChild 256",
    ];
    for text in configurations {
        let server = Server::start(Mpm::Event, &site, text);
        server.allow("MaxRequestWorkers setting");
        server.allow("server seems busy");
        server.allow("the server runs");
        for connection in ["close", "keep-alive"] {
            let count = if connection == "close" { 400 } else { 40 };
            let mut clients: Vec<Client> = (0..count).map(|_| server.client()).collect();
            let request = format!("GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: {connection}\r\n\r\n");
            clients.iter_mut().for_each(|client| client.send(&request));
            // Nobody closes before all are answered.
            clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200, "{text}"));
        }
    }
}

/// A connection that cannot be accepted waits only until idle ones are closed.
#[test]
fn idle_connections_make_room() {
    let site = site();
    let text = "StartServers 1\nThreadsPerChild 2\nMaxRequestWorkers 2\nMinSpareThreads 1\nKeepAliveTimeout 300";
    let server = Server::start(Mpm::Event, &site, text);
    server.allow("MaxRequestWorkers setting");
    let mut idle: Vec<Client> = (0..6).map(|_| server.client()).collect();
    idle.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    assert_eq!(server.get("/a.txt").status, 200);
    idle.iter_mut().for_each(Client::expect_end);
}

/// When descriptors run out, connections that only wait for a next request leave theirs to new clients, though their
/// time is not over.
#[test]
fn idle_connections_leave_their_descriptors() {
    for (mpm, limit, text) in [
        (Mpm::Percore, 128, "KeepAliveTimeout 300"),
        (
            Mpm::Event,
            128,
            "KeepAliveTimeout 300\nStartServers 1\nThreadsPerChild 4\nMaxRequestWorkers 4\nAsyncRequestWorkerFactor 5000",
        ),
    ] {
        let site = site();
        site.configure(mpm, text);
        let server = Start::new(&site, mpm).limit_files(limit).run();
        server.allow("cannot accept a connection");
        server.allow("MaxRequestWorkers setting");
        let mut idle: Vec<Client> = Vec::new();
        for number in 0..limit as usize * 2 * server.children().len() {
            let mut client = server.client();
            client.patience(Duration::from_secs(20));
            client.send(get("/a.txt"));
            let response = client.try_response_to("GET");
            assert!(response.is_ok_and(|response| response.status == 200), "client {number} under {mpm}");
            idle.push(client);
        }
        idle[0].expect_end();
        let last = idle.last_mut().expect("a client");
        assert_eq!(last.get("/a.txt").status, 200, "the newest stays");
    }
}

/// Heads and bodies that do not come hold no worker of event, and others get their places.
#[test]
fn half_requests_make_room() {
    let site = site();
    let text = "StartServers 1\nThreadsPerChild 4\nMaxRequestWorkers 4\nMinSpareThreads 1\nTimeout 300\n\
        RequestReadTimeout header=0 body=0";
    for half in ["GET /a.txt HTTP/1.1\r\nHo", "POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab"]
    {
        let server = Server::start(Mpm::Event, &site, text);
        server.allow("MaxRequestWorkers setting");
        // More than the 12 connections of four workers with an AsyncRequestWorkerFactor of 2.
        let mut halves: Vec<Client> = (0..20).map(|_| server.client()).collect();
        halves.iter_mut().for_each(|client| client.send(half));
        let mut client = server.client();
        client.patience(Duration::from_secs(20));
        client.send(get("/a.txt"));
        let response = client.try_response_to("GET");
        assert!(response.is_ok_and(|response| response.status == 200), "beside {half:?}");
    }
}

/// Clients that come at the same moment are divided among the children.
#[test]
fn a_burst_is_divided() {
    const COUNT: usize = 24;

    if !needs::PROCESSORS.is_there("a_burst_is_divided") {
        return;
    }
    let site = site();
    let server = Server::start(Mpm::Percore, &site, "KeepAliveTimeout 300");
    assert!(server.children().len() >= 2);
    // On a busy machine the other child may come too late once.
    until("a burst that is divided", || {
        let mut burst: Vec<Client> = (0..COUNT).map(|_| server.client()).collect();
        burst.iter_mut().for_each(|client| client.send(get("/a.txt")));
        burst.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        let held = |child: &i32| descriptors::clients_of(Pid::new(*child).expect("pid"));
        let counts: Vec<usize> = server.children().iter().map(|child| held(child).len()).collect();
        drop(burst);
        until("their end", || server.children().iter().all(|child| held(child).is_empty()).then_some(()));
        let fair = COUNT / counts.len();
        counts.iter().all(|count| *count <= fair * 3 / 2 + 3).then_some(())
    });
}

/// The number of children and of serving threads settles at the same value as under Apache.
#[test]
fn as_many_as_apache() {
    if !oracle::is_there("as_many_as_apache") {
        return;
    }
    let cases = [
        (
            "StartServers 1\nThreadsPerChild 2\nMinSpareThreads 20\nMaxSpareThreads 40\nMaxRequestWorkers 40\nServerLimit 40",
            16,
        ),
        (
            "StartServers 6\nThreadsPerChild 2\nMinSpareThreads 2\nMaxSpareThreads 4\nMaxRequestWorkers 60\nServerLimit 40",
            2,
        ),
        ("StartServers 4\nMinSpareThreads 4\nMaxSpareThreads 4\nThreadsPerChild 2\nMaxRequestWorkers 2", 1),
    ];
    for mpm in [Mpm::Worker, Mpm::Event] {
        for (text, settles_at) in cases {
            let (our_site, their_site) = (site(), site());
            let ours = Server::start(mpm, &our_site, text);
            ours.allow("MaxRequestWorkers setting");
            ours.allow("server seems busy");
            ours.allow("the server runs");
            // Its workers are threads, too.
            let modules = oracle::without("http2_module").replace("mpm_event", &format!("mpm_{mpm}"));
            // Their daemon runs whoever starts scripts, and health checks have threads.
            let is_other =
                |line: &&str| [" cgid_module ", " proxy_hcheck_module "].iter().all(|one| !line.contains(one));
            let modules = modules.lines().filter(is_other).fold(String::new(), |all, line| all + line + "\n");
            let theirs = Apache::start_with(&their_site, &modules, text);
            let settles = |pid: Pid, extra: usize| {
                let counts = || {
                    let children = children(pid);
                    (children.len(), children.iter().map(|child| threads(*child)).sum::<usize>())
                };
                let wanted = (settles_at, settles_at * (2 + extra));
                let found = within(Duration::from_secs(20), || (counts() == wanted).then_some(()));
                assert!(found.is_some(), "under {mpm} {:?} and not {wanted:?} children and threads: {text}", counts());
            };
            // Their main thread only waits; ours is the listener.
            settles(ours.pid(), 1);
            settles(theirs.pid(), 2);
        }
    }
}

/// Start-up and `-t` report once how inconsistent numbers are adjusted.
#[test]
fn the_resulting_numbers_are_reported() {
    let site = site();
    let text = "StartServers 4\nMinSpareThreads 4\nMaxSpareThreads 4\nThreadsPerChild 2\nMaxRequestWorkers 2";
    let said = "StartServers 4, MinSpareThreads 4, MaxSpareThreads 4: the server runs 1 child, with 2 workers";
    site.configure_with(&site::load_lines(Mpm::Event), text);
    let command =
        crate::harness::server::Start::new(&site, Mpm::Event).arguments(&["-t"]).command().output().expect("run");
    let errors = String::from_utf8_lossy(&command.stderr).into_owned();
    assert_eq!(errors.matches(said).count(), 1, "{errors}");
    let server = Server::start(Mpm::Event, &site, text);
    server.allow(said);
    assert_eq!(server.get("/a.txt").status, 200);
    let everything = format!("{}{}", site.read("logs/error_log"), site.read("logs/stderr"));
    assert_eq!(everything.matches(said).count(), 1, "{everything}");
}

/// If a worker waits with the connection, a client that does not close its side holds it for two seconds of silence. A
/// client that still sends may take half a minute.
#[test]
fn a_silent_client_is_soon_left() {
    for (mpm, numbers) in [
        (Mpm::Prefork, "MaxRequestWorkers 1\nStartServers 1\nServerLimit 1\n"),
        (Mpm::Worker, "ThreadsPerChild 1\nMaxRequestWorkers 1\nStartServers 1\nServerLimit 1\n"),
    ] {
        let site = Site::with([("index.html", "hello\n")]);
        let server =
            Server::start(mpm, &site, &format!("{numbers}SetEnv nokeepalive 1\nSetEnvIf Host . nokeepalive\n"));
        server.allow("MaxRequestWorkers setting");
        let mut silent = server.client();
        assert_eq!(silent.get("/").status, 200);
        let began = std::time::Instant::now();
        assert_eq!(server.get("/").status, 200);
        let waited = began.elapsed();
        assert!(waited < std::time::Duration::from_secs(15), "{mpm}: {waited:?}");
        drop(silent);
    }
}
