//! The simulation beside what queueing theory makes of the same case, and its own laws.

use super::arrivals::{Curve, Mix, Shape, Spread};
use super::fleet::{Change, Ended, Scenario, simulate};
use super::gate::Rules;
use super::node::{Machine, Node, State};
use super::outcome::Outcome;
use super::request::{Nanos, SECOND};
use crate::machine::balance::Balance;

const MS: Nanos = SECOND / 1000;

/// How many requests a mean is taken of: with 90 % load, one of half as many would be off by 4 % now and then.
const REQUESTS: f64 = 400_000.0;

/// One node with this machine, for requests that take 10 ms on average: files, or scripts that need no processor.
fn one_node(machine: Machine, files: bool, rate: f64) -> Scenario {
    let duration = (REQUESTS / rate * SECOND as f64) as Nanos;
    Scenario {
        machines: vec![machine],
        rules: Rules { need: 1, most: 320, queue: 1_000_000, patience: 86_400 * SECOND },
        curve: Curve::of(Shape::Constant, rate, 1.0, duration),
        mix: Mix {
            files: f64::from(u8::from(files)),
            file_work: 10 * MS,
            script_work: 1,
            script_pause: 10 * MS,
            spread: Spread::Exponential,
        },
        clients: 0,
        seed: 7,
        warm_up: 0,
        duration,
        changes: Vec::new(),
        balance: Balance::Roundrobin,
        agent: false,
    }
}

/// The mean time in an M/M/c queue, in seconds (Erlang C): `rate` arrivals per second, and `service` ends at each of `servers`.
fn erlang_c(rate: f64, service: f64, servers: u64) -> f64 {
    let offered = rate / service;
    // Erlang B by its recursion, and C from B.
    let blocked = (1..=servers).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
    let used = offered / servers as f64;
    let waits = blocked / (1.0 - used * (1.0 - blocked));
    waits / (servers as f64 * service - rate) + 1.0 / service
}

fn mean(sum: u128, requests: u64) -> f64 {
    sum as f64 / requests as f64 / SECOND as f64
}

fn assert_near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < tolerance, "{what}: {found} instead of {expected}");
}

#[test]
fn waits_are_those_of_erlang() {
    assert_near(erlang_c(50.0, 100.0, 1), 1.0 / 50.0, 1e-9, "the formula, for one server");
    assert_near(
        erlang_c(200.0, 100.0, 3),
        0.01 + 0.444_444 / 100.0,
        1e-5,
        "the formula, for two thirds of three servers",
    );
    for (servers, rate) in [(1, 50.0), (1, 90.0), (3, 200.0), (24, 2280.0)] {
        let expected = erlang_c(rate, 100.0, servers);
        // Files in turn with as many workers; files that share the processors; scripts with memory for as many.
        let cases = [
            ("workers", Machine { cores: servers, room: 1, workers: Some(servers) }, true),
            ("shared processors", Machine { cores: servers, room: 1, workers: None }, true),
            ("the gate", Machine { cores: 1, room: servers, workers: None }, false),
        ];
        for (name, machine, files) in cases {
            let Ended { tally, .. } = simulate(&one_node(machine, files, rate));
            let latencies = if files { &tally.files } else { &tally.scripts };
            let found = mean(latencies.sum, latencies.histogram.len());
            assert_near(found, expected, 0.04, &format!("{name}, {servers} at {rate}/s"));
        }
    }
}

/// Three unequal nodes with all that can happen to them.
fn troubled(balance: Balance, agent: bool) -> Scenario {
    let change = |at: u64, node, state| Change { at: at * SECOND, node, state };
    let machine = Machine { cores: 4, room: 20, workers: None };
    Scenario {
        machines: vec![machine, machine, Machine { cores: 1, room: 5, workers: Some(3) }],
        rules: Rules { need: 1, most: 320, queue: 50, patience: 5 * SECOND },
        curve: Curve::of(Shape::Crowd, 130.0, 3.0, 120 * SECOND),
        mix: Mix {
            files: 0.5,
            file_work: MS,
            script_work: 50 * MS,
            script_pause: 200 * MS,
            spread: Spread::Exponential,
        },
        clients: 10,
        seed: 11,
        warm_up: 0,
        duration: 120 * SECOND,
        changes: vec![
            change(45, 1, State::Frozen),
            change(55, 1, State::Serving),
            change(58, 0, State::Dead),
            change(70, 0, State::Serving),
            change(80, 2, State::Draining),
            change(85, 2, State::Closed),
            change(100, 2, State::Serving),
        ],
        balance,
        agent,
    }
}

const ALL: [(Balance, bool); 4] = [
    (Balance::Roundrobin, false),
    (Balance::Roundrobin, true),
    (Balance::Leastconn, false),
    (Balance::Leastconn, true),
];

#[test]
fn no_request_is_forgotten() {
    for ((balance, agent), warm_up) in ALL.into_iter().flat_map(|one| [(one, 0), (one, 50 * SECOND)]) {
        let scenario = Scenario { warm_up, ..troubled(balance, agent) };
        let ended = simulate(&scenario);
        let outcome = Outcome::of(&scenario, &ended);
        let Outcome { arrived, completed, refused, lost, unfinished, .. } = outcome;
        assert_eq!(arrived, completed + refused + lost + unfinished, "{balance:?}, {agent}");
        assert_eq!(unfinished, ended.nodes.iter().map(Node::held).sum::<u64>(), "{balance:?}, {agent}");
        assert!(completed > 0 && refused > 0 && lost > 0, "all of them happen: {outcome:?}");
        assert!(balance == Balance::Leastconn || outcome.redispatched > 0, "{outcome:?}");
    }
}

