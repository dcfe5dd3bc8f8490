//! The scoreboard, whole at every instruction.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::layout::WorkerField;
use super::*;

fn board(processes: usize, workers: usize) -> &'static Board {
    Box::leak(Box::new(Board::new(processes, workers, false).expect("memory")))
}

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

fn begin(row: &Row, so_far: Traffic, client: IpAddr, vhost: &str, request: &str, protocol: &str) {
    row.describe(client, &RowTexts::new(protocol.as_bytes(), vhost.as_bytes(), request.as_bytes()));
    row.begin(so_far, sys::time::realtime());
}

fn answered(status: u16, bytes: u64, took: Duration) -> ServedRequest {
    ServedRequest {
        status,
        sent: bytes,
        received: 0,
        took,
        ended: sys::time::realtime(),
        watches: false,
        repeated: false,
        prepared: false,
    }
}

#[test]
fn a_request_from_begin_to_finish() {
    let board = board(4, 2);
    assert_eq!(board.free_slot(), Some(0));
    board.claim(0, 3, 2);
    assert_eq!((board.life(0), board.free_slot(), board.idle_workers(0)), (ChildState::Starting, Some(1), 2));
    let workers = Workers::start(board, 0, Rows::OfRequests);
    let slot = workers.acquire();
    assert_eq!((board.life(0), board.idle_workers(0)), (ChildState::Running, 1));
    begin(&slot, Traffic { accesses: 4, bytes: 100 }, CLIENT, "example:80", "GET / HTTP/1.1", "http/1.1");
    slot.finish(ServedRequest { received: 20, ..answered(200, 30, Duration::from_millis(3)) });
    let seen = board.snapshot();
    let worker = &seen.processes[0].workers[0];
    assert_eq!((worker.state, worker.accesses, worker.bytes), (State::Write, [5, 1, 1], [150, 50, 50]));
    assert_eq!((worker.took, worker.duration), (3000, 3000));
    let texts = [&worker.client, &worker.vhost, &worker.request, &worker.protocol];
    assert_eq!(texts, ["192.0.2.1", "example:80", "GET / HTTP/1.1", "http/1.1"]);
    assert_eq!((seen.processes[0].bytes, seen.processes[0].received), (50, 20));
    drop(slot);
    let worker = &board.snapshot().processes[0].workers[0];
    assert_eq!((worker.accesses, worker.bytes), ([0, 1, 1], [0, 50, 50]), "the connection has gone");
    assert_eq!((board.idle_workers(0), seen.processes.len(), seen.processes[0].generation), (2, 1, 3));
}

#[test]
fn a_request_without_a_row_is_counted() {
    let board = board(1, 1);
    board.claim(0, 0, 1);
    let workers = Workers::start(board, 0, Rows::OfRequests);
    let (first, second) = (workers.acquire(), workers.acquire());
    begin(&second, Traffic::default(), CLIENT, "", "unlisted", "");
    second.finish(answered(200, 7, Duration::ZERO));
    assert_eq!(first.index, Some(0));
    let seen = board.snapshot();
    assert_eq!((seen.processes[0].accesses, seen.processes[0].bytes), (1, 7));
    assert_eq!(seen.processes[0].workers[0].request, "");
}

#[test]
fn a_parked_request_keeps_no_worker() {
    let board = board(1, 2);
    board.claim(0, 0, 2);
    let workers = Workers::start(board, 0, Rows::OfThreads);
    let slots: Vec<_> = (0..5).map(|_| workers.acquire()).collect();
    assert_eq!(board.idle_workers(0), 0, "two have rows, three have none");
    (0..4).for_each(|_| workers.enter(Gauge::Released));
    assert_eq!(board.idle_workers(0), 1, "one of five is served");
    workers.enter(Gauge::Released);
    assert_eq!(board.idle_workers(0), 2);
    (0..5).for_each(|_| workers.leave(Gauge::Released));
    drop(slots);
    assert_eq!(board.idle_workers(0), 2);
}

