//! Files at the speed of a modem (mod_dialup).

use std::time::{Duration, Instant};

use crate::mpm::under_every_mpm;
use crate::server::Server;
use crate::site::Site;
use crate::wire::get;

/// One worker for all requests, wherever there are workers.
const LINES: &str = "<IfModule prefork.c>\nStartServers 5\nMaxRequestWorkers 5\n</IfModule>\n\
    <IfModule worker.c>\nStartServers 1\nThreadsPerChild 5\nMaxRequestWorkers 5\nMinSpareThreads 1\n</IfModule>\n\
    <IfModule event.c>\nStartServers 1\nThreadsPerChild 1\nMaxRequestWorkers 1\nMinSpareThreads 1\n\
    AsyncRequestWorkerFactor 100\n</IfModule>\n<Location /slow>\nModemStandard V.26bis\n</Location>";

under_every_mpm! {
    /// 300 bytes in a second, each half second a half of it; meanwhile others are served.
    fn a_file_goes_out_at_its_pace(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let text = "0123456789".repeat(45);
        site.page("slow/a.txt", &text);
        let server = Server::start(mpm, &site, LINES);
        let start = Instant::now();
        let mut slow: Vec<_> = (0..4).map(|_| server.client()).collect();
        slow.iter_mut().for_each(|client| client.send(get("/slow/a.txt")));
        assert_eq!(server.get("/").text(), "hello\n");
        let others = start.elapsed();
        for client in &mut slow {
            assert_eq!(client.response().text(), text);
            let took = start.elapsed();
            assert!(took >= Duration::from_secs(1), "{took:?}");
        }
        assert!(others < Duration::from_secs(1), "{others:?}");
        // The connection stays, and what is no file has no pace.
        assert_eq!(slow[0].get("/slow/none").status, 404);
    }
}
