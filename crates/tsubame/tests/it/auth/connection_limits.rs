//! How many connections a client may have open: `ClientLimitConnections`.

use std::net::TcpStream;

use sys::process::Pid;
use sys::signal::Signal;

use crate::cli::ctl::ctl;
use crate::harness::mpm::under_every_mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

fn site() -> Site {
    let site = Site::new();
    site.page("page", "hello\n");
    site
}

const REQUEST: &str = "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A connection that stays open after its first request; `None`: it was closed before.
fn open(server: &Server<'_>, announced: &str) -> Option<Client> {
    let mut client = Client::over(TcpStream::connect(server.address()).ok()?);
    client.send(format!("{announced}{REQUEST}"));
    client.try_response_to("GET").ok().map(|response| {
        assert_eq!(response.status, 200);
        client
    })
}

/// Opens so many connections.
fn several(server: &Server<'_>, count: usize) -> Vec<Client> {
    (0..count).map(|_| open(server, "").expect("a connection")).collect()
}

/// The next connection is closed; the system resets it, because what the client has sent is not read.
fn refused(server: &Server<'_>) {
    let mut client = server.client();
    client.send(REQUEST);
    assert_eq!(String::from_utf8_lossy(&client.rest().0), "");
}

under_every_mpm! {
    /// A client has as many as it may, whoever serves them, and gets the next one when it has closed one.
    fn further_connections_are_closed(mpm: Mpm) {
        let site = site();
        let server = Server::start(
            mpm,
            &site,
            "ClientLimitConnections 3\nClientLimitConnections 2 by=network only-log\nLogLevel client_limit:info\n\
             <Location /metrics>\nSetHandler metrics\n</Location>\nKeepAliveTimeout 300\n",
        );
        server.allow("ClientLimitConnections");
        server.allow("reached MaxRequestWorkers");
        let mut clients = several(&server, 3);
        for _ in 0..5 {
            refused(&server);
        }
        let (text, ..) = ctl(&site, &["explain", "/page"]);
        assert!(text.contains("ClientLimitConnections 3: 127.0.0.1 has "), "{text}");
        server.logged("ClientLimitConnections 3 refuses 127.0.0.1 a connection beside 3 others");
        server.logged("ClientLimitConnections 2 would refuse 127.0.0.1 a connection beside 2 others");
        for _ in 0..4 {
            clients.remove(0);
            clients.push(until("a place", || open(&server, "")));
            refused(&server);
        }
        let metrics = clients[0].get("/metrics").text();
        let counted = |outcome: &str| {
            let name = format!("tsubame_client_limit_connections_total{{outcome=\"{outcome}\"}} ");
            metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<usize>().ok()).expect("a count")
        };
        assert!(counted("refused") >= 9 && counted("logged") >= 5, "{metrics}");
        drop(clients);
        until("all places", || {
            let clients: Vec<_> = (0..3).filter_map(|_| open(&server, "")).collect();
            (clients.len() == 3).then_some(())
        });
    }

    /// Connections of a child that was killed are nobody's any more; those of other children still count.
    fn the_dead_have_no_connections(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "ClientLimitConnections 4\nKeepAliveTimeout 300\n");
        server.announce("exit signal Killed (9)");
        server.allow("children die as soon as they start");
        server.allow("reached MaxRequestWorkers");
        let clients = several(&server, 4);
        refused(&server);
        for round in 0..2 {
            let before = server.children();
            // In the first round one of them, with what it has.
            for child in before.iter().take(if round == 0 { 1 } else { before.len() }) {
                let _ = Pid::new(*child).expect("a pid").kill(Signal::KILL);
            }
            until("another child", || server.children().iter().any(|child| !before.contains(child)).then_some(()));
        }
        drop(clients);
        let clients = until("as many connections as before", || {
            let clients: Vec<_> = (0..4).filter_map(|_| open(&server, "")).collect();
            (clients.len() == 4).then_some(clients)
        });
        refused(&server);
        drop(clients);
    }

    /// A client behind a proxy is the one that the proxy announces; the proxy itself, and whoever is excepted, has no limit.
    fn announced_clients_are_counted(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, "ClientLimitConnections 1 except=192.0.2.9\nRemoteIPProxyProtocol On\nKeepAliveTimeout 300\n");
        server.allow("reached MaxRequestWorkers");
        let announced = |client: &str| format!("PROXY TCP4 {client} 192.0.2.100 4000 80\r\n");
        let first = open(&server, &announced("192.0.2.1")).expect("a connection");
        assert!(open(&server, &announced("192.0.2.1")).is_none());
        let others: Vec<_> = ["192.0.2.2", "192.0.2.9", "192.0.2.9"].map(|client| open(&server, &announced(client))).into();
        assert!(others.iter().all(Option::is_some));
        let proxies: Vec<_> = (0..2).map(|_| open(&server, "PROXY UNKNOWN\r\n")).collect();
        assert!(proxies.iter().all(Option::is_some));
        drop(first);
        until("a place", || open(&server, &announced("192.0.2.1")));
    }
}
