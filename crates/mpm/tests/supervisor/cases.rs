//! The requirements, each as a test.

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::{Server, cases, kill, until, well};

cases! {
    ["prefork", "worker", "event", "percore"]:
        serves_and_ends, a_killed_child_is_replaced, a_broken_configuration_changes_nothing,
        a_graceful_restart_finishes_requests, a_restart_ends_all_children, a_graceful_stop_finishes_requests,
        a_graceful_stop_has_an_end, restarts_in_a_row, a_killed_parent_leaves_nothing,
        children_that_die_young_are_held_back, children_are_recycled, one_process, a_stale_pid_file_is_reported;
    ["prefork"]: the_number_of_children_follows_the_idle_ones, the_limit_is_reached_once,
        a_generation_is_replaced_as_large_as_it_was;
    ["prefork", "worker"]: nobody_waits_for_the_next_look;
    ["percore"]: an_acceptor_that_goes_on_shares_no_looks;
    ["worker", "event"]: the_number_of_children_follows_the_idle_threads, the_limit_of_threads_is_reported;
}

/// At least two children, where the number can be chosen.
const TWO: &str = "start=2 min=1 max=5 workers=8";

fn serves_and_ends(mpm: &str) {
    let mut server = Server::start(mpm, TWO);
    let mut client = server.connect();
    let first = client.served_by();
    assert_eq!(first, client.served_by(), "the connection stays with its child");
    assert!(server.children().contains(&first));
    assert_eq!(std::fs::read_to_string(server.pid_file()).ok(), Some(format!("{}\n", server.pid())));
    let title = std::fs::read_to_string(format!("/proc/{first}/cmdline")).expect("title");
    assert!(
        title.starts_with(&format!("tsubame-test: mpm_{mpm} child")[..title.trim_end_matches('\0').len()]),
        "{title}"
    );
    let children = server.children();
    server.signal(Signal::TERM);
    assert!(well(server.ended()));
    server.said("caught SIGTERM, shutting down");
    assert_eq!(client.answer(), None);
    assert!(!server.pid_file().exists());
    assert!(children.iter().all(|pid| !Pid::new(*pid).expect("pid").exists()), "all were reaped");
}

/// Between two batches of new connections the reactor looks for events although nothing has waited: the service learns
/// of it.
fn an_acceptor_that_goes_on_shares_no_looks(mpm: &str) {
    let server = Server::start(mpm, TWO);
    let children = server.children();
    children.iter().for_each(|child| kill(*child, Signal::STOP));
    let mut clients: Vec<_> = (0..100).map(|_| server.connect()).collect();
    children.iter().for_each(|child| kill(*child, Signal::CONT));
    server.said("others first");
    assert!(clients.iter_mut().all(|client| children.contains(&client.served_by())));
}

fn a_killed_child_is_replaced(mpm: &str) {
    let server = Server::start(mpm, TWO);
    let (mut one, mut two) = (server.connect(), server.connect());
    let (first, mut second) = (one.served_by(), two.served_by());
    let mut more = Vec::new();
    while second == first && server.children().len() > 1 {
        // One child may have been given both connections.
        more.push(std::mem::replace(&mut two, server.connect()));
        second = two.served_by();
        assert!(more.len() < 500, "the other child gets nothing");
    }
    let count = server.children().len();
    kill(first, Signal::KILL);
    server.said(&format!("AH00052: child pid {first} exit signal Killed (9)"));
    until("a replacement", || (server.children().len() >= count && !server.children().contains(&first)).then_some(()));
    assert_eq!(one.answer(), None);
    if second != first {
        assert_eq!(two.served_by(), second, "the other child noticed nothing");
    }
    assert_ne!(server.connect().served_by(), first);
}

fn a_broken_configuration_changes_nothing(mpm: &str) {
    let server = Server::start(mpm, TWO);
    let mut client = server.connect();
    let child = client.served_by();
    let reload = server.directory.join("reload");
    for signal in [Signal::USR1, Signal::HUP] {
        std::fs::write(&reload, "AH00526: Syntax error on line 1 of x:\nInvalid command 'Bogus'\n").expect("write");
        server.signal(signal);
        server.said("[core:error] AH00526: Syntax error on line 1 of x:");
        server.said("[core:error] Invalid command 'Bogus'");
        server.said("the new configuration is not used");
        assert_eq!(client.served_by(), child);
        // First the connection: a child that is started for it counts, too.
        let serving = server.connect().served_by();
        assert!(server.children().contains(&serving));
    }
    std::fs::remove_file(&reload).expect("remove");
    server.signal(Signal::USR1);
    server.said("resuming normal operations");
    // A child of the old generation may still accept, answer and end; one that is started for the connection counts, too.
    let mut children = server.children();
    let serving = server.connect().served_by();
    children.extend(server.children());
    assert!(children.contains(&serving));
}