#[test]
fn answers_are_counted_by_status_and_duration() {
    let board = board(1, 1);
    board.claim(0, 0, 1);
    let workers = Workers::start(board, 0, Rows::OfRequests);
    let cases = [
        // Status and µs; class and bucket.
        (200, 0, 1, 0),
        (204, 50, 1, 0),
        (301, 51, 2, 1),
        (404, 1_000, 3, 4),
        (503, 50_000_000, 4, 18),
        (999, 50_000_001, 4, 19),
        (100, 90_000_000_000, 0, 19),
    ];
    let (mut classes, mut durations) = ([0; 5], [0; BUCKETS]);
    for (status, took, class, bucket) in cases {
        workers.acquire().finish(answered(status, 1, Duration::from_micros(took)));
        classes[class] += 1;
        durations[bucket] += 1;
        let process = &board.snapshot().processes[0];
        assert_eq!((process.classes, process.durations), (classes, durations), "{status} in {took} us");
    }
    board.retire(0, None);
    board.claim(0, 1, 1);
    let process = &board.snapshot().processes[0];
    assert_eq!((process.classes, process.durations), (classes, durations), "totals outlive the child");
    board.begin_generation(1, 1, true);
    board.claim(0, 1, 1);
    assert_eq!(board.snapshot().processes[0].durations, [0; BUCKETS]);
}

#[test]
fn more_rows_than_bits_in_a_word() {
    let board = board(1, 130);
    board.claim(0, 0, 130);
    let workers = Workers::start(board, 0, Rows::OfRequests);
    let slots: Vec<_> = (0..130).map(|_| workers.acquire()).collect();
    assert!(slots.iter().enumerate().all(|(index, slot)| slot.index == Some(index)));
    assert_eq!(workers.acquire().index, None);
    drop(slots);
    assert_eq!(workers.acquire().index, Some(0));
}

#[test]
fn long_texts_are_cut_and_short_ones_end() {
    let board = board(1, 1);
    board.claim(0, 0, 1);
    let workers = Workers::start(board, 0, Rows::OfRequests);
    let slot = workers.acquire();
    let long = "x".repeat(500);
    begin(&slot, Traffic::default(), CLIENT, &long, &long, &long);
    let worker = board.snapshot().processes[0].workers[0].clone();
    assert_eq!([worker.vhost.len(), worker.request.len(), worker.protocol.len()], [80, 176, 16]);
    for length in 0..20 {
        begin(&slot, Traffic::default(), CLIENT, "", &long[..length], "");
        assert_eq!(board.snapshot().processes[0].workers[0].request.len(), length);
    }
    for (address, shown) in [
        (IpAddr::V6(Ipv6Addr::LOCALHOST), "::1"),
        (IpAddr::V6(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped()), "10.0.0.1"),
        (IpAddr::V6("2001:db8::a".parse().expect("an address")), "2001:db8::a"),
    ] {
        begin(&slot, Traffic::default(), address, "", "", "");
        assert_eq!(board.snapshot().processes[0].workers[0].client, shown);
    }
}

#[test]
fn a_child_killed_in_the_midst_leaves_nothing_torn() {
    let board = board(2, 1);
    board.claim(0, 0, 1);
    let workers = Workers::start(board, 0, Rows::OfRequests);
    let slot = workers.acquire();
    begin(&slot, Traffic::default(), CLIENT, "v", "whole", "p");
    slot.finish(answered(200, 10, Duration::ZERO));
    workers.enter(Gauge::Connections);
    workers.enter(Gauge::KeepAlive);
    // As if killed between the first store of new texts and the last.
    board.worker(0, 0).0[WorkerField::Sequence as usize].fetch_add(1, Relaxed);
    std::mem::forget(slot);
    assert_eq!(board.snapshot().processes[0].workers[0].request, "", "never half of one and half of another");
    board.retire(0, None);
    let seen = board.snapshot();
    let process = &seen.processes[0];
    assert_eq!((process.life, process.connections, process.keep_alive), (ChildState::Empty, 0, 0));
    assert_eq!((process.accesses, process.bytes), (1, 10), "totals outlive the child");
    assert_eq!(process.workers[0].state, State::Dead);

    board.claim(0, 1, 1);
    let workers = Workers::start(board, 0, Rows::OfRequests);
    begin(&workers.acquire(), Traffic::default(), CLIENT, "v", "next", "p");
    let process = &board.snapshot().processes[0];
    assert_eq!((process.workers[0].request.as_str(), process.workers[0].accesses), ("next", [0, 0, 1]));
}

#[test]
fn graceful_keeps_counters_and_hangup_resets_them() {
    let board = board(2, 1);
    board.claim(0, 0, 1);
    Workers::start(board, 0, Rows::OfRequests).acquire().finish(answered(200, 10, Duration::ZERO));
    board.retire(0, None);
    board.begin_generation(1, 5, false);
    assert_eq!(board.snapshot().processes[0].accesses, 1);
    board.begin_generation(2, 5, true);
    let seen = board.snapshot();
    assert_eq!((seen.processes.len(), seen.generation, seen.shown), (0, 2, 5));
}

