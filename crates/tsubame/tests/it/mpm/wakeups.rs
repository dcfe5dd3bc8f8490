//! A connection wakes one child of those that sleep, and that one serves it, or sees to it that another one does.

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

fn site() -> Site {
    Site::with([("a.txt", "0123456789")])
}

/// Many children that have nothing to do; of percore there is one for each processor.
fn idle(mpm: Mpm) -> (&'static str, usize) {
    match mpm {
        Mpm::Percore => ("", sys::affinity::cpus()),
        Mpm::Prefork => ("StartServers 20\nMinSpareServers 20\nMaxSpareServers 40\n", 20),
        Mpm::Worker | Mpm::Event => (
            "ServerLimit 8\nStartServers 8\nThreadsPerChild 2\nMinSpareThreads 16\nMaxSpareThreads 32\nMaxRequestWorkers 16\n",
            8,
        ),
    }
}

fn process(child: i32) -> Pid {
    Pid::new(child).expect("pid")
}

/// All children, once they are there.
fn children(server: &Server<'_>, number: usize) -> Vec<i32> {
    let all = || Some(server.children()).filter(|children| children.len() >= number);
    until("all children", all).into_iter().collect()
}

/// The state of each thread of a process, from `/proc`.
fn threads(child: i32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{child}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok()).collect()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
}

/// How often the threads of these children went to sleep until now, when all of them sleep.
fn rests(children: &[i32]) -> u64 {
    until("all children sleep", || {
        let threads: Vec<String> = children.iter().flat_map(|child| threads(*child)).collect();
        let asleep = threads.iter().all(|status| field(status, "State:").starts_with('S'));
        let count = |status: &String| field(status, "voluntary_ctxt_switches:").parse::<u64>().expect("number");
        asleep.then(|| threads.iter().map(count).sum())
    })
}

/// A process that does nothing, until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: Pid) -> Stopped {
        pid.kill(Signal::STOP).expect("stop");
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill(Signal::CONT);
    }
}

/// From now on all of it runs on one processor, so that what wakes somebody goes on for a moment.
fn on_one_processor(server: &Server<'_>, children: &[i32]) {
    let on_one = |option: &str, number: &str| {
        let done = std::process::Command::new("taskset").args([option, "0", number]).output().expect("taskset");
        assert!(done.status.success(), "{done:?}");
    };
    let own = std::fs::read_link("/proc/thread-self").expect("a thread");
    on_one("-cp", &own.file_name().unwrap_or_default().to_string_lossy());
    on_one("-acp", &server.pid().to_string());
    children.iter().for_each(|child| on_one("-acp", &child.to_string()));
}

fn ask(client: &mut Client) {
    client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
}

under_every_mpm! {
    /// Idle children sleep on while another one accepts.
    fn a_connection_wakes_one_child(mpm: Mpm) {
        const CONNECTIONS: u64 = 50;
        let site = site();
        let (configuration, number) = idle(mpm);
        let server = Server::start(mpm, &site, configuration);
        let children = children(&server, number);
        let _parent = Stopped::new(server.pid());
        let before = rests(&children);
        for _ in 0..CONNECTIONS {
            let mut client = server.client();
            ask(&mut client);
            assert_eq!(client.response().status, 200);
            client.expect_end();
        }
        let slept = rests(&children) - before;
        // The listener of worker wakes a thread. If the previous thread is still running, the wake-up is unnecessary.
        let each = if mpm == Mpm::Worker { 2 } else { 1 };
        let most = CONNECTIONS * each * 3 / 2;
        assert!(slept <= most, "{slept} sleeps, not {most}");
    }

    /// The kernel wakes one child for a connection. If that child is about to leave, the others sleep on: the
    /// connection must not wait for the next one.
    fn a_child_that_leaves_leaves_no_connection_behind(mpm: Mpm) {
        let site = site();
        let (configuration, number) = idle(mpm);
        let server = Server::start(mpm, &site, configuration);
        let children = children(&server, number);
        on_one_processor(&server, &children);
        // Nobody is replaced: a new child would find the connection.
        let _parent = Stopped::new(server.pid());
        // The one that has waited longest is woken, and the last one stays.
        for first in children.iter().take(number - 1) {
            let mut client = server.client();
            ask(&mut client);
            process(*first).kill(Signal::USR1).expect("order");
            assert_eq!(client.response().status, 200);
        }
    }
}