fn a_graceful_restart_finishes_requests(mpm: &str) {
    let server = Server::start(mpm, TWO);
    let (mut busy, mut idle) = (server.connect(), server.connect());
    let old = server.children();
    let (busy_child, idle_child) = (busy.served_by(), idle.served_by());
    busy.send("wait");
    server.signal(Signal::USR1);
    server.said("resuming normal operations");
    let child = until("a new child", || Some(server.connect().served_by()).filter(|child| !old.contains(child)));
    assert!(server.children().contains(&child));
    // Neither a request on its way nor a client that was about to send one loses its answer.
    busy.send("");
    assert_eq!(busy.last_answer(), Some(busy_child));
    idle.send("pid");
    assert_eq!(idle.last_answer(), Some(idle_child));
    assert_eq!((busy.answer(), idle.answer()), (None, None));
    until("the end of the old generation", || old.is_disjoint(&server.children()).then_some(()));
}

fn a_restart_ends_all_children(mpm: &str) {
    let server = Server::start(mpm, TWO);
    let mut client = server.connect();
    client.served_by();
    client.send("wait");
    let old = server.children();
    server.signal(Signal::HUP);
    server.said("SIGHUP received.  Attempting to restart");
    server.said("resuming normal operations");
    assert_eq!(client.answer(), None);
    assert!(!old.contains(&server.connect().served_by()));
    assert!(old.is_disjoint(&server.children()));
}

fn a_graceful_stop_finishes_requests(mpm: &str) {
    let mut server = Server::start(mpm, TWO);
    let mut client = server.connect();
    let child = client.served_by();
    client.send("wait");
    server.signal(Signal::WINCH);
    server.said("AH00096: removed PID file");
    server.said("caught SIGWINCH, shutting down gracefully");
    assert!(!server.pid_file().exists());
    until("only the busy child", || (server.children().len() == 1).then_some(()));
    client.send("");
    assert_eq!(client.last_answer(), Some(child));
    assert_eq!(client.answer(), None);
    assert!(well(server.ended()));
}

fn a_graceful_stop_has_an_end(mpm: &str) {
    let mut server = Server::start(mpm, "start=1 timeout=1");
    let mut client = server.connect();
    client.served_by();
    client.send("wait");
    server.signal(Signal::WINCH);
    assert!(well(server.ended()));
    assert_eq!(client.answer(), None);
}

fn restarts_in_a_row(mpm: &str) {
    let mut server = Server::start(mpm, TWO);
    // Connections that keep their children alive over all generations, and requests meanwhile.
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut client = server.connect_to_stay();
        client.send("wait");
        held.push(client);
        server.signal(Signal::USR1);
        server.said("resuming normal operations");
        // The others count finishing children against their limit; there is always one new child.
        if mpm == "percore" {
            server.connect().served_by();
        }
        if held.len() > 5 {
            let mut oldest = held.remove(0);
            oldest.send("");
            assert!(oldest.last_answer().is_some());
        }
    }
    server.connect().served_by();
    server.signal(Signal::TERM);
    assert!(well(server.ended()));
}

fn a_killed_parent_leaves_nothing(mpm: &str) {
    let mut server = Server::start(mpm, TWO);
    server.connect().served_by();
    let children = server.children();
    server.signal(Signal::KILL);
    server.ended();
    until("the end of all children", || {
        children.iter().all(|pid| !Pid::new(*pid).expect("pid").exists()).then_some(())
    });
}

fn children_that_die_young_are_held_back(mpm: &str) {
    let mut server = Server::start(mpm, "start=1 workers=1 stillborn=1");
    server.said("exit status 1");
    let line = server.said("children die as soon as they start; the next one starts in");
    assert!(line.ends_with(" 1 s"), "{line}");
    let line = server.said("children die as soon as they start; the next one starts in");
    assert!(line.ends_with(" 2 s"), "{line}");
    server.signal(Signal::TERM);
    assert!(well(server.ended()));
}

fn children_are_recycled(mpm: &str) {
    let server = Server::start(mpm, "start=1 min=1 max=2 workers=2 connections=3");
    let mut seen = std::collections::BTreeSet::new();
    until("three children one after the other", || {
        seen.insert(server.connect().served_by());
        (seen.len() >= 3).then_some(())
    });
    assert!(server.children().len() <= 4);
}

