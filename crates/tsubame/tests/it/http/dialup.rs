//! Answers that go out no faster than they may (mod_dialup, mod_ratelimit).

use std::time::{Duration, Instant};

use crate::harness::mpm::under_percore_and;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::get;

/// One worker for all requests, wherever there are workers.
const LINES: &str = "<IfModule prefork.c>\nStartServers 5\nMaxRequestWorkers 5\n</IfModule>\n\
    <IfModule worker.c>\nStartServers 1\nThreadsPerChild 5\nMaxRequestWorkers 5\nMinSpareThreads 1\n</IfModule>\n\
    <IfModule event.c>\nStartServers 1\nThreadsPerChild 1\nMaxRequestWorkers 1\nMinSpareThreads 1\n\
    AsyncRequestWorkerFactor 100\n</IfModule>\n<Location /slow>\nModemStandard V.26bis\n</Location>";

under_percore_and! { prefork:
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
        // The connection stays open, and answers other than files are not paced.
        assert_eq!(slow[0].get("/slow/none").status, 404);
    }

    /// 4 KiB per second, after 1 KiB that is free: the client never has more than that, and gets all of it. Only a
    /// minimum of the whole time is checked, because a busy machine may make anything slower.
    fn an_answer_goes_out_no_faster_than_it_may(mpm: Mpm) {
        const RATE: f64 = 4096.0;
        const BURST: f64 = 1024.0;
        const SIZE: usize = 7 * 1024;
        // The length of one pulse; there are two in a second.
        const PULSE: f64 = 0.5;
        let site = Site::new();
        site.page("a.txt", "x".repeat(SIZE));
        let lines = "SetOutputFilter RATE_LIMIT\nSetEnv rate-limit 4\nSetEnv rate-initial-burst 1";
        let server = Server::start(mpm, &site, lines);
        let start = Instant::now();
        let mut client = server.client();
        client.send(get("/a.txt"));
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(client.bytes(1));
        }
        let mut had = 0;
        while had < SIZE {
            had += client.bytes(512).len();
            let may = BURST + RATE * (start.elapsed().as_secs_f64() + PULSE);
            assert!(had as f64 <= may, "{had} bytes, of {may} at most");
        }
        // The free part and the first pulse are sent at once; two more pulses take the second.
        let took = start.elapsed();
        assert!((Duration::from_secs(1)..Duration::from_secs(20)).contains(&took), "{took:?}");
    }
}
