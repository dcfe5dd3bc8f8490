//! The results of a load: counts and distributions.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::distribution::Distribution;
use super::moment;
use super::response::Response;
use super::scenario::tally::Tally;
use super::timeline::{Quarters, Timeline};
use crate::load::tls::Agreed;

/// Failures by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failures {
    /// The server refused a connection.
    pub(crate) refused: u64,
    /// A connection was not established for another reason.
    pub(crate) connect: u64,
    /// There was no descriptor for a connection.
    pub(crate) no_descriptor: u64,
    /// There was no local port for a connection.
    pub(crate) no_port: u64,
    /// The request could not be sent.
    pub(crate) write: u64,
    /// The connection broke before the response was complete.
    pub(crate) read: u64,
    /// The server reset the connection.
    pub(crate) reset: u64,
    /// The response was invalid.
    pub(crate) malformed: u64,
    /// The response took too long.
    pub(crate) timeout: u64,
    /// A handshake failed, or later input was not TLS.
    pub(crate) tls: u64,
    /// The server did not answer, though it answered others on the same connection (HTTP/2).
    pub(crate) stream: u64,
}

impl Failures {
    /// The kinds with their counts, under their names in results.
    pub(crate) fn kinds(&self) -> [(&'static str, u64); 11] {
        [
            ("refused", self.refused),
            ("connect", self.connect),
            ("no_descriptor", self.no_descriptor),
            ("no_port", self.no_port),
            ("write", self.write),
            ("read", self.read),
            ("reset", self.reset),
            ("malformed", self.malformed),
            ("timeout", self.timeout),
            ("tls", self.tls),
            ("stream", self.stream),
        ]
    }

    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.kinds().iter().map(|(_, count)| count).sum()
    }

    fn add(&mut self, other: &Failures) {
        self.refused += other.refused;
        self.connect += other.connect;
        self.no_descriptor += other.no_descriptor;
        self.no_port += other.no_port;
        self.write += other.write;
        self.read += other.read;
        self.reset += other.reset;
        self.malformed += other.malformed;
        self.timeout += other.timeout;
        self.tls += other.tls;
        self.stream += other.stream;
    }
}

/// The times of an answered request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Times {
    /// Was due, or its connection was begun, or the response before it had come.
    #[serde(with = "moment")]
    pub(crate) began: Instant,
    /// Its connection was established, and its handshake complete; equals `began` if it was there already.
    #[serde(with = "moment")]
    pub(crate) connected: Instant,
    #[serde(with = "moment")]
    pub(crate) sent: Instant,
    /// The first byte of the response had come.
    #[serde(with = "moment")]
    pub(crate) first: Instant,
    #[serde(with = "moment")]
    pub(crate) done: Instant,
}

/// Complete handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Handshakes {
    pub(crate) full: u64,
    /// Handshakes that resumed an earlier session.
    pub(crate) resumed: u64,
}

/// The results of a load, or of one thread's share of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(with = "moment")]
    start: Instant,
    #[serde(rename = "answers")]
    pub(crate) responses: u64,
    /// Responses by the first digit of their status.
    pub(crate) classes: [u64; 6],
    /// Responses with a status below 400 and the expected body.
    pub(crate) good: u64,
    /// Responses whose body has a different length from the first one.
    pub(crate) other_length: u64,
    pub(crate) failures: Failures,
    /// Bytes of heads, bodies and framing.
    pub(crate) head: u64,
    pub(crate) body: u64,
    pub(crate) framing: u64,
    pub(crate) sent_bytes: u64,
    /// Established connections.
    pub(crate) connections: u64,
    /// The most connections at a time, and the most begun at once.
    pub(crate) concurrent: usize,
    pub(crate) burst: u64,
    /// Responses after which their connection could carry another request.
    pub(crate) kept: u64,
    /// Connections that the server closed while they were idle: requests sent over them at that moment were sent again.
    pub(crate) reopened: u64,
    /// Clients that were still waiting at the end, and had been for more than half of the time.
    pub(crate) starved: u64,
    /// The first good response: its `Server` field, and the length of its body.
    pub(crate) first: Option<(Option<String>, u64)>,
    /// Time to establish a connection.
    pub(crate) connect: Distribution,
    /// Time from there to complete its handshake, if it has one.
    pub(crate) handshake: Distribution,
    /// Both together: time until a request could be sent.
    pub(crate) setup: Distribution,
    pub(crate) handshakes: Handshakes,
    /// The negotiated parameters of the first handshake.
    pub(crate) agreed: Option<Agreed>,
    /// The first fault in received data.
    pub(crate) complaint: Option<String>,
    /// From the request to the first byte of its response.
    pub(crate) wait: Distribution,
    /// Total time from the first byte of responses to their last.
    pub(crate) transfer: Duration,
    /// From connection or request to the end of the response.
    pub(crate) processing: Distribution,
    /// From the beginning to the end.
    pub(crate) total: Distribution,
    /// How late requests were sent, through the generator's fault.
    pub(crate) lag: Distribution,
    /// The lifetimes of connections that made all their requests.
    pub(crate) lives: Distribution,
    /// What became of sessions, if there are any.
    pub(crate) tally: Option<Box<Tally>>,
    /// Quarters not handed over yet.
    #[serde(skip)]
    pub(super) quarters: Quarters,
    /// The results over time; empty until all threads are done.
    #[serde(skip)]
    pub(crate) timeline: Timeline,
    pub(crate) samples: Vec<Times>,
    /// The processor time of the threads, and the elapsed time.
    pub(crate) busy: f64,
    pub(crate) elapsed: Duration,
}