fn one_process(mpm: &str) {
    let mut server = Server::start(mpm, "one_process=1");
    assert_eq!(server.connect().served_by(), server.pid().number());
    assert!(server.children().is_empty() && server.pid_file().exists());
    server.signal(Signal::INT);
    assert!(well(server.ended()));
    assert!(!server.pid_file().exists());
}

fn a_stale_pid_file_is_reported(mpm: &str) {
    let mut server = Server::start(mpm, TWO);
    let directory = server.directory.clone();
    server.signal(Signal::KILL);
    server.ended();
    let text = std::fs::read_to_string(server.pid_file()).expect("it stays");
    let second = Server::launch_in(mpm, &directory, TWO);
    let line = second.said("AH00098: pid file");
    assert!(line.contains("overwritten -- Unclean shutdown of previous Apache run?"), "{line}");
    second.said("resuming normal operations");
    assert_ne!(std::fs::read_to_string(second.pid_file()).expect("written"), text);
}

fn the_number_of_children_follows_the_idle_ones(mpm: &str) {
    let server = Server::start(mpm, "start=1 min=4 max=6 workers=20");
    // 1, 2, 4.
    server.has_children(4);
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| {
        client.served_by();
    });
    until("four idle ones beside four busy ones", || (server.children().len() >= 8).then_some(()));
    drop(clients);
    server.has_children(6);
}

fn the_limit_is_reached_once(mpm: &str) {
    let server = Server::start(mpm, "start=1 min=1 max=2 workers=2");
    let mut clients = [server.connect(), server.connect()];
    clients.iter_mut().for_each(|client| {
        client.served_by();
    });
    server.said("[mpm_prefork:error] AH00161: server reached MaxRequestWorkers setting, consider raising");
    assert_eq!(server.children().len(), 2);
    // A third client waits for one of the two.
    let mut third = server.connect();
    third.send("pid");
    let [first, _second] = &mut clients;
    let free = first.served_by();
    drop(clients);
    let served: i32 = third.answer().and_then(|line| line.parse().ok()).expect("an answer");
    assert!(served == free || server.children().contains(&served));
}

fn the_number_of_children_follows_the_idle_threads(mpm: &str) {
    let server = Server::start(mpm, "start=1 min=5 max=8 workers=40");
    // 2 threads, 4, 8.
    server.has_children(4);
    let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("wait"));
    until("five idle threads beside six busy ones", || (server.children().len() >= 6).then_some(()));
    drop(clients);
    server.has_children(4);
}

fn a_generation_is_replaced_as_large_as_it_was(mpm: &str) {
    let server = Server::start(mpm, "start=1 min=1 max=30 workers=60");
    let mut clients: Vec<_> = (0..16).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| {
        client.served_by();
    });
    let old = server.children();
    assert!(old.len() >= 16);
    // Idle children count as well: a burst of clients finds as many as before.
    drop(clients);
    server.signal(Signal::USR1);
    server.said("resuming normal operations");
    // One may have been let go since as one too many.
    let new = server.children().difference(&old).count();
    assert!(new + 2 >= old.len(), "{new} instead of {}", old.len());
}

fn nobody_waits_for_the_next_look(mpm: &str) {
    // One child and one more each second, then two, four, eight: that would take four seconds.
    let server = Server::start(mpm, "start=1 min=1 max=60 workers=60");
    let begun = std::time::Instant::now();
    let mut clients: Vec<_> = (0..28).map(|_| server.connect()).collect();
    let mut another = server.connect();
    clients.iter_mut().for_each(|client| client.send("wait"));
    another.served_by();
    assert!(begun.elapsed() < std::time::Duration::from_secs(3), "{:?}", begun.elapsed());
}

fn the_limit_of_threads_is_reported(mpm: &str) {
    let server = Server::start(mpm, "start=1 min=3 max=9 workers=2");
    let words =
        ["server is within MinSpareThreads of MaxRequestWorkers, consider raising", "server reached MaxRequestWorkers"];
    let numbers = if mpm == "worker" { ["AH00287", "AH00286"] } else { ["AH10159", "AH00484"] };
    server.said(&format!("[mpm_{mpm}:error] {}: {}", numbers[0], words[0]));
    let mut clients = [server.connect(), server.connect()];
    clients.iter_mut().for_each(|client| client.send("wait"));
    server.said(&format!("[mpm_{mpm}:error] {}: {}", numbers[1], words[1]));
    // A third client waits for one of the two.
    let mut third = server.connect();
    third.send("pid");
    drop(clients);
    assert!(third.answer().is_some());
}
