//! Where the counters of the whole server stood at a moment.

use super::durations::BUCKETS;

/// How many moments are kept: one for each second of ten minutes.
pub const MOMENTS: usize = 600;
/// Words of a moment.
pub const WORDS: usize = 9 + CLASS_COUNT + BUCKETS;
const CLASS_COUNT: usize = 5;

/// Where the counters of the whole server stood. Requests of the live page are left out, except from the CPU time, the
/// number of connections and the handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// When, in µs since 1970.
    pub at: u64,
    /// Requests answered.
    pub accesses: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// CPU time of children and of scripts that ended, in µs.
    pub cpu: u64,
    /// Open connections.
    pub connections: u64,
    /// Requests being served.
    pub served: u64,
    /// TLS handshakes that were completed.
    pub handshakes: u64,
    /// Handshakes that failed.
    pub failed_handshakes: u64,
    /// Answers with a status of 1xx to 5xx.
    pub classes: [u64; CLASS_COUNT],
    /// Requests by how long they took, counted between the [`BOUNDS`](super::BOUNDS).
    pub durations: [u64; BUCKETS],
}

impl Moment {
    /// Its numbers, in the order of its fields.
    pub fn words(&self) -> [u64; WORDS] {
        let Moment { at, accesses, sent, received, cpu, connections, served, .. } = *self;
        let Moment { handshakes, failed_handshakes, classes, durations, .. } = self;
        let single = [at, accesses, sent, received, cpu, connections, served, *handshakes, *failed_handshakes];
        let mut all = single.iter().chain(classes).chain(durations).copied();
        std::array::from_fn(|_| all.next().unwrap_or(0))
    }

    pub(super) fn of(words: [u64; WORDS]) -> Moment {
        let [at, accesses, sent, received, cpu, connections, served, handshakes, failed_handshakes, ref series @ ..] =
            words;
        Moment {
            at,
            accesses,
            sent,
            received,
            cpu,
            connections,
            served,
            handshakes,
            failed_handshakes,
            classes: std::array::from_fn(|index| series[index]),
            durations: std::array::from_fn(|index| series[CLASS_COUNT + index]),
        }
    }
}