#[test]
fn a_warm_up_counts_for_nothing() {
    let until = |warm_up: u64, duration: u64| {
        let scenario =
            Scenario { warm_up: warm_up * SECOND, duration: duration * SECOND, ..troubled(Balance::Leastconn, true) };
        let ended = simulate(&scenario);
        let used: u64 = ended.nodes.iter().map(|node| node.usage().processors).sum();
        (ended.tally.completed(), ended.tally.files.sum, used)
    };
    let (first, both, second) = (until(0, 40), until(0, 90), until(40, 90));
    assert_eq!((first.0 + second.0, first.1 + second.1, first.2 + second.2), both);
}

#[test]
fn little_s_law_holds() {
    // The mean number of requests is the rate times the mean time that they spend here.
    let scenario = one_node(Machine { cores: 3, room: 1, workers: None }, true, 200.0);
    let Ended { tally, .. } = simulate(&scenario);
    let seconds = scenario.duration as f64 / SECOND as f64;
    let present = tally.presence as f64 / scenario.duration as f64;
    let time = mean(tally.files.sum, tally.files.histogram.len());
    assert_near(present, tally.arrived as f64 / seconds * time, 1e-3, "requests that are present");
}

#[test]
fn clients_who_ask_again_keep_all_places_busy() {
    // Three places, ten clients, 10 ms: 300 scripts a second, and each of them waits for the nine others.
    let machine = Machine { cores: 1, room: 3, workers: None };
    let scenario = Scenario { clients: 10, ..one_node(machine, true, 1.0) };
    let scenario = Scenario { duration: 1000 * SECOND, ..scenario };
    let Ended { tally, .. } = simulate(&scenario);
    let scripts = tally.scripts.histogram.len();
    assert_near(scripts as f64 / 1000.0, 300.0, 0.01, "scripts per second");
    assert_near(mean(tally.scripts.sum, scripts), 10.0 / 300.0, 0.01, "seconds of a script");
}

#[test]
fn the_same_seed_has_the_same_result() {
    for (balance, agent) in ALL {
        let outcome = |seed| {
            let scenario = Scenario { seed, ..troubled(balance, agent) };
            Outcome::of(&scenario, &simulate(&scenario))
        };
        assert_eq!(outcome(1), outcome(1));
        assert_ne!(outcome(1), outcome(2));
    }
}

#[test]
fn both_columns_have_the_same_requests() {
    let requests = |(balance, agent)| Scenario { clients: 0, ..troubled(balance, agent) };
    let arrived = ALL.map(|one| simulate(&requests(one)).tally.arrived);
    assert_eq!(arrived, [arrived[0]; 4]);
}

#[test]
fn agents_lead_work_away_from_a_small_node() {
    let work = |agent| {
        let scenario = Scenario {
            changes: Vec::new(),
            curve: Curve::of(Shape::Constant, 120.0, 1.0, 120 * SECOND),
            ..troubled(Balance::Roundrobin, agent)
        };
        let ended = simulate(&scenario);
        let taken: Vec<u64> = ended.nodes.iter().map(|node| node.usage().taken).collect();
        (taken[2] as f64 / taken[0] as f64, ended.tally.scripts.milliseconds(0.99), ended.tally.refused)
    };
    let ((without, p99_without, refused_without), (with, p99_with, refused_with)) = (work(false), work(true));
    assert!(with < 0.6 * without, "the small node takes {with} of a large one's requests, {without} without agents");
    assert!(p99_with < 0.7 * p99_without, "{p99_with} ms, {p99_without} ms without agents");
    assert!(refused_with < refused_without.max(1), "{refused_with}, {refused_without} without agents");
}

#[test]
fn agents_cost_equal_nodes_nothing() {
    for (balance, load) in
        [Balance::Roundrobin, Balance::Leastconn].into_iter().flat_map(|one| [(one, 0.7), (one, 0.9)])
    {
        let times = |agent| {
            // Twenty scripts on each of three nodes, 250 ms each, half of the requests.
            let scenario = Scenario {
                machines: vec![Machine { cores: 8, room: 20, workers: None }; 3],
                changes: Vec::new(),
                clients: 0,
                curve: Curve::of(Shape::Constant, load * 480.0, 1.0, 120 * SECOND),
                ..troubled(balance, agent)
            };
            let tally = simulate(&scenario).tally;
            [0.5, 0.99].map(|share| tally.scripts.milliseconds(share))
        };
        let (without, with) = (times(false), times(true));
        let is_as_fast = without.iter().zip(with).all(|(without, with)| with < 1.1 * without);
        assert!(is_as_fast, "{balance:?} at {load}: {with:?} ms, {without:?} ms without agents");
    }
}

#[test]
fn a_drain_that_is_announced_costs_no_connection() {
    let redispatched = |announced: bool| {
        let leave =
            if announced { vec![(20, State::Draining), (25, State::Closed)] } else { vec![(20, State::Closed)] };
        let scenario = Scenario {
            changes: leave.into_iter().map(|(at, state)| Change { at: at * SECOND, node: 1, state }).collect(),
            ..troubled(Balance::Roundrobin, true)
        };
        simulate(&scenario).tally.redispatched
    };
    assert_eq!(redispatched(true), 0);
    assert!(redispatched(false) > 0);
}
