//! The generator of a fixed rate: an open loop over HTTP/1.1 connections that are kept.
//!
//! Requests become due on a constant schedule, whatever became of those before. A request that is due takes the
//! connection that has been free for longest, or waits for one; its latency counts from when it was due, so waiting is
//! part of it. One thread looks for events without sleeping: it has a core to itself, and being woken would cost as much
//! as the answers that it times.

mod line;
mod schedule;

use std::collections::VecDeque;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event};
use std::os::fd::OwnedFd;

use crate::cli::PaceOptions;
use crate::error::{Context as _, Error, Result};
use crate::generator::{self, Counts, Errors, TIMEOUT_SECONDS};
use crate::launch;
use crate::stats::percentile;
use line::{Line, Outcome};
use schedule::Schedule;

/// A request without an answer after this is an error.
const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_SECONDS as u64);

/// How often to look for such requests.
const INSPECTION: Duration = Duration::from_millis(100);

/// Runs the generator on `core` and waits for its counts; see [`generator::run`] for `watch`.
pub(crate) fn fire(options: &PaceOptions, core: usize, watch: &mut dyn FnMut() -> Result<()>) -> Result<Counts> {
    let lab = std::env::current_exe().context(|| "find the laboratory's own program".to_owned())?;
    let mut command = launch::command(&[], &[core], &lab)?;
    arguments(&mut command, options);
    let output = generator::run(command, options.seconds + TIMEOUT_SECONDS, watch)?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        Error::new(format!("the load generator did not report ({}): {}", output.status, complaint.trim()))
    })
}

fn arguments(command: &mut Command, options: &PaceOptions) {
    command.arg("pace").args(["--address", &options.address.to_string(), "--name", &options.name]);
    let numbers = [
        ("--connections", options.connections),
        ("--per-second", options.per_second),
        ("--per-connection", options.per_connection),
        ("--seconds", options.seconds),
    ];
    for (name, number) in numbers {
        command.args([name, &number.to_string()]);
    }
}

/// Runs `tsubame-lab pace`: prints the counts.
pub(crate) fn run(options: &PaceOptions) -> Result<()> {
    launch::raise_descriptor_limit()?;
    let counts = Pacer::new(options).and_then(Pacer::pace).context(|| "keep the rate".to_owned())?;
    println!("{}", serde_json::to_string(&counts).context(|| "write the counts as JSON".to_owned())?);
    Ok(())
}

/// A connection, or the room for one, with the request that it carries.
#[derive(Debug, Default)]
struct Slot {
    line: Option<Line>,
    /// When the request was due that waits for its answer.
    due: Option<Instant>,
}

struct Pacer<'a> {
    options: &'a PaceOptions,
    epoll: OwnedFd,
    request: Vec<u8>,
    slots: Vec<Slot>,
    free: VecDeque<usize>,
    /// Requests for which no connection was free.
    waiting: VecDeque<Instant>,
    latencies_us: Vec<u64>,
    delays_us: Vec<u64>,
    bytes: u64,
    errors: Errors,
}

impl<'a> Pacer<'a> {
    fn new(options: &'a PaceOptions) -> rustix::io::Result<Self> {
        let request = format!("GET /{} HTTP/1.1\r\nHost: {}\r\n\r\n", options.name, options.address);
        let slots: Vec<Slot> = (0..options.connections).map(|_| Slot::default()).collect();
        Ok(Self {
            options,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            request: request.into_bytes(),
            free: (0..slots.len()).collect(),
            slots,
            waiting: VecDeque::new(),
            latencies_us: Vec::new(),
            delays_us: Vec::new(),
            bytes: 0,
            errors: Errors::default(),
        })
    }

