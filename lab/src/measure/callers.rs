//! Clients of scripts that take long: each asks, waits for the whole answer, and asks again, until time is up; then all
//! wait for their last answers. Or each asks once, at its time. All work of a script counts, however few requests there
//! are.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::frontends::load::json::Moment;
use crate::frontends::load::json::intervals;
use crate::load::client::Dial;
use crate::load::timeline::Timeline;
use crate::machine::interrupt;
use crate::measure::generator::Counts;
use crate::measure::results::Errors;

/// Scripts are slow, and each interval should have a few answers.
const INTERVALS: usize = 32;

/// The requests to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The server.
    pub(crate) address: SocketAddr,
    /// Names without the leading slash, which take turns.
    pub(crate) names: &'a [String],
    /// The body of a good answer.
    pub(crate) answer: &'static str,
    /// How many clients ask at a time.
    pub(crate) clients: u32,
    /// How long they repeat.
    pub(crate) seconds: u32,
    /// How long one waits for an answer.
    pub(crate) patience: Duration,
}

/// The results of one client.
#[derive(Default)]
struct Met {
    /// When good answers were complete, and how long they took.
    answers: Vec<(Instant, Duration)>,
    errors: Errors,
}

impl Call<'_> {
    /// Makes the requests; returns after the last answer. The time that counts ends with the last good one.
    pub(crate) fn make(self) -> Counts {
        let (began, turn) = (Instant::now(), AtomicUsize::new(0));
        let met: Vec<Met> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients).map(|_| scope.spawn(|| self.ask(began, &turn))).collect();
            clients.into_iter().filter_map(|client| client.join().ok()).collect()
        });
        count(began, &met)
    }

    /// Makes each client ask once, when it is due; returns after the last answer.
    pub(crate) fn at(self, due: impl Fn(u32) -> Duration + Sync) -> Counts {
        let began = Instant::now();
        let ask = |number| {
            std::thread::sleep((began + due(number)).saturating_duration_since(Instant::now()));
            let mut met = Met::default();
            self.once(&self.names[number as usize % self.names.len()], &mut met);
            met
        };
        let met: Vec<Met> = std::thread::scope(|scope| {
            let ask = &ask;
            let clients: Vec<_> = (0..self.clients).map(|number| scope.spawn(move || ask(number))).collect();
            clients.into_iter().filter_map(|client| client.join().ok()).collect()
        });
        count(began, &met)
    }

    /// One client. After a failure it pauses for a moment before it asks again, because failing costs nothing and would
    /// fill the figures.
    fn ask(self, began: Instant, turn: &AtomicUsize) -> Met {
        const MOMENT: Duration = Duration::from_millis(100);
        let mut met = Met::default();
        let end = began + Duration::from_secs(self.seconds.into());
        while Instant::now() < end && !interrupt::is_asked() {
            let name = &self.names[turn.fetch_add(1, Relaxed) % self.names.len()];
            if !self.once(name, &mut met) {
                std::thread::sleep(MOMENT);
            }
        }
        met
    }

    fn once(&self, name: &str, met: &mut Met) -> bool {
        let asked = Instant::now();
        let Ok(mut connection) = (Dial { patience: self.patience, ..Dial::default() }).open(self.address) else {
            met.errors.connect += 1;
            return false;
        };
        match connection.fetch(name) {
            Ok(response) if response.status == 200 && response.body == self.answer.as_bytes() => {
                met.answers.push((Instant::now(), asked.elapsed()));
                return true;
            }
            Ok(_) => met.errors.status += 1,
            Err(_) if asked.elapsed() >= self.patience => met.errors.timeout += 1,
            Err(_) => met.errors.read += 1,
        }
        false
    }
}

/// Adds up the clients' results. The time that counts ends with the last good answer.
fn count(began: Instant, met: &[Met]) -> Counts {
    let answers = || met.iter().flat_map(|met| &met.answers);
    let ended = answers().map(|(when, _)| *when).max().unwrap_or_else(Instant::now);
    let mut timeline = Timeline::default();
    answers().for_each(|(when, took)| timeline.at(*when - began).answer(*took, 0));
    let timeline = timeline.within(INTERVALS);
    let moments: Vec<Moment> = timeline.intervals.iter().map(Moment::of).collect();
    let seconds = (ended - began).as_secs_f64();
    let sum = |figure: fn(&Errors) -> u64| met.iter().map(|met| figure(&met.errors)).sum();
    let errors = Errors {
        connect: sum(|errors| errors.connect),
        read: sum(|errors| errors.read),
        timeout: sum(|errors| errors.timeout),
        status: sum(|errors| errors.status),
        write: 0,
    };
    let latencies_us = answers().map(|(_, took)| took.as_micros() as u64).collect();
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
        let counts = Call { address, names: &names, answer: "OK\n", clients: 1, seconds: 1, patience }.make();
        assert!(counts.requests > 1 && counts.errors.status.abs_diff(2 * counts.requests) <= 2, "{counts:?}");
        assert_eq!(counts.errors.total(), counts.errors.status);
    }
}
