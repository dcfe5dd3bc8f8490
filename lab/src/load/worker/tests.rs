//! The loop against scripted servers.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use super::super::plan::tests::plan;
use super::super::plan::{Pace, Plan};
use super::super::record::Failures;
use super::*;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Answers with `response`, so many times on each connection, each in a thread of its own; then closes it, or resets it
/// with the next request.
#[derive(Clone, Copy)]
struct Script {
    response: &'static [u8],
    times: usize,
    resets: bool,
}

const SERVED: Script = Script { response: RESPONSE, times: usize::MAX, resets: false };

fn serve(script: Script) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 1024];
                for _ in 0..script.times {
                    match stream.read(&mut request) {
                        Ok(1..) if stream.write_all(script.response).is_ok() => {}
                        _ => return,
                    }
                }
                if script.resets {
                    // Closing with unread input resets the connection.
                    let _ = stream.peek(&mut request);
                }
            });
        }
    });
    address
}

fn load(plan: &Plan) -> Record {
    let shares = plan.shares();
    let mut records = shares.iter().map(|share| run(share, &Live::default(), Instant::now()).unwrap());
    let mut whole = records.next().unwrap();
    records.for_each(|record| whole.add(record));
    whole
}

fn failed(count: fn(&mut Failures) -> &mut u64, times: u64) -> Failures {
    let mut failures = Failures::default();
    *count(&mut failures) = times;
    failures
}

#[test]
fn a_closed_loop_asks_as_often_as_it_should() {
    for (clients, threads, pipeline) in [(1, 1, 1), (7, 2, 1), (3, 1, 4)] {
        let plan = Plan { clients, threads, pipeline, count: Some(100), ..plan(pipelined()) };
        let record = load(&plan);
        assert_eq!((record.responses, record.good, record.failures), (100, 100, Failures::default()));
        assert_eq!(record.connections, clients as u64);
        assert_eq!((record.body, record.head), (200, 100 * 38));
        assert_eq!((record.total.0.len(), record.kept), (100, 100));
    }
}

/// Answers each request, however they arrive.
fn pipelined() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || {
                use std::io::BufRead as _;
                let mut writer = stream.try_clone().unwrap();
                for line in std::io::BufReader::new(stream).lines().map_while(Result::ok) {
                    if line.is_empty() && writer.write_all(RESPONSE).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn a_schedule_is_kept_whatever_becomes_of_requests() {
    let arrival = Arrival::Requests(Pace::per_second(100.0));
    let plan = Plan { arrival, clients: 4, count: Some(50), ..plan(serve(SERVED)) };
    let record = load(&plan);
    assert_eq!((record.responses, record.failures), (50, Failures::default()));
    assert!(record.elapsed >= Duration::from_millis(490), "{:?}", record.elapsed);
}

#[test]
fn an_idle_connection_that_ends_leaves_room_for_one_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut asked = Vec::new();
        // The first connection ends while nothing is due; the input over the second before its response must be one
        // request.
        for (stream, patience) in listener.incoming().zip([1, 250]) {
            let (mut stream, mut request, mut text) = (stream.unwrap(), [0; 4096], Vec::new());
            stream.set_read_timeout(Some(Duration::from_millis(patience))).unwrap();
            while let Ok(length @ 1..) = stream.read(&mut request) {
                text.extend_from_slice(&request[..length]);
            }
            stream.write_all(RESPONSE).unwrap();
            // The end comes separately from the response.
            stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            let _ = stream.read(&mut request);
            asked.push(text.windows(4).filter(|end| end == b"\r\n\r\n").count());
        }
        asked
    });
    let arrival = Arrival::Requests(Pace::per_second(10.0));
    let record = load(&Plan { arrival, count: Some(3), ..plan(address) });
    assert_eq!(server.join().unwrap(), [1, 1]);
    assert_eq!(record.responses, 2, "the third request finds no server");
}

#[test]
fn connections_become_due_and_make_their_requests() {
    let arrival = Arrival::Connections(Pace::per_second(200.0));
    let plan = Plan { arrival, clients: 10, calls: Some(5), count: Some(20), ..plan(serve(SERVED)) };
    let record = load(&plan);
    assert_eq!((record.connections, record.responses, record.failures), (20, 100, Failures::default()));
    assert_eq!(record.lives.0.len(), 20);
}

#[test]
fn connections_end_after_their_requests_and_where_a_server_ends_them() {
    let own = Plan { calls: Some(5), count: Some(50), ..plan(serve(SERVED)) };
    let record = load(&own);
    assert_eq!(
        (record.connections, record.responses, record.failures, record.reopened),
        (10, 50, Failures::default(), 0)
    );
    // A server that closes an idle connection has done nothing wrong.
    let theirs = Plan { count: Some(50), ..plan(serve(Script { times: 10, ..SERVED })) };
    let record = load(&theirs);
    assert_eq!((record.responses, record.failures), (50, Failures::default()));
    assert_eq!(record.connections, 5 + u64::from(record.connections > 5), "{record:?}");
    let said = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let told = Plan { count: Some(50), ..plan(serve(Script { response: said, times: 1, resets: false })) };
    let record = load(&told);
    assert_eq!(
        (record.connections, record.responses, record.failures, record.reopened),
        (50, 50, Failures::default(), 0)
    );
}

