//! Listening sockets: their number, and the processes that accept from them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::needs;
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};
use crate::mpm::load::{Load, TEXT};

/// A bucket whose children are all busy gets another one: its clients do not wait for others'.
#[test]
fn no_bucket_is_left_alone() {
    if !needs::PROCESSORS.is_there("no_bucket_is_left_alone") {
        return;
    }
    let site = Site::with([("a.txt", TEXT)]);
    let text = "ListenCoresBucketsRatio 1\nStartServers 2\nMinSpareServers 1\nMaxRequestWorkers 20\n\
        RequestReadTimeout header=60";
    let server = Server::start(Mpm::Prefork, &site, text);
    let mut slow = server.client();
    slow.send("GET /a.txt HTTP/1.1\r\nHo");
    for _ in 0..12 {
        assert_eq!(server.get("/a.txt").status, 200);
    }
    slow.send("st: localhost\r\n\r\n");
    assert_eq!(slow.response().status, 200);
}

/// How many sockets listen on an address (proc(5), `/proc/net/tcp`: addresses in hexadecimal, state 0A).
fn listening(address: SocketAddr) -> usize {
    let IpAddr::V4(ip) = address.ip() else { panic!("tests use IPv4") };
    let name = format!("{:08X}:{:04X}", u32::from_le_bytes(ip.octets()), address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("table");
    let is_one = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some(&name) && words.nth(1) == Some("0A")
    };
    table.lines().filter(is_one).count()
}

under_every_mpm! {
    /// `ListenCoresBucketsRatio 1`: a socket for each processor, and children for each. Every client is served,
    /// whichever socket the kernel chose, also after restarts and while children are replaced.
    fn a_bucket_of_sockets_for_each_processor(mpm: Mpm) {
        let site = Site::with([("a.txt", TEXT)]);
        let buckets = sys::affinity::cpus();
        let text = "ListenCoresBucketsRatio 1\nStartServers 1\nMaxConnectionsPerChild 80\nMaxKeepAliveRequests 2";
        let mut server = Server::start(mpm, &site, text);
        server.allow("seems busy");
        assert_eq!(listening(server.address()), buckets);
        until("a child for each", || (server.children().len() >= buckets).then_some(()));
        let load = Load::start(server.address(), 4);
        load.goes_on(300);
        site.configure(mpm, "MaxKeepAliveRequests 2");
        server.restart(Signal::USR1);
        assert_eq!(listening(server.address()), buckets, "as at the first start");
        load.goes_on(300);
        assert_eq!(load.end(), Vec::<String>::new());
    }

    /// Connections do not take the last descriptors: connected clients get files while others wait to be accepted.
    fn descriptors_are_left_for_files(mpm: Mpm) {
        // Under prefork a process has one connection.
        if mpm.is_one_connection_a_process() {
            return;
        }
        let site = Site::with([("index.html", "")]);
        for index in 0..20 {
            site.page(&format!("{index}.txt"), index.to_string());
        }
        site.page("large", vec![b'x'; 8 << 20]);
        site.configure(mpm, "ServerLimit 1\nStartServers 1\nThreadsPerChild 60\nMaxRequestWorkers 60\nRequestReadTimeout header=60\nMaxKeepAliveRequests 0");
        let server = Start::new(&site, mpm).limit_files(64).run();
        server.allow("cannot accept a connection");
        server.allow("server is within MinSpareThreads of MaxRequestWorkers");
        let children = server.children().len();
        let mut held: Vec<Client> = (0..100 * children).map(|_| server.client()).collect();
        let (half, large) = ("GET / HTTP/1.1\r\n", get("/large"));
        for (index, client) in held.iter_mut().enumerate() {
            // Those that only wait for the rest of a head make room after a while, except under worker.
            let stays = mpm != Mpm::Worker && index < 8;
            client.send(if stays { format!("{large}{}", get(&format!("/{index}.txt"))) } else { half.into() });
        }
        server.logged("Too many open files");
        // Nor do those that wait take them one by one, which would need a tenth of a second, or where others leave.
        for index in 0..8 {
            let client = &mut held[index];
            if mpm == Mpm::Worker {
                client.send(format!("Host: localhost\r\n\r\n{}", get(&format!("/{index}.txt"))));
            }
            assert_eq!(client.response().body.len(), if mpm == Mpm::Worker { 0 } else { 8 << 20 });
            assert_eq!(client.response().text(), index.to_string());
            client.hears_nothing_for(Duration::from_millis(40));
            if held.len() > 60 * children {
                held.pop();
            }
        }
    }

    /// Without it there is one socket for all children.
    fn one_socket_otherwise(mpm: Mpm) {
        let site = Site::with([("a.txt", TEXT)]);
        let server = Server::start(mpm, &site, "");
        assert_eq!(listening(server.address()), 1);
    }
}
