//! More clients than the server has room for: all waiting clients get their turn.

use std::time::Duration;

use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;

/// One child with room for two, where room is a matter of numbers.
fn two(mpm: Mpm) -> &'static str {
    match mpm {
        Mpm::Percore => "",
        Mpm::Prefork => "StartServers 2\nMinSpareServers 1\nMaxRequestWorkers 2",
        Mpm::Worker | Mpm::Event => "StartServers 1\nThreadsPerChild 2\nMinSpareThreads 1\nMaxRequestWorkers 2",
    }
}

under_every_mpm! {
    /// Clients that never finish their requests hold all workers until they time out; then the waiting clients are
    /// served.
    fn slow_clients_lose_their_place(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let limits = ["RequestReadTimeout header=1", "RequestReadTimeout header=0\nTimeout 1"];
        let count = if std::env::var_os("TSUBAME_LONG").is_some() { 2 } else { 1 };
        for limit in &limits[..count] {
            let server = Server::start(mpm, &site, &format!("{}\n{limit}", two(mpm)));
            server.allow("MaxRequestWorkers setting");
            let mut slow: Vec<Client> = (0..2).map(|_| server.client()).collect();
            slow.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: loc"));
            let mut waiting: Vec<Client> = (0..10).map(|_| server.client()).collect();
            for client in &mut waiting {
                client.send("GET / HTTP/1.0\r\n\r\n");
                // Less than half a minute, for which a worker would wait for others than slow clients to close.
                client.patience(Duration::from_secs(20));
            }
            waiting.iter_mut().for_each(|client| assert_eq!(client.response().text(), "hello\n"));
            slow.iter_mut().for_each(|client| assert_eq!(client.response().status, 408));
        }
    }
}
