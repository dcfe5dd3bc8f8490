//! Clients of scripts that take long: each asks, waits for the whole response, and asks again, until time is up; then all
//! wait for their last responses. Or each asks once, at its time. All work of a script counts, however few requests there
//! are.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::frontends::load::json::intervals;
use crate::load::client::Connector;
use crate::load::timeline::IntervalSummary;
use crate::load::timeline::Timeline;
use crate::machine::interrupt;
use crate::measure::generator::Counts;
use crate::measure::results::Errors;

/// Scripts are slow, and each interval should have a few responses.
const INTERVALS: usize = 32;

/// The requests to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptClients<'a> {
    /// The server.
    pub(crate) address: SocketAddr,
    /// Names without the leading slash, which take turns.
    pub(crate) names: &'a [String],
    /// The body of a good response.
    pub(crate) response: &'static str,
    /// How many clients ask at a time.
    pub(crate) clients: u32,
    /// How long they repeat.
    pub(crate) seconds: u32,
    /// How long one waits for a response.
    pub(crate) patience: Duration,
}

/// The results of one client.
#[derive(Default)]
struct Outcome {
    /// When good responses were complete, and how long they took.
    responses: Vec<(Instant, Duration)>,
    errors: Errors,
}

impl ScriptClients<'_> {
    /// Makes the requests; returns after the last response. The time that counts ends with the last good one.
    pub(crate) fn make(self) -> Counts {
        let (began, turn) = (Instant::now(), AtomicUsize::new(0));
        let outcome: Vec<Outcome> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients).map(|_| scope.spawn(|| self.ask(began, &turn))).collect();
            clients.into_iter().filter_map(|client| client.join().ok()).collect()
        });
        count(began, &outcome)
    }

    /// Makes each client ask once, when it is due; returns after the last response.
    pub(crate) fn at(self, due: impl Fn(u32) -> Duration + Sync) -> Counts {
        let began = Instant::now();
        let ask = |number| {
            std::thread::sleep((began + due(number)).saturating_duration_since(Instant::now()));
            let mut outcome = Outcome::default();
            self.once(&self.names[number as usize % self.names.len()], &mut outcome);
            outcome
        };
        let outcome: Vec<Outcome> = std::thread::scope(|scope| {
            let ask = &ask;
            let clients: Vec<_> = (0..self.clients).map(|number| scope.spawn(move || ask(number))).collect();
            clients.into_iter().filter_map(|client| client.join().ok()).collect()
        });
        count(began, &outcome)
    }

    /// One client. After a failure it pauses for a moment before it asks again, because failing costs nothing and would
    /// fill the figures.
    fn ask(self, began: Instant, turn: &AtomicUsize) -> Outcome {
        const MOMENT: Duration = Duration::from_millis(100);
        let mut outcome = Outcome::default();
        let end = began + Duration::from_secs(self.seconds.into());
        while Instant::now() < end && !interrupt::is_asked() {
            let name = &self.names[turn.fetch_add(1, Relaxed) % self.names.len()];
            if !self.once(name, &mut outcome) {
                std::thread::sleep(MOMENT);
            }
        }
        outcome
    }

    fn once(&self, name: &str, outcome: &mut Outcome) -> bool {
        let asked = Instant::now();
        let Ok(mut connection) = (Connector { patience: self.patience, ..Connector::default() }).open(self.address)
        else {
            outcome.errors.connect += 1;
            return false;
        };
        match connection.fetch(name) {
            Ok(response) if response.status == 200 && response.body == self.response.as_bytes() => {
                outcome.responses.push((Instant::now(), asked.elapsed()));
                return true;
            }
            Ok(_) => outcome.errors.status += 1,
            Err(_) if asked.elapsed() >= self.patience => outcome.errors.timeout += 1,
            Err(_) => outcome.errors.read += 1,
        }
        false
    }
}

/// Adds up the clients' results. The time that counts ends with the last good response.
fn count(began: Instant, outcome: &[Outcome]) -> Counts {
    let responses = || outcome.iter().flat_map(|outcome| &outcome.responses);
    let ended = responses().map(|(when, _)| *when).max().unwrap_or_else(Instant::now);
    let mut timeline = Timeline::default();
    responses().for_each(|(when, took)| timeline.at(*when - began).add_response(*took, 0));
    let timeline = timeline.within(INTERVALS);
    let moments: Vec<IntervalSummary> = timeline.intervals.iter().map(IntervalSummary::of).collect();
    let seconds = (ended - began).as_secs_f64();
    let sum = |figure: fn(&Errors) -> u64| outcome.iter().map(|outcome| figure(&outcome.errors)).sum();
    let errors = Errors {
        connect: sum(|errors| errors.connect),
        read: sum(|errors| errors.read),
        timeout: sum(|errors| errors.timeout),
        status: sum(|errors| errors.status),
        write: 0,
    };
    let latencies_us = responses().map(|(_, took)| took.as_micros() as u64).collect();
    Counts {
        intervals: intervals(&moments, timeline.length.as_secs_f64(), seconds),
        ..Counts::of_latencies(seconds, latencies_us, errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn good_answers_and_others_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]).unwrap();
                let (status, body) = [("200 OK", "OK\n"), ("500 Error", "OK\n"), ("200 OK", "no")][number % 3];
                write!(stream, "HTTP/1.1 {status}\r\n\r\n{body}").unwrap();
            }
        });
        let names = ["a".to_owned()];
        let patience = Duration::from_secs(5);
        let counts =
            ScriptClients { address, names: &names, response: "OK\n", clients: 1, seconds: 1, patience }.make();
        assert!(counts.requests > 1 && counts.errors.status.abs_diff(2 * counts.requests) <= 2, "{counts:?}");
        assert_eq!(counts.errors.total(), counts.errors.status);
    }
}