#[test]
fn busy_workers_of_a_child_that_leaves_are_finishing() {
    let board = board(1, 2);
    board.claim(0, 0, 2);
    let workers = Workers::start(board, 0, Rows::OfRequests);
    let busy = workers.acquire();
    begin(&busy, Traffic::default(), CLIENT, "v", "text", "p");
    workers.quiesce();
    let states: Vec<_> = board.snapshot().processes[0].workers.iter().map(|worker| worker.state).collect();
    assert_eq!(states, [State::Graceful, State::Ready]);
    let told = |described| board.snapshot_with(described).processes[0].workers[0].request.clone();
    assert_eq!([Described::Nobody, Described::Busy, Described::All].map(told), ["", "text", "text"]);
    drop(busy);
    assert_eq!([Described::Nobody, Described::Busy, Described::All].map(told), ["", "", "text"]);
}

#[test]
fn readers_never_see_torn_texts() {
    let board = board(1, 1);
    board.claim(0, 0, 1);
    let slot = Workers::start(board, 0, Rows::OfRequests).acquire();
    let texts = ["a".repeat(40), "b".repeat(176)];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for turn in 0..20_000 {
                begin(&slot, Traffic::default(), CLIENT, &texts[turn % 2], &texts[turn % 2], "");
            }
        });
        while !writer.is_finished() {
            let worker = board.snapshot().processes[0].workers[0].clone();
            assert_eq!(worker.vhost[..], worker.request[..worker.vhost.len()]);
            assert!(worker.request.is_empty() || texts.contains(&worker.request), "{}", worker.request);
        }
    });
}

#[test]
fn the_last_ten_minutes_are_kept() {
    let board = board(2, 1);
    board.claim(0, 0, 1);
    let workers = Workers::start(board, 0, Rows::OfRequests);
    let row = workers.acquire();
    row.begin(Traffic::default(), sys::time::realtime());
    row.finish(ServedRequest { received: 20, ..answered(404, 30, Duration::from_micros(70)) });
    row.finish(ServedRequest { watches: true, ..answered(200, 9, Duration::from_micros(70)) });
    board.note_moment();
    drop(row);
    for _ in 1..MOMENTS {
        board.note_moment();
    }
    let history = board.history();
    let (first, last) = (&history[0], &history[MOMENTS - 1]);
    assert_eq!((first.accesses, first.sent, first.received, first.classes), (1, 30, 20, [0, 0, 0, 1, 0]));
    assert_eq!((first.durations[1], first.durations.iter().sum::<u64>()), (1, 1));
    assert_eq!((first.served, last.served, last.accesses), (1, 0, 1));
    board.note_moment();
    let history = board.history();
    assert_eq!((history.len(), history[0].served), (MOMENTS, 0), "the oldest one has gone");
    board.begin_generation(1, 1, true);
    assert_eq!(board.history(), []);
}

#[test]
fn frequent_and_slow_urls_are_kept() {
    let board = board(5, 1);
    let visit = |slot, host: &str, path: &str, status, millis| {
        let (host, path, took) = (host.as_bytes(), path.as_bytes(), Duration::from_millis(millis));
        let keys = VisitKeys::new(host, path);
        board.count_visit(
            slot,
            keys,
            Visit { host, path, status, took, ended: sys::time::realtime(), script: slot == 1 },
        );
    };
    for number in 0..50 {
        visit(0, "a:80", "/often", 200, 1);
        // Another child, in the table of the first one and in another one.
        visit(4, "a:80", "/often", 500, 1);
        visit(1, "a:80", "/often", 200, 7);
        visit(0, "b:80", &format!("/slow/{number}"), 200, 900);
    }
    for number in 0..2000 {
        visit(0, "a:80", &format!("/once/{number}"), 404, 1);
    }
    let Visited { urls, mut hosts } = board.visited();
    let often = urls.iter().find(|place| place.path == "/often").expect("it is kept");
    let want = VisitStats {
        host: "a:80".into(),
        path: "/often".into(),
        requests: 150,
        failures: 50,
        scripts: 50,
        time: 450_000,
        slowest: 7000,
    };
    assert_eq!(often, &want);
    assert_eq!(urls.iter().filter(|place| place.path.starts_with("/slow")).count(), 50);
    assert!(urls.len() <= 32 * 8 * 4);
    hosts.sort_by_key(|place| place.requests);
    let told: Vec<_> = hosts.iter().map(|place| (place.host.as_str(), place.requests, place.failures)).collect();
    assert_eq!(told, [("b:80", 50, 0), ("a:80", 2150, 50)]);
    board.begin_generation(1, 1, true);
    assert!(board.visited().urls.is_empty());
}