    fn pace(mut self) -> rustix::io::Result<Counts> {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, self.options.per_second, self.options.seconds);
        let mut inspection = start + INSPECTION;
        let mut events: Vec<Event> = Vec::with_capacity(512);
        loop {
            let now = Instant::now();
            while let Some(due) = schedule.next(now) {
                self.delays_us.push(microseconds(now - due));
                self.waiting.push_back(due);
            }
            self.dispatch();
            if now > inspection {
                self.expire(now);
                inspection = now + INSPECTION;
            }
            if schedule.is_over() && self.waiting.is_empty() && self.free.len() == self.slots.len() {
                break;
            }
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&Timespec::default()))?;
            for event in events.drain(..) {
                self.advance(event.data.u64() as usize);
            }
        }
        Ok(self.count(start.elapsed()))
    }

    /// Sends what is due as long as there are free connections.
    fn dispatch(&mut self) {
        while !self.waiting.is_empty()
            && let Some(index) = self.free.pop_front()
        {
            let slot = &mut self.slots[index];
            slot.due = self.waiting.pop_front();
            let line = match slot.line.take() {
                Some(line) => Ok(line),
                None => Line::open(&self.epoll, self.options.address, index as u64),
            };
            match line {
                Ok(mut line) => {
                    line.ask();
                    slot.line = Some(line);
                    self.advance(index);
                }
                Err(_) => self.fail(index, Outcome::NoConnection),
            }
        }
    }

    /// Goes on with a connection as far as it goes.
    fn advance(&mut self, index: usize) {
        let Some(line) = &mut self.slots[index].line else {
            return;
        };
        let outcome = line.advance(&self.request);
        let Outcome::Answered { status, bytes, close } = outcome else {
            if outcome != Outcome::Pending {
                self.fail(index, outcome);
            }
            return;
        };
        let served = line.served;
        let slot = &mut self.slots[index];
        if close || served == self.options.per_connection {
            slot.line = None;
        }
        self.bytes += bytes as u64;
        match slot.due.take() {
            Some(due) if status == 200 => self.latencies_us.push(microseconds(due.elapsed())),
            _ => self.errors.status += 1,
        }
        self.free.push_back(index);
    }

    /// Gives a connection up. An idle one that the server closed is no error, also if a request has just been sent over it:
    /// whoever needs it next opens another.
    fn fail(&mut self, index: usize, outcome: Outcome) {
        let slot = &mut self.slots[index];
        let again = slot.line.take().is_some_and(|line| line.was_perhaps_idle());
        let Some(due) = slot.due.take() else { return };
        self.free.push_back(index);
        if again && matches!(outcome, Outcome::BrokenRead | Outcome::BrokenWrite) {
            self.waiting.push_front(due);
            return;
        }
        match outcome {
            Outcome::NoConnection => self.errors.connect += 1,
            Outcome::BrokenWrite => self.errors.write += 1,
            Outcome::TooLate => self.errors.timeout += 1,
            Outcome::BrokenRead | Outcome::Pending | Outcome::Answered { .. } => self.errors.read += 1,
        }
    }

    fn expire(&mut self, now: Instant) {
        for index in 0..self.slots.len() {
            if self.slots[index].due.is_some_and(|due| now - due > TIMEOUT) {
                self.fail(index, Outcome::TooLate);
            }
        }
        while self.waiting.front().is_some_and(|due| now - *due > TIMEOUT) {
            self.waiting.pop_front();
            self.errors.timeout += 1;
        }
    }

    fn count(mut self, elapsed: Duration) -> Counts {
        self.latencies_us.sort_unstable();
        self.delays_us.sort_unstable();
        Counts {
            seconds: elapsed.as_secs_f64(),
            requests: self.latencies_us.len() as u64,
            bytes: self.bytes,
            p50_us: percentile(&self.latencies_us, 0.5),
            p99_us: percentile(&self.latencies_us, 0.99),
            max_us: percentile(&self.latencies_us, 1.0),
            errors: self.errors,
            late_p99_us: percentile(&self.delays_us, 0.99),
        }
    }
}

fn microseconds(duration: Duration) -> u64 {
    duration.as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    /// Answers with `answer`, so many times on each connection, one connection after the other.
    fn serve(answer: &'static [u8], per_connection: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                for _ in 0..per_connection {
                    match stream.read(&mut [0; 1024]) {
                        Ok(1..) => stream.write_all(answer).unwrap(),
                        _ => break,
                    }
                }
            }
        });
        address
    }

    fn counts(address: SocketAddr, per_connection: u32) -> Counts {
        let (connections, per_second, seconds) = (1, 50, 1);
        let name = "x".to_owned();
        let options = PaceOptions { address, name, connections, per_second, per_connection, seconds };
        Pacer::new(&options).unwrap().pace().unwrap()
    }

    #[test]
    fn every_request_of_the_schedule_is_answered() {
        let counts = counts(serve(ANSWER, usize::MAX), 0);
        assert_eq!((counts.requests, counts.errors), (50, Errors::default()));
        assert!(counts.seconds > 0.9, "{counts:?}");
    }

    #[test]
    fn connections_end_after_their_requests() {
        let counts = counts(serve(ANSWER, 5), 5);
        assert_eq!((counts.requests, counts.errors), (50, Errors::default()));
    }

    #[test]
    fn idle_connections_that_the_server_closes_are_no_errors() {
        let counts = counts(serve(ANSWER, 10), 0);
        assert_eq!((counts.requests, counts.errors), (50, Errors::default()));
    }

    #[test]
    fn other_statuses_and_broken_answers_are_errors() {
        let unavailable = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(counts(serve(unavailable, 99), 0).errors, Errors { status: 50, ..Errors::default() });
        assert_eq!(counts(serve(b"HTTP/1.1 200 OK\r\n", 1), 0).errors, Errors { read: 50, ..Errors::default() });
        assert_eq!(counts(serve(b"nonsense\r\n\r\n", 1), 0).errors, Errors { read: 50, ..Errors::default() });
    }

    #[test]
    fn nobody_listening_is_an_error_for_each_request() {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
        assert_eq!(counts(address, 0).errors, Errors { connect: 50, ..Errors::default() });
    }
}
