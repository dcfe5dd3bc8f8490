//! The server survives restarts, killed children, a lack of descriptors, and a full disk.

use std::net::TcpStream;

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::under_every_mpm;
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;
use crate::mpm::load::Load;

fn site() -> Site {
    Site::with([("index.html", "hello\n"), ("a.txt", "0123456789")])
}

/// How many graceful restarts: a few, or with `TSUBAME_LONG` many.
fn restarts() -> usize {
    if std::env::var_os("TSUBAME_LONG").is_some() { 60 } else { 5 }
}

under_every_mpm! {
    /// Graceful restarts under load: no request fails, not even of slow senders.
    fn graceful_restarts_lose_no_request(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, "MaxKeepAliveRequests 50");
        let (load, slow) = (Load::start(server.address(), 4), Load::slow(server.address(), 4));
        for _ in 0..restarts() {
            load.goes_on(200);
            slow.goes_on(2);
            server.restart(Signal::USR1);
        }
        load.goes_on(200);
        slow.goes_on(4);
        assert_eq!((load.end(), slow.end()), (Vec::<String>::new(), Vec::new()));
    }

    /// An answer that comes when the child is to leave says that the connection ends with it.
    fn the_last_answer_says_so(mpm: Mpm) {
        let site = site();
        site.script("late", "#!/bin/sh\nwhile [ ! -e ../enough ]; do sleep 0.05; done; printf '\\nlate'\n");
        let mut server = Server::start(mpm, &site, "ScriptAlias /cgi/ ${ROOT}/cgi-bin/");
        let mut client = server.client();
        client.send(crate::harness::wire::get("/cgi/late"));
        until("the script", || server.children().into_iter().find(|child| !Pid::new(*child).map(crate::harness::server::children).unwrap_or_default().is_empty()));
        server.signal(Signal::WINCH);
        until("closed doors", || TcpStream::connect(server.address()).is_err().then_some(()));
        site.file("enough", "");
        let answer = client.response();
        assert_eq!((answer.text().as_str(), answer.closes()), ("late", true));
        drop(client);
        assert_eq!(server.ends().code(), Some(0));
    }

    /// All children at once, again and again: the server comes back.
    fn killing_everybody_does_not_end_the_server(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "");
        server.announce("exit signal Killed (9)");
        server.allow("children die as soon as they start");
        for _ in 0..3 {
            for child in server.children() {
                let _ = Pid::new(child).expect("pid").kill(Signal::KILL);
            }
            until("an answer", || {
                let mut client = Client::over(TcpStream::connect(server.address()).ok()?);
                client.send(crate::harness::wire::get("/"));
                client.try_response_to("GET").ok().filter(|response| response.status == 200)
            });
        }
    }

    /// No descriptors left: connections wait, the log says so, and service resumes when there are some again.
    fn descriptors_run_out(mpm: Mpm) {
        let site = site();
        site.configure(mpm, "<IfModule prefork.c>\nMaxRequestWorkers 4\n</IfModule>\nKeepAliveTimeout 60");
        let server = Start::new(&site, mpm).limit_files(32).run();
        server.allow("cannot accept a connection");
        server.allow("Too many open files");
        let mut held: Vec<Client> = (0..100).map(|_| server.client()).collect();
        for client in &mut held {
            client.send("GET / HTTP/1.1\r\nHost: ");
        }
        if !mpm.is_one_connection_a_process() {
            server.logged("cannot accept a connection");
        }
        drop(held);
        // Threads close what they held in their own time; until then a file may not be opened.
        server.allow("AH00132: file permissions deny server access");
        until("it serves again", || (server.get("/").text() == "hello\n").then_some(()));
    }

    /// A log on a full disk does not stop the service.
    fn the_disk_of_the_logs_is_full(mpm: Mpm) {
        let site = site();
        let logs = "ErrorLog /dev/full\n<IfModule log_config_module>\nCustomLog /dev/full \"%r\"\n</IfModule>";
        let server = Server::start(mpm, &site, logs);
        let mut client = server.client();
        for _ in 0..20 {
            assert_eq!(client.get("/").status, 200);
            assert_eq!(client.get("/none").status, 404);
        }
        assert_eq!(server.client().request("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n").status, 400);
    }

    /// Clients that vanish in any state leave nothing open.
    fn clients_may_vanish_at_any_time(mpm: Mpm) {
        let site = site();
        site.page("large", vec![b'x'; 8 << 20]);
        let server = Server::start(mpm, &site, "");
        let requests = [
            "",
            "G",
            "GET / HTTP/1.1\r\nHost: loc",
            "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\nabc",
            "POST /a.txt HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            "GET / HTTP/1.1\r\n\r\n",
        ];
        for round in 0..5 {
            for request in requests {
                let mut client = server.client();
                client.send(request);
                if round % 2 == 0 {
                    client.half_close();
                }
            }
        }
        assert_eq!(server.get("/").text(), "hello\n");
    }
}
