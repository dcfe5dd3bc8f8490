//! The plan of a load: requests, servers, number and duration.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::scenario::Scenario;
use crate::load::tls::Tls;

/// A load to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The server, or its addresses, which connections use in turn.
    pub(crate) servers: Vec<SocketAddr>,
    /// The local addresses, used in turn; none leaves the choice to the kernel. One address has some 28 000 ports.
    pub(crate) sources: Vec<IpAddr>,
    /// The requests, sent in turn; at least one.
    pub(crate) requests: Vec<Request>,
    /// What users do instead: then clients are users, and sessions are counted and become due.
    pub(crate) scenario: Option<Arc<Scenario>>,
    /// When to send them.
    pub(crate) arrival: Arrival,
    /// The most connections at a time.
    pub(crate) clients: usize,
    /// A connection is closed after this many requests; `None` keeps it.
    pub(crate) calls: Option<u64>,
    /// How many requests are in progress at a time on each connection: pipelined, or as streams of HTTP/2.
    pub(crate) pipeline: usize,
    /// The encryption, if any.
    pub(crate) tls: Option<Tls>,
    /// Whether to speak HTTP/2.
    pub(crate) http2: bool,
    /// How long a connection rests after a response before it asks again.
    pub(crate) think: Duration,
    /// How many threads share the work.
    pub(crate) threads: usize,
    /// How many requests it has, or connections if those are due.
    pub(crate) count: Option<u64>,
    /// The most time it may take.
    pub(crate) time: Option<Duration>,
    /// A request without a response after this has failed.
    pub(crate) timeout: Duration,
    /// The body of a good response, if it matters.
    pub(crate) body: Option<Arc<[u8]>>,
    /// Whether a truncated response counts, up to its end: in ab and httperf it does.
    pub(crate) takes_broken: bool,
    /// How much of responses is shown as they arrive: the level of ab's `-v`; `None` is nothing.
    pub(crate) shows: Option<u32>,
    /// Keep the times of each request, not only their distribution.
    pub(crate) samples: bool,
    /// Look for events without sleeping: for a thread with a core to itself, since a wake-up costs as much as the
    /// responses it times.
    pub(crate) spin: bool,
}

/// The bytes of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) bytes: Arc<[u8]>,
    /// Whether its response has no body, whatever the head says (`HEAD`).
    pub(crate) bodiless: bool,
}

/// When requests are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Arrival {
    /// A client asks again as soon as it has its response: a closed loop.
    Closed,
    /// Requests become due regardless of earlier ones: an open loop. Latencies count from when they were due.
    Requests(Pace),
    /// Connections become due, each of which makes its requests one after the other. A failure is then that of a
    /// connection: it counts once, however many requests it should have carried.
    Connections(Pace),
}

/// The intervals between requests or connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Pace {
    /// Always the same. If it is zero, the next is due as soon as there is room for it.
    Constant(Duration),
    /// Anything between these two.
    Uniform(Duration, Duration),
    /// Exponentially distributed around this mean.
    Exponential(Duration),
}

impl Pace {
    /// So many per second.
    pub(crate) fn per_second(rate: f64) -> Pace {
        Pace::Constant(Duration::from_secs_f64(1.0 / rate))
    }

    /// The mean interval.
    pub(crate) fn mean(self) -> Duration {
        match self {
            Pace::Constant(time) | Pace::Exponential(time) => time,
            Pace::Uniform(least, most) => least.saturating_add(most) / 2,
        }
    }

    /// The pace of one of so many threads.
    fn of_one_in(self, threads: usize) -> Pace {
        let times = |time: Duration| time.saturating_mul(u32::try_from(threads).unwrap_or(u32::MAX));
        match self {
            Pace::Constant(time) => Pace::Constant(times(time)),
            Pace::Uniform(least, most) => Pace::Uniform(times(least), times(most)),
            Pace::Exponential(mean) => Pace::Exponential(times(mean)),
        }
    }
}

/// One thread's share of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share<'p> {
    pub(crate) plan: &'p Plan,
    /// Its number, from 0.
    pub(crate) thread: usize,
    pub(crate) clients: usize,
    pub(crate) count: Option<u64>,
    pub(crate) arrival: Arrival,
    /// The delay of its first request after the start: threads take turns.
    pub(crate) delay: Duration,
}

impl Share<'_> {
    /// The seed of its random numbers.
    pub(super) fn seed(&self) -> u64 {
        0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(self.thread as u64 + 1)
    }
}

impl Plan {
    /// The smallest plan: one client sends these requests to a server, once.
    pub(crate) fn of(server: SocketAddr, requests: Vec<Request>) -> Self {
        Self {
            servers: vec![server],
            sources: Vec::new(),
            requests,
            scenario: None,
            arrival: Arrival::Closed,
            clients: 1,
            calls: None,
            pipeline: 1,
            tls: None,
            http2: false,
            think: Duration::ZERO,
            threads: 1,
            count: Some(1),
            time: None,
            timeout: Duration::from_secs(10),
            body: None,
            takes_broken: false,
            shows: None,
            samples: false,
            spin: false,
        }
    }

    /// One share for each thread that has something to do: as even as possible, the first ones a little larger.
    pub(crate) fn shares(&self) -> Vec<Share<'_>> {
        let threads = self.threads.clamp(1, self.clients.max(1));
        let part = |all: u64, thread: usize| {
            let threads = threads as u64;
            all / threads + u64::from((thread as u64) < all % threads)
        };
        let arrival = match self.arrival {
            Arrival::Closed => Arrival::Closed,
            Arrival::Requests(pace) => Arrival::Requests(pace.of_one_in(threads)),
            Arrival::Connections(pace) => Arrival::Connections(pace.of_one_in(threads)),
        };
        // A thread without requests does not begin.
        let most = |thread| match (self.arrival, self.count) {
            (Arrival::Closed, Some(count)) => usize::try_from(part(count, thread)).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let turn = match self.arrival {
            Arrival::Closed => Duration::ZERO,
            Arrival::Requests(pace) | Arrival::Connections(pace) => pace.mean(),
        };
        let share = |thread: usize| Share {
            plan: self,
            thread,
            clients: (part(self.clients as u64, thread) as usize).min(most(thread)),
            count: self.count.map(|count| part(count, thread)),
            arrival,
            delay: turn.saturating_mul(u32::try_from(thread).unwrap_or(u32::MAX)),
        };
        (0..threads).map(share).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One client that requests `/` once.
    pub(in crate::load) fn plan(server: SocketAddr) -> Plan {
        let bytes = format!("GET / HTTP/1.1\r\nHost: {server}\r\n\r\n").into_bytes().into();
        Plan::of(server, vec![Request { bytes, bodiless: false }])
    }

    #[test]
    fn threads_share_clients_requests_and_the_rate() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let pace = Pace::per_second(100.0);
        let plan = Plan { clients: 5, threads: 3, count: Some(10), arrival: Arrival::Requests(pace), ..plan(address) };
        let shares = plan.shares();
        let parts: Vec<_> = shares.iter().map(|share| (share.clients, share.count)).collect();
        assert_eq!(parts, [(2, Some(4)), (2, Some(3)), (1, Some(3))]);
        assert_eq!(shares[0].arrival, Arrival::Requests(Pace::Constant(Duration::from_millis(30))));
        let delays: Vec<_> = shares.iter().map(|share| share.delay.as_millis()).collect();
        assert_eq!(delays, [0, 10, 20], "threads take turns, and never send at the same moment");
        assert_eq!(Plan { clients: 2, ..plan.clone() }.shares().len(), 2, "a thread without clients has nothing to do");
    }
}
