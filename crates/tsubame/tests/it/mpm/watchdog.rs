//! The watchdog: the error log reports which requests hold the workers when none is free, and when none progresses.

use sys::process::Pid;
use sys::signal::Signal;

use crate::cli::ctl::json;
use crate::harness::mpm::Mpm;
use crate::harness::server::{Server, rests};
use crate::harness::site::Site;
use crate::harness::wait::until;

/// A script that waits until a file is there.
fn site() -> Site {
    let site = Site::with([("index.html", "hello\n")]);
    let go = site.root.join("go");
    let text = format!(
        "#!/bin/sh\nwhile [ ! -e {} ]; do sleep 0.05; done\nprintf 'Content-Type: text/plain\\n\\nok\\n'\n",
        go.display()
    );
    site.script("slow.cgi", &text);
    site
}

const SCRIPTS: &str = "ScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}>\nRequire all granted\n</Directory>\n\
                       AdmissionMemory unlimited\n";

/// All workers of a child wait for scripts: the log names the requests, and how long they have been served.
#[test]
fn a_stall_is_explained() {
    for (mpm, numbers) in [
        (Mpm::Worker, "ThreadsPerChild 2\nMaxRequestWorkers 2\nStartServers 1"),
        (Mpm::Event, "ThreadsPerChild 2\nMaxRequestWorkers 2\nStartServers 1"),
        (Mpm::Prefork, "MaxRequestWorkers 2\nStartServers 2"),
    ] {
        let site = site();
        let server = Server::start(mpm, &site, &format!("{SCRIPTS}{numbers}\nStallTimeout 1\n"));
        server.allow("server is within MinSpareThreads of MaxRequestWorkers");
        server.allow("makes or sends a response since");
        let mut clients: Vec<_> = (0..2).map(|_| server.client()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(format!("GET /cgi-bin/slow.cgi?{number} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
        }
        let line = server.logged("and all are busy");
        assert!(line.contains("slow.cgi (2 run, 0 wait)"), "{line}");
        server.logged(" s: GET /cgi-bin/slow.cgi?... HTTP/1.1 for 127.");
        site.file("go", "");
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
        // Told once for each stall.
        assert_eq!(server.log().matches("and all are busy").count(), 1);
    }
}

/// The event loop of a child stands still, whatever it does or does not serve.
#[test]
fn a_child_that_does_not_answer_is_told_of() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, "StallTimeout 1");
    let serving = || {
        let status = json(&site, &["status"]);
        let serving = status["children"].as_array()?.iter().find(|child| child["life"] == "running")?;
        i32::try_from(serving["pid"].as_i64()?).ok().and_then(Pid::new)
    };
    let child = until("a child that serves", serving);
    child.kill(Signal::STOP).expect("stop");
    let line = server.logged(&format!("child {child} has not answered for"));
    assert!(line.contains("its event loop is stuck; its threads: 1 stopped"), "{line}");
    child.kill(Signal::CONT).expect("go on");
    until("it serves", || (server.get("/").status == 200).then_some(()));
}

/// When the limit is reached, the log says which requests hold the workers.
#[test]
fn the_limit_is_explained() {
    let site = site();
    let server =
        Server::start(Mpm::Prefork, &site, &format!("{SCRIPTS}MaxRequestWorkers 2\nStartServers 2\nStallTimeout 0\n"));
    let mut clients: Vec<_> = (0..2).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send("GET /cgi-bin/slow.cgi?secret=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    }
    let line = server.logged("busy workers of prefork: 2");
    assert!(line.contains("with 2 x GET /cgi-bin/slow.cgi (makes or sends a response, for up to"), "{line}");
    assert!(line.contains("slow.cgi (2 run, 0 wait)"), "{line}");
    site.file("go", "");
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
}

/// Clients that only wait for their next request do not count as a stall, though they hold all workers; nor do partial
/// requests, which hold none.
#[test]
fn waiting_clients_are_no_stall() {
    for (mpm, halves) in [(Mpm::Worker, false), (Mpm::Prefork, false), (Mpm::Event, true)] {
        let site = site();
        let numbers = "<IfModule !prefork.c>\nThreadsPerChild 2\n</IfModule>\nMaxRequestWorkers 2\nStartServers 1\n\
                       StallTimeout 1\nKeepAliveTimeout 60\n";
        let server = Server::start(mpm, &site, numbers);
        server.allow("MaxRequestWorkers setting");
        let mut clients: Vec<_> = (0..2).map(|_| server.client()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/").status, 200);
            if halves {
                client.send("GET / HTTP/1.1\r\nHost: h\r\n");
            }
        }
        // The parent looks whenever it wakes, which is once a second.
        let rested = rests(server.pid());
        until("several looks of the watchdog", || (rests(server.pid()) >= rested + 4).then_some(()));
        assert!(!server.log().contains("and all are busy"), "{}", server.log());
        for client in &mut clients {
            let rest = if halves { "\r\n" } else { "GET / HTTP/1.1\r\nHost: h\r\n\r\n" };
            assert_eq!(client.request(rest).status, 200);
        }
    }
}
