//! Faults that only some clients may notice: panics, blocked children, and a lack of descriptors.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use sys::process::Pid;
use sys::rlimit::{self, Bounds, Limit};

use crate::harness::{Client, Server, cases, until};
use crate::server::GATE;

cases! {
    ["prefork", "worker", "event", "percore"]:
        a_panic_ends_one_connection, a_blocked_child_holds_nobody_up, a_child_without_descriptors_holds_nobody_up;
    ["worker", "event"]: a_blocked_worker_holds_nobody_up;
    ["worker", "event", "percore"]: no_descriptors_are_left;
    ["percore"]: an_exit_status_orders_nothing;
}

/// Two children of two threads, and more when these are busy.
const TWO: &str = "start=2 min=1 max=8 workers=16 threads=2";

/// How many thread-blocking connections a child serves at once.
fn threads(mpm: &str) -> usize {
    if matches!(mpm, "worker" | "event") { 2 } else { 1 }
}

fn a_panic_ends_one_connection(mpm: &str) {
    let alone = mpm == "prefork";
    let server = Server::start(mpm, if alone { TWO } else { "start=1 min=1 max=30 workers=30 threads=30" });
    let mut clients: Vec<_> = (0..if alone { 2 } else { 20 }).map(|_| server.connect()).collect();
    let children: Vec<i32> = clients.iter_mut().map(Client::served_by).collect();
    let mut victim = clients.remove(0);
    victim.send("panic");
    assert_eq!(victim.answer(), None);
    let said = match mpm {
        "prefork" => format!("[core:warn] child pid {} exit status 101", children[0]),
        "worker" => "[mpm_worker:crit] a worker thread panicked: its connection is closed, the thread goes on".into(),
        _ => format!("[mpm_{mpm}:crit] a panic: the connection is closed, the child goes on"),
    };
    server.said(&said);
    for (client, child) in clients.iter_mut().zip(&children[1..]) {
        assert_eq!(client.served_by(), *child);
    }
    if alone {
        until("a replacement", || (server.children().len() >= 2).then_some(()));
        // First the connection: a child that is started for it counts, too.
        let serving = server.connect().served_by();
        assert!(server.children().contains(&serving));
    } else {
        // More than there are threads.
        for _ in 0..40 {
            let mut victim = server.connect_to(children[0]);
            victim.send("panic");
            assert_eq!(victim.answer(), None);
        }
        assert_eq!(server.connect_to(children[0]).served_by(), children[0]);
    }
}

/// A conversation that gave up its rights, or panics, still ends with some status: that is no order.
fn an_exit_status_orders_nothing(mpm: &str) {
    let server = Server::start(mpm, TWO);
    let children = server.children();
    let socket = server.directory.join("pid.ctl");
    for status in (1..=127).chain([255]) {
        let mut stream = UnixStream::connect(&socket).expect("connect");
        stream.write_all(&[status]).expect("send");
        assert_eq!(stream.read_to_end(&mut Vec::new()).expect("the end"), 0);
    }
    until("all conversations to be over", || (server.children() == children).then_some(()));
    // First the connection: a child that is started for it counts, too.
    let serving = server.connect().served_by();
    assert!(server.children().contains(&serving));
    assert_eq!(server.says("restart"), None);
}

fn a_blocked_child_holds_nobody_up(mpm: &str) {
    let server = Server::start(mpm, TWO);
    if server.children().len() < 2 {
        return; // There is one processor, and percore needs no second child.
    }
    let path = server.directory.join(GATE);
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    let gate = File::options().read(true).write(true).open(&path).expect("gate");
    let mut first = server.connect();
    let child = first.served_by();
    // Under the others a silent connection takes the place of one to be blocked.
    let mut idle = matches!(mpm, "event" | "percore").then(|| server.connect_to(child));
    let mut blocked = vec![first];
    blocked.extend((1..threads(mpm)).map(|_| server.connect_to(child)));
    for client in &mut blocked {
        client.send("block");
        server.said("blocked");
    }
    idle.iter_mut().for_each(|client| client.send("pid"));
    for _ in 0..40 {
        assert_ne!(server.connect().served_by(), child);
    }
    drop(gate);
    for client in blocked.iter_mut().chain(&mut idle) {
        assert_eq!(client.answer(), Some(child.to_string()));
    }
    drop((blocked, idle));
    server.connect_to(child);
}

fn a_blocked_worker_holds_nobody_up(mpm: &str) {
    let server = Server::start(mpm, "start=1 min=1 max=3 workers=2 threads=2");
    let path = server.directory.join(GATE);
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    let gate = File::options().read(true).write(true).open(&path).expect("gate");
    let mut blocked = server.connect();
    blocked.send("block");
    server.said("blocked");
    // The only child has one more worker, and its listener.
    for _ in 0..40 {
        server.connect().served_by();
    }
    drop(gate);
    assert!(blocked.answer().is_some());
}

fn a_child_without_descriptors_holds_nobody_up(mpm: &str) {
    let server = Server::start(mpm, TWO);
    if server.children().len() < 2 {
        return; // As above.
    }
    let child = server.connect().served_by();
    let pid = Pid::new(child).expect("pid");
    let before = rlimit::get(Limit::Descriptors);
    rlimit::set_of(pid, Limit::Descriptors, Bounds { soft: Some(3), ..before }).expect("limit");
    // Two at a time: a single one may always go to the other child.
    let line = until("a try to accept", || {
        let clients = [server.connect(), server.connect()];
        clients.into_iter().for_each(|mut client| assert_ne!(client.served_by(), child));
        server.says("cannot accept a connection")
    });
    assert!(line.contains(&format!("[mpm_{mpm}:error] (24)Too many open files")), "{line}");
    for _ in 0..40 {
        assert_ne!(server.connect().served_by(), child);
    }
    if mpm == "prefork" {
        until("its end and a replacement", || {
            let children = server.children();
            (children.len() >= 2 && !children.contains(&child)).then_some(())
        });
    } else {
        rlimit::set_of(pid, Limit::Descriptors, before).expect("limit");
        server.connect_to(child);
    }
}

fn no_descriptors_are_left(mpm: &str) {
    let server = Server::start(mpm, "start=1 min=1 max=60 workers=60 threads=60 descriptors=40");
    let children = server.children().len();
    let mut clients: Vec<_> = (0..60 * children).map(|_| server.connect()).collect();
    // A silent client is not accepted.
    clients.iter_mut().for_each(|client| client.send("pid"));
    let line = server.said("cannot accept a connection");
    assert!(line.contains(&format!("[mpm_{mpm}:error] (24)Too many open files")), "{line}");
    // The last in the queue gets its turn when the first ones go.
    let mut last = clients.pop().expect("the last");
    drop(clients);
    assert!(last.answer().is_some());
    server.connect().served_by();
}