/// A server that drops every second request without a response, after it has let it wait.
#[test]
fn a_request_that_is_dropped_counts_with_the_time_that_it_took() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let wait = Duration::from_millis(40);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut request) = (stream.unwrap(), [0; 1024]);
            let _ = stream.read(&mut request).and_then(|_| stream.write_all(RESPONSE));
            let _ = stream.read(&mut request);
            // Nothing more comes: this is how long the client has to wait.
            stream.set_read_timeout(Some(wait)).unwrap();
            let _ = stream.read(&mut request);
        }
    });
    let record = load(&Plan { count: Some(6), ..plan(address) });
    assert_eq!((record.responses, record.failures, record.reopened), (6, Failures::default(), 5));
    let slow = record.total.0.count_between(wait.as_micros() as u64, u64::MAX);
    assert_eq!(slow, 5, "all but the first were asked twice");
}

/// However many clients still have to begin, the time limit holds.
#[test]
fn the_end_comes_before_everybody_has_begun() {
    let time = Some(Duration::from_millis(1));
    let clients = 1_000_000;
    let record = load(&Plan { count: None, time, clients, timeout: Duration::from_secs(1), ..plan(serve(SERVED)) });
    assert!(record.elapsed < Duration::from_secs(2) && record.connections < 10_000, "{record:?}");
}

#[test]
fn failures_are_counted_by_kind() {
    let unavailable = Script { response: b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", ..SERVED };
    let record = load(&Plan { count: Some(20), ..plan(serve(unavailable)) });
    assert_eq!((record.responses, record.good, record.classes[5], record.failures), (20, 0, 20, Failures::default()));

    let once = |response| Script { response, times: 1, resets: false };
    let broken = once(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    let record = load(&Plan { count: Some(20), ..plan(serve(broken)) });
    assert_eq!((record.responses, record.failures), (0, failed(|all| &mut all.read, 20)));

    let nonsense = once(b"SSH-2.0-x\r\n\r\n");
    let record = load(&Plan { count: Some(20), ..plan(serve(nonsense)) });
    assert_eq!((record.responses, record.failures), (0, failed(|all| &mut all.malformed, 20)));

    let unasked = once(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nand more");
    let record = load(&Plan { count: Some(1), ..plan(serve(unasked)) });
    assert_eq!(
        (record.responses, record.failures),
        (0, failed(|all| &mut all.malformed, 1)),
        "it is longer than it says"
    );
    let unasked = once(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nokok");
    let record = load(&Plan { count: Some(20), ..plan(serve(unasked)) });
    assert_eq!((record.responses, record.failures), (0, failed(|all| &mut all.malformed, 20)));

    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
    let record = load(&Plan { count: Some(20), clients: 4, ..plan(nobody) });
    assert_eq!((record.responses, record.failures), (0, failed(|all| &mut all.refused, 20)));
}

#[test]
fn silence_is_a_timeout() {
    let silent = Script { response: b"", ..SERVED };
    let timeout = Duration::from_millis(50);
    let record = load(&Plan { count: Some(3), timeout, ..plan(serve(silent)) });
    assert_eq!((record.responses, record.failures), (0, failed(|all| &mut all.timeout, 3)));
}

#[test]
fn resets_are_told_from_ends() {
    let resets = Script { times: 0, resets: true, ..SERVED };
    let record = load(&Plan { count: Some(20), ..plan(serve(resets)) });
    assert_eq!((record.responses, record.failures), (0, failed(|all| &mut all.reset, 20)));
}

#[test]
fn bodies_that_differ_are_not_good() {
    let record = load(&Plan { count: Some(5), body: Some(b"no".as_slice().into()), ..plan(serve(SERVED)) });
    assert_eq!((record.responses, record.good), (5, 0));
}

#[test]
fn time_ends_it() {
    let time = Some(Duration::from_millis(200));
    let record = load(&Plan { count: None, time, clients: 3, ..plan(serve(SERVED)) });
    assert!((Duration::from_millis(200)..Duration::from_secs(5)).contains(&record.elapsed), "{:?}", record.elapsed);
    assert!(record.responses > 0 && record.failures == Failures::default(), "{record:?}");
    assert_eq!(record.starved, 0);
}

#[test]
fn clients_that_wait_in_vain_are_counted() {
    let silent = Script { response: b"", ..SERVED };
    let record = load(&Plan { count: None, time: Some(Duration::from_millis(300)), clients: 3, ..plan(serve(silent)) });
    assert_eq!((record.responses, record.starved), (0, 3));
}

#[test]
fn no_time_is_too_long() {
    let record = load(&Plan { time: Some(Duration::MAX), timeout: Duration::MAX, ..plan(serve(SERVED)) });
    assert_eq!(record.responses, 1);
}

#[test]
fn connections_without_a_pace_follow_each_other() {
    let arrival = Arrival::Connections(Pace::Constant(Duration::ZERO));
    let plan = Plan { arrival, calls: Some(2), count: Some(10), ..plan(serve(SERVED)) };
    let record = load(&plan);
    assert_eq!((record.connections, record.responses, record.concurrent, record.burst), (10, 20, 1, 1));
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
    let record = load(&Plan { servers: vec![nobody], ..plan });
    assert_eq!(
        record.failures,
        failed(|all| &mut all.refused, 10),
        "a connection fails once, whatever it was to carry"
    );
}

#[test]
fn connections_may_rest_between_bursts() {
    let arrival = Arrival::Connections(Pace::Constant(Duration::ZERO));
    let (clients, pipeline, think) = (3, 2, Duration::from_millis(20));
    let plan = Plan { arrival, clients, pipeline, think, calls: Some(6), count: Some(3), ..plan(pipelined()) };
    let record = load(&plan);
    assert_eq!((record.connections, record.responses, record.concurrent), (3, 18, 3));
    assert!(record.lives.0.min() >= 40_000, "two rests between three bursts");
}
