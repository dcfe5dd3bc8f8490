//! What is asked for, of whom, how often and for how long.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::tls::Tls;

/// A load, as it is to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The server, or its addresses, which connections take in turn.
    pub(crate) servers: Vec<SocketAddr>,
    /// The addresses to come from, in turn; none leaves it to the kernel. One address has some 28 000 ports.
    pub(crate) sources: Vec<IpAddr>,
    /// What is sent, in turn; at least one.
    pub(crate) requests: Vec<Request>,
    /// When.
    pub(crate) arrival: Arrival,
    /// The most connections at a time.
    pub(crate) clients: usize,
    /// After so many requests a connection is closed; none keeps it.
    pub(crate) calls: Option<u64>,
    /// So many requests of a connection are under way at a time: one behind the other, or as streams of HTTP/2.
    pub(crate) pipeline: usize,
    /// How connections are encrypted, where they are.
    pub(crate) tls: Option<Tls>,
    /// HTTP/2 is spoken.
    pub(crate) http2: bool,
    /// A connection that has its answers rests for so long before it asks again.
    pub(crate) think: Duration,
    /// How many threads share all this.
    pub(crate) threads: usize,
    /// When it is over: after so many requests, or connections where these are due.
    pub(crate) count: Option<u64>,
    /// When it is over at the latest.
    pub(crate) time: Option<Duration>,
    /// A request without an answer after this has failed.
    pub(crate) timeout: Duration,
    /// The body of a good answer, where it matters.
    pub(crate) body: Option<Arc<[u8]>>,
    /// An answer that breaks off is one, as far as it has come: ab and httperf have it so.
    pub(crate) takes_broken: bool,
    /// Keep the times of each request, not only how they are distributed.
    pub(crate) samples: bool,
    /// Look for events without sleeping: for a thread that has a core to itself, since being woken costs as much as the answers
    /// that it times.
    pub(crate) spin: bool,
}

/// The bytes of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) bytes: Arc<[u8]>,
    /// Its answer has no body, whatever the head says (`HEAD`).
    pub(crate) bodiless: bool,
}

/// When there is something to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Arrival {
    /// A client asks again as soon as it has its answer: a closed loop.
    Closed,
    /// Requests become due, whatever became of those before: an open loop. Latencies count from when they were due.
    Requests(Pace),
    /// Connections become due, each of which makes its requests one after the other. What fails then is a connection: it counts once,
    /// whatever it was to carry.
    Connections(Pace),
}

/// The times between two of what becomes due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Pace {
    /// Always the same. Without a distance, the next is due as soon as there is room for it.
    Constant(Duration),
    /// Anything between these two.
    Uniform(Duration, Duration),
    /// Exponentially distributed around this mean.
    Exponential(Duration),
}

impl Pace {
    /// So many a second.
    pub(crate) fn per_second(rate: f64) -> Pace {
        Pace::Constant(Duration::from_secs_f64(1.0 / rate))
    }

    /// The mean of the distances.
    pub(crate) fn mean(self) -> Duration {
        match self {
            Pace::Constant(time) | Pace::Exponential(time) => time,
            Pace::Uniform(least, most) => least.saturating_add(most) / 2,
        }
    }

    /// That of one of so many threads.
    fn of_one_in(self, threads: usize) -> Pace {
        let times = |time: Duration| time.saturating_mul(u32::try_from(threads).unwrap_or(u32::MAX));
        match self {
            Pace::Constant(time) => Pace::Constant(times(time)),
            Pace::Uniform(least, most) => Pace::Uniform(times(least), times(most)),
            Pace::Exponential(mean) => Pace::Exponential(times(mean)),
        }
    }
}

/// What one thread does of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share<'p> {
    pub(crate) plan: &'p Plan,
    /// Its number, from 0.
    pub(crate) thread: usize,
    pub(crate) clients: usize,
    pub(crate) count: Option<u64>,
    pub(crate) arrival: Arrival,
    /// How long after the start something becomes due for the first time: threads take turns.
    pub(crate) delay: Duration,
}

impl Plan {
    /// The least that may be asked for: one client asks a server for these requests, once.
    pub(crate) fn of(server: SocketAddr, requests: Vec<Request>) -> Self {
        Self {
            servers: vec![server],
            sources: Vec::new(),
            requests,
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
            samples: false,
            spin: false,
        }
    }

    /// One share for each thread that has something to do: as even as may be, the first ones a little larger.
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
        // Nobody begins who finds nothing to ask for.
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

    /// One client that asks for `/` once.
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
