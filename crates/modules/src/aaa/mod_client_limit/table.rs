//! How much each client may still ask: the generic cell rate algorithm (GCRA), in memory that all children share.
//!
//! A client is one number: the moment at which everything that it has asked is paid for, if each request costs the same time. A request
//! is refused if that moment lies too far ahead. There is nothing to count down, nothing to tidy, and no lock: a request costs one
//! exchange of a word.

use std::collections::hash_map::RandomState;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sys::shm::Shared;

/// How many clients share a bucket: what fits into two cache lines. A client's number has its place there.
const SLOTS: usize = 8;

/// A key and a moment, and so on.
type Bucket = [AtomicU64; 2 * SLOTS];

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rate {
    /// The time that a request or a byte costs.
    pub(super) each: Duration,
    /// How many may come at once.
    pub(super) burst: u32,
}

impl Rate {
    /// How far ahead a client may be whose request is allowed.
    pub(super) fn room(self) -> Duration {
        self.each.saturating_mul(self.burst.saturating_sub(1))
    }

    /// What a client is told that is so far ahead.
    pub(super) fn answer(self, ahead: Duration) -> Answer {
        match self.room().checked_sub(ahead) {
            Some(rest) => Answer::Allowed { left: (rest.as_nanos() / self.each.as_nanos().max(1)) as u64 },
            None => Answer::Refused { wait: ahead - self.room() },
        }
    }
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The client may ask so many more at once.
    Allowed { left: u64 },
    /// The client may ask again after this time.
    Refused { wait: Duration },
}

/// The clients, and what their names are hashed with: nobody can choose names that share a place.
pub(super) static CLIENTS_OF_SERVER: OnceLock<(Table, RandomState)> = OnceLock::new();

/// The clients of the last time. If more come than there is room for, those are forgotten that are closest to having paid.
#[derive(Debug)]
pub(super) struct Table {
    buckets: Shared<Bucket>,
    /// How many requests were refused, and how many only would have been; then the same of connections.
    counts: Shared<AtomicU64>,
}

/// What a limit refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Request = 0,
    Connection = 2,
}

impl Table {
    /// With room for this many clients or a few more.
    pub(super) fn new(clients: usize) -> io::Result<Table> {
        let buckets = clients.div_ceil(SLOTS).max(1).next_power_of_two();
        Ok(Table { buckets: Shared::new(buckets)?, counts: Shared::new(4)? })
    }

    /// Asks for one request of the client with this key at this moment. `takes`: the request counts if it is allowed.
    pub(super) fn ask(&self, key: u64, rate: Rate, now: Duration, takes: bool) -> Answer {
        let (now, each) = (micros(now), micros(rate.each).max(1));
        let paid = match self.place(key) {
            Some(place) => place,
            // Who is not known owes nothing. A look pushes nobody out.
            None if !takes => return rate.answer(Duration::ZERO),
            None => self.claim(key, now),
        };
        loop {
            let before = paid.load(Relaxed);
            let from = before.max(now);
            let answer = rate.answer(Duration::from_micros(from - now));
            let is_final = !takes || matches!(answer, Answer::Refused { .. });
            if is_final || paid.compare_exchange_weak(before, from.saturating_add(each), Relaxed, Relaxed).is_ok() {
                return answer;
            }
        }
    }

    /// Charges a client for something that has happened, whatever it owes: many may have been allowed at the same moment.
    pub(super) fn charge(&self, key: u64, cost: Duration, now: Duration) {
        let (now, cost) = (micros(now), micros(cost).max(1));
        let paid = self.place(key).unwrap_or_else(|| self.claim(key, now));
        // `fetch_update` fails only if the function does.
        let _ = paid.fetch_update(Relaxed, Relaxed, |before| Some(before.max(now).saturating_add(cost)));
    }

    /// Takes back some of a charge.
    pub(super) fn refund(&self, key: u64, cost: Duration) {
        if let Some(paid) = self.place(key) {
            // `fetch_update` fails only if the function does.
            let _ = paid.fetch_update(Relaxed, Relaxed, |before| Some(before.saturating_sub(micros(cost))));
        }
    }

    /// Counts a refusal; `is_real`: the client was refused.
    pub(super) fn count(&self, what: Refused, is_real: bool) {
        self.counts[what as usize + usize::from(!is_real)].fetch_add(1, Relaxed);
    }

    /// How many were refused, and how many only would have been.
    pub(super) fn counts(&self, what: Refused) -> (u64, u64) {
        (self.counts[what as usize].load(Relaxed), self.counts[what as usize + 1].load(Relaxed))
    }

