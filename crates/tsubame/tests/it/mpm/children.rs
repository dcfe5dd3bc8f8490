//! Children that are killed or stopped: only those notice whom they serve.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::descriptors;
use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};
use crate::mpm::load::{Failure, Load};

/// A child that lived less than this died young: its successors may be held back.
const YOUNG: Duration = Duration::from_millis(1100);
/// How long a test is with `TSUBAME_LONG`.
const LONG: Duration = Duration::from_secs(60);

fn site() -> Site {
    Site::with([("index.html", "hello\n"), ("a.txt", "0123456789")])
}

/// Several children, each of which can serve all clients; no connection ends for lack of a request.
fn several(mpm: Mpm) -> String {
    let number = match mpm {
        Mpm::Percore => "",
        Mpm::Prefork => "StartServers 10\nMaxSpareServers 20\nMaxRequestWorkers 20",
        Mpm::Worker | Mpm::Event => {
            "StartServers 4\nThreadsPerChild 8\nMinSpareThreads 8\nMaxSpareThreads 64\nMaxRequestWorkers 64\n\
             <IfModule event.c>\nAsyncRequestWorkerFactor 10\n</IfModule>"
        }
    };
    format!("{number}\nKeepAliveTimeout 300\nTimeout 300\n")
}

fn process(child: i32) -> Pid {
    Pid::new(child).expect("pid")
}

/// A child that hangs, until this is dropped.
struct Stopped(i32);

impl Stopped {
    /// Stops a child, all threads of it.
    fn new(child: i32) -> Stopped {
        process(child).kill(Signal::STOP).expect("stop");
        until("all threads are stopped", || {
            let tasks = std::fs::read_dir(format!("/proc/{child}/task")).into_iter().flatten().flatten();
            let stats = tasks.map(|task| std::fs::read_to_string(task.path().join("stat")).unwrap_or_default());
            let mut states = stats.map(|stat| stat.rsplit(") ").next().unwrap_or_default().chars().next());
            states.all(|state| state == Some('T')).then_some(())
        });
        Stopped(child)
    }

    /// The clients whose connections it holds.
    fn clients(&self) -> BTreeSet<SocketAddr> {
        descriptors::clients_of(process(self.0))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = process(self.0).kill(Signal::CONT);
    }
}

fn any_of(children: &[i32]) -> Option<i32> {
    let random = RandomState::new().hash_one(0);
    (!children.is_empty()).then(|| children[(random % children.len() as u64) as usize])
}

/// Children are killed one after the other.
struct Killer<'a> {
    server: &'a Server<'a>,
    /// When each child was seen first.
    seen: BTreeMap<i32, Instant>,
    /// The connections of the killed children at the moment of their death.
    held: Vec<SocketAddr>,
}

impl Killer<'_> {
    /// Kills any child but the last one; returns how many connections died with it. A child is stopped first, so that it is
    /// known exactly whom it serves. No child is killed as soon as it starts: its successor would be held back.
    fn kill(&mut self) -> usize {
        let victim = until("a child that is old enough, and another one", || {
            let now = self.server.children();
            for child in &now {
                self.seen.entry(*child).or_insert_with(Instant::now);
            }
            let old: Vec<i32> = now.iter().copied().filter(|child| self.seen[child].elapsed() > YOUNG).collect();
            any_of(&old).filter(|_| now.len() > 1)
        });
        let stopped = Stopped::new(victim);
        let held = stopped.clients();
        process(victim).kill(Signal::KILL).expect("kill");
        until("its end", || (!self.server.children().contains(&victim)).then_some(()));
        self.held.extend(&held);
        held.len()
    }

    /// The failures that no death of a serving process explains. Each connection dies once.
    fn unexplained(mut self, failures: Vec<Failure>) -> Vec<Failure> {
        let mut is_explained = |failure: &Failure| {
            let at = self.held.iter().position(|client| Some(*client) == failure.client);
            at.map(|at| self.held.swap_remove(at)).is_some()
        };
        failures.into_iter().filter(|failure| !is_explained(failure)).collect()
    }
}

/// The child that has a connection.
fn holder(server: &Server<'_>, client: &Client) -> i32 {
    until("a child with the connection", || descriptors::holder_of(client.address(), server.children()))
}

under_every_mpm! {
    /// Only clients of a killed child notice its death, and each killed child gets a successor.
    fn only_clients_of_killed_children_notice(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &(several(mpm) + "MaxKeepAliveRequests 30"));
        server.announce("exit signal Killed (9)");
        let before = server.children().len();
        let load = Load::start(server.address(), 8);
        let mut killer = Killer { server: &server, seen: BTreeMap::new(), held: Vec::new() };
        let begun = Instant::now();
        let is_long = std::env::var_os("TSUBAME_LONG").is_some();
        let mut hits = 0;
        while if is_long { begun.elapsed() < LONG } else { hits < 3 } {
            load.goes_on(100);
            hits += usize::from(killer.kill() > 0);
        }
        until("as many children as before", || (server.children().len() >= before).then_some(()));
        load.goes_on(500);
        let failures = load.end_with_every_loss();
        let unexplained = killer.unexplained(failures);
        assert!(unexplained.is_empty(), "{unexplained:#?}");
        assert!(hits > 0);
    }

    /// A child that hangs delays only its own clients, even if all children but one hang.
    fn stopped_children_hold_nobody_up(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &several(mpm));
        let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200));
        let serves = holder(&server, &clients[0]);
        let others: Vec<i32> = server.children().into_iter().filter(|child| *child != serves).collect();
        let stopped: Vec<Stopped> = others.iter().map(|child| Stopped::new(*child)).collect();
        let held: BTreeSet<SocketAddr> = stopped.iter().flat_map(Stopped::clients).collect();
        let (mut waiting, mut served): (Vec<Client>, Vec<Client>) =
            clients.into_iter().partition(|client| held.contains(&client.address()));
        waiting.iter_mut().for_each(|client| client.send(get("/a.txt")));
        if mpm.is_one_connection_a_process() {
            // The only remaining child serves another client when it has none.
            served.clear();
        }
        // If a connection needs neither a process nor a thread, connections stay open: a busy child lets others go
        // first.
        let stay = matches!(mpm, Mpm::Percore | Mpm::Event);
        let mut staying = Vec::new();
        for _ in 0..60 {
            let mut client = server.client();
            assert_eq!(client.get("/a.txt").status, 200);
            staying.extend(stay.then_some(client));
            served.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
        }
        assert!(server.children().is_superset(&others.iter().copied().collect()));
        drop(stopped);
        waiting.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        drop((waiting, served, staying));
        until("a child that was stopped accepts again", || {
            let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
            clients.iter_mut().for_each(|client| client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n"));
            let serves = others.iter().any(|child| !descriptors::clients_of(process(*child)).is_empty());
            clients.iter_mut().for_each(|client| assert_eq!(client.request("\r\n").status, 200));
            serves.then_some(())
        });
    }
}