impl Record {
    pub(crate) fn new(start: Instant) -> Self {
        Self {
            start,
            responses: 0,
            classes: [0; 6],
            good: 0,
            other_length: 0,
            failures: Failures::default(),
            head: 0,
            body: 0,
            framing: 0,
            sent_bytes: 0,
            connections: 0,
            concurrent: 0,
            burst: 0,
            kept: 0,
            reopened: 0,
            starved: 0,
            first: None,
            connect: Distribution::new(),
            handshake: Distribution::new(),
            setup: Distribution::new(),
            handshakes: Handshakes::default(),
            agreed: None,
            complaint: None,
            wait: Distribution::new(),
            transfer: Duration::ZERO,
            processing: Distribution::new(),
            total: Distribution::new(),
            lag: Distribution::new(),
            lives: Distribution::new(),
            tally: None,
            quarters: Quarters::default(),
            timeline: Timeline::default(),
            samples: Vec::new(),
            busy: 0.0,
            elapsed: Duration::ZERO,
        }
    }

    /// Records a response, which is good if it is no error, and has the expected body.
    pub(super) fn add_response(&mut self, response: &Response, times: &Times) {
        self.judged(response, times, response.status < 400 && response.is_expected);
    }

    /// Records a response, good or not.
    pub(super) fn judged(&mut self, response: &Response, times: &Times, is_good: bool) {
        self.responses += 1;
        self.classes[usize::from(response.status / 100).min(5)] += 1;
        self.kept += u64::from(response.keeps);
        self.head += response.head;
        self.body += response.body;
        self.framing += response.framing;
        let length = self.first.as_ref().map_or(response.body, |(_, length)| *length);
        self.good += u64::from(is_good);
        self.other_length += u64::from(response.body != length);
        let total = times.done - times.began;
        self.wait.record(times.first - times.sent);
        self.transfer += times.done - times.first;
        self.processing.record(times.done - times.connected);
        self.total.record(total);
        self.quarters.at(times.done - self.start).add_response(total, response.head + response.body + response.framing);
    }

    /// Counts a failure.
    pub(super) fn fail(&mut self, now: Instant, count: fn(&mut Failures) -> &mut u64) {
        *count(&mut self.failures) += 1;
        self.quarters.at(now - self.start).failures += 1;
    }

    /// Adds another thread's results.
    pub(super) fn add(&mut self, other: Self) {
        self.responses += other.responses;
        self.classes.iter_mut().zip(other.classes).for_each(|(class, more)| *class += more);
        self.good += other.good;
        self.other_length += other.other_length;
        self.failures.add(&other.failures);
        self.head += other.head;
        self.body += other.body;
        self.framing += other.framing;
        self.sent_bytes += other.sent_bytes;
        self.connections += other.connections;
        self.concurrent += other.concurrent;
        self.burst = self.burst.max(other.burst);
        self.kept += other.kept;
        self.transfer += other.transfer;
        self.reopened += other.reopened;
        self.starved += other.starved;
        self.first = self.first.take().or(other.first);
        self.handshakes.full += other.handshakes.full;
        self.handshakes.resumed += other.handshakes.resumed;
        self.agreed = self.agreed.take().or(other.agreed);
        self.complaint = self.complaint.take().or(other.complaint);
        for (distribution, more) in [
            (&mut self.connect, &other.connect),
            (&mut self.handshake, &other.handshake),
            (&mut self.setup, &other.setup),
            (&mut self.wait, &other.wait),
            (&mut self.processing, &other.processing),
            (&mut self.total, &other.total),
            (&mut self.lag, &other.lag),
            (&mut self.lives, &other.lives),
        ] {
            distribution.add(more);
        }
        match (&mut self.tally, other.tally) {
            (Some(tally), Some(more)) => tally.add(&more),
            (tally, more) => *tally = tally.take().or(more),
        }
        self.samples.extend(other.samples);
        self.busy = self.busy.max(other.busy);
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    /// Completed requests. Those in progress when the time is up do not count.
    pub(crate) fn asked(&self) -> u64 {
        self.responses + self.failures.total()
    }

    /// All bytes that were received.
    pub(crate) fn received(&self) -> u64 {
        self.head + self.body + self.framing
    }

    /// Responses per second.
    pub(crate) fn rate(&self) -> f64 {
        self.responses as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}