    /// The places of a bucket, each a key and a moment.
    fn places(&self, key: u64) -> &[[AtomicU64; 2]] {
        let bucket = &self.buckets[key as usize & (self.buckets.len() - 1)];
        bucket.as_chunks::<2>().0
    }

    /// The moment of a client that has a place.
    fn place(&self, key: u64) -> Option<&AtomicU64> {
        self.places(key).iter().find(|[own, _]| own.load(Relaxed) == named(key)).map(|[_, paid]| paid)
    }

    /// Takes over a place for a client that has none.
    fn claim(&self, key: u64, now: u64) -> &AtomicU64 {
        let paid = |[own, paid]: &&[AtomicU64; 2]| if own.load(Relaxed) == 0 { 0 } else { paid.load(Relaxed) };
        let places = self.places(key);
        let [own, paid] = places.iter().min_by_key(paid).unwrap_or(&places[0]);
        // Who comes first has the place; another one that comes now shares it once.
        paid.store(now, Relaxed);
        own.store(named(key), Relaxed);
        paid
    }
}

/// A free place has the key 0, and no client.
fn named(key: u64) -> u64 {
    key.max(1)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { each: Duration::from_millis(100), burst: 3 };

    fn at(millis: u64) -> Duration {
        Duration::from_secs(1000) + Duration::from_millis(millis)
    }

    #[test]
    fn a_burst_and_then_a_steady_rate() {
        let table = Table::new(100).unwrap();
        let ask = |millis| table.ask(7, RATE, at(millis), true);
        assert_eq!([0, 0, 0].map(ask), [2, 1, 0].map(|left| Answer::Allowed { left }));
        assert_eq!(ask(0), Answer::Refused { wait: Duration::from_millis(100) });
        assert_eq!(ask(40), Answer::Refused { wait: Duration::from_millis(60) });
        assert_eq!(ask(100), Answer::Allowed { left: 0 });
        assert_eq!(ask(100), Answer::Refused { wait: Duration::from_millis(100) });
        assert_eq!(ask(1000), Answer::Allowed { left: 2 }, "nothing is saved beyond the burst");
        assert_eq!(table.ask(8, RATE, at(100), true), Answer::Allowed { left: 2 }, "another client");
    }

    #[test]
    fn a_look_takes_nothing() {
        let table = Table::new(1).unwrap();
        for _ in 0..10 {
            assert_eq!(table.ask(7, RATE, at(0), false), Answer::Allowed { left: 2 });
        }
    }

    #[test]
    fn a_look_pushes_nobody_out() {
        let table = Table::new(1).unwrap();
        for client in 1..=8 {
            table.ask(client, RATE, at(0), true);
        }
        for other in 9..100 {
            assert_eq!(table.ask(other, RATE, at(0), false), Answer::Allowed { left: 2 });
        }
        for client in 1..=8 {
            assert_eq!(table.ask(client, RATE, at(0), false), Answer::Allowed { left: 1 }, "{client}");
        }
    }

    /// Those that were allowed at the same moment are all paid for later.
    #[test]
    fn charges_go_beyond_the_burst() {
        let table = Table::new(1).unwrap();
        for _ in 0..10 {
            table.charge(7, RATE.each, at(0));
        }
        assert_eq!(table.ask(7, RATE, at(0), false), Answer::Refused { wait: Duration::from_millis(800) });
        assert_eq!(table.ask(7, RATE, at(800), true), Answer::Allowed { left: 0 });
    }

    #[test]
    fn what_was_charged_too_much_is_given_back() {
        let table = Table::new(1).unwrap();
        table.charge(7, RATE.each * 10, at(0));
        table.refund(7, RATE.each * 8);
        assert_eq!(table.ask(7, RATE, at(0), false), Answer::Allowed { left: 0 });
        table.refund(8, RATE.each);
    }

    #[test]
    fn crowds_push_out_those_who_have_paid() {
        let table = Table::new(1).unwrap();
        for _ in 0..3 {
            table.ask(1, RATE, at(0), true);
        }
        for other in 2..100 {
            table.ask(other, RATE, at(0), true);
        }
        assert!(matches!(table.ask(1, RATE, at(0), true), Answer::Refused { .. }), "who owes most stays");
    }

    /// Never more than the rate allows, however many ask at a time.
    #[test]
    fn threads_share_a_limit() {
        let table = Table::new(10).unwrap();
        let allowed = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let answer = table.ask(5, Rate { burst: 50, ..RATE }, at(0), true);
                        allowed.fetch_add(usize::from(matches!(answer, Answer::Allowed { .. })), Relaxed);
                    }
                });
            }
        });
        assert_eq!(allowed.into_inner(), 50);
    }
}
