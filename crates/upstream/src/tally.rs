//! What the servers behind this one do: counts that all processes share.
//!
//! A count that only grows is one word for all processes. What a child has under way is in a row of its own, so that it can be given
//! back if the child dies at any instruction: whoever adds up the rows leaves out none, and the parent [clears](Ledger::give_back) those of
//! children that are gone.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use sys::shared_lock;
use sys::shm::Shared;
use sys::time::Instant;

/// How many processes have rows. What others have under way is not counted.
const ROWS: usize = 1024;

/// What is counted of a server, and only grows. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Requests that were to go to it.
    Requests,
    /// Connections that were made.
    Opened,
    /// How long that took.
    Connecting,
    /// Requests that went over a connection that was there.
    Reused,
    /// Responses that have begun.
    Begun,
    /// How long after their requests.
    Beginning,
    /// Requests that have ended.
    Ended,
    /// How long they took.
    Serving,
    /// The first of the [faults](Fault).
    Faults,
}

/// What goes wrong with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be connected to.
    Connect,
    /// The handshake of TLS fails.
    Tls,
    /// It is silent for too long.
    Timeout,
    /// It ends the connection too early.
    Lost,
    /// Its response is malformed.
    Malformed,
}

impl Fault {
    /// All of them, with their words on pages.
    pub const ALL: [(Fault, &str); 5] = [
        (Fault::Connect, "connect"),
        (Fault::Tls, "tls"),
        (Fault::Timeout, "timeout"),
        (Fault::Lost, "lost"),
        (Fault::Malformed, "malformed"),
    ];
}

/// The counts of a server.
const WORDS: usize = Count::Faults as usize + Fault::ALL.len();

/// What a process has under way with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gauge {
    /// Requests.
    Busy,
    /// Connections that it keeps for itself.
    Idle,
}

/// The number of gauges.
const GAUGES: usize = 2;

/// The counts of several servers.
pub struct Ledger {
    counts: Shared<[AtomicU64; WORDS]>,
    /// How many rows have been in use; then the rows: the process, and the gauges of each server.
    rows: Shared<AtomicU64>,
    /// The row of this process, plus one; 0: it has none yet.
    own: AtomicU64,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("servers", &self.counts.len()).finish_non_exhaustive()
    }
}

impl Ledger {
    /// Counts of so many servers, for this process and those that it forks.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(servers: usize) -> io::Result<Arc<Ledger>> {
        let counts = Shared::new(servers)?;
        let rows = Shared::new(1 + ROWS * (1 + GAUGES * servers))?;
        Ok(Arc::new(Ledger { counts, rows, own: AtomicU64::new(0) }))
    }

    /// The counts of one of them.
    pub fn tally(self: &Arc<Ledger>, index: usize) -> Tally {
        Tally { ledger: self.clone(), index }
    }

    /// Gives back what processes that are gone had under way. For the parent, now and then: it has reaped them.
    pub fn give_back(&self) {
        for row in 0..self.used() {
            let owner = self.owner(row).load(Relaxed);
            if owner != 0 && !shared_lock::exists(owner) && self.seize(row, owner) {
                self.owner(row).store(0, Release);
            }
        }
    }

    fn used(&self) -> usize {
        usize::try_from(self.rows[0].load(Acquire)).map_or(ROWS, |used| used.min(ROWS))
    }

    fn start(&self, row: usize) -> usize {
        1 + row * (1 + GAUGES * self.counts.len())
    }

    fn owner(&self, row: usize) -> &AtomicU64 {
        &self.rows[self.start(row)]
    }

    fn gauge(&self, row: usize, server: usize, gauge: Gauge) -> &AtomicU64 {
        &self.rows[self.start(row) + 1 + GAUGES * server + gauge as usize]
    }

    /// The sum over all processes.
    fn sum(&self, server: usize, gauge: Gauge) -> u64 {
        let all = (0..self.used()).map(|row| self.gauge(row, server, gauge).load(Relaxed));
        all.fold(0, u64::wrapping_add)
    }

    /// The row of this process. `None`: there is none left.
    fn own_row(&self) -> Option<usize> {
        match self.own.load(Relaxed) {
            0 => self.find_row(),
            number => usize::try_from(number - 1).ok().filter(|row| *row < ROWS),
        }
    }

    #[cold]
    fn find_row(&self) -> Option<usize> {
        let is_free = |row: &usize| self.owner(*row).load(Relaxed) == 0 && self.seize(*row, 0);
        let is_left = |row: &usize| {
            let owner = self.owner(*row).load(Relaxed);
            !shared_lock::is_there(owner) && self.seize(*row, owner)
        };
        let found = (0..ROWS).find(is_free).or_else(|| (0..ROWS).find(is_left));
        let number = found.unwrap_or(ROWS) as u64 + 1;
        // Another thread of this process may have been faster: its row is the one.
        match self.own.compare_exchange(0, number, AcqRel, Acquire) {
            Ok(_) => {
                self.rows[0].fetch_max(found.map_or(0, |row| row as u64 + 1), AcqRel);
                found
            }
            Err(other) => {
                found.iter().for_each(|row| self.owner(*row).store(0, Release));
                usize::try_from(other - 1).ok().filter(|row| *row < ROWS)
            }
        }
    }

    /// Takes a row from its former owner, and clears it. `false`: another process has done so.
    fn seize(&self, row: usize, owner: u64) -> bool {
        let is_ours = self.owner(row).compare_exchange(owner, shared_lock::own(), AcqRel, Relaxed).is_ok();
        if is_ours && owner != 0 {
            let start = self.start(row) + 1;
            self.rows[start..start + GAUGES * self.counts.len()].iter().for_each(|word| word.store(0, Relaxed));
        }
        is_ours
    }
}

/// The counts of a server behind this one.
#[derive(Clone, Debug)]
pub struct Tally {
    ledger: Arc<Ledger>,
    index: usize,
}

impl Tally {
    fn word(&self, number: usize) -> &AtomicU64 {
        &self.ledger.counts[self.index][number]
    }

    fn add(&self, count: Count, by: u64) {
        self.word(count as usize).fetch_add(by, Relaxed);
    }

    fn add_timed(&self, count: Count, times: Count, time: Duration) {
        self.add(count, 1);
        self.add(times, micros(time));
    }

    /// A connection was made, in this time.
    pub fn opened(&self, time: Duration) {
        self.add_timed(Count::Opened, Count::Connecting, time);
    }

    /// A request goes over a connection that was there.
    pub fn reused(&self) {
        self.add(Count::Reused, 1);
    }

    /// A response has begun, so long after its request.
    pub fn begun(&self, time: Duration) {
        self.add_timed(Count::Begun, Count::Beginning, time);
    }

    /// Something went wrong.
    pub fn fault(&self, fault: Fault) {
        self.word(Count::Faults as usize + fault as usize).fetch_add(1, Relaxed);
    }

    /// What was counted.
    pub fn get(&self, count: Count) -> u64 {
        self.word(count as usize).load(Relaxed)
    }

    /// How often this went wrong.
    pub fn faults(&self, fault: Fault) -> u64 {
        self.word(Count::Faults as usize + fault as usize).load(Relaxed)
    }

    /// The requests that are on their way now.
    pub fn busy(&self) -> u64 {
        self.ledger.sum(self.index, Gauge::Busy)
    }

    /// The idle connections that children keep for themselves.
    pub fn idle(&self) -> u64 {
        self.ledger.sum(self.index, Gauge::Idle)
    }

    /// Begins with what another one has counted.
    pub fn go_on_from(&self, former: &Tally) {
        for number in 0..WORDS {
            self.word(number).store(former.word(number).load(Relaxed), Relaxed);
        }
    }

    /// The counts that it is one of.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// A request is on its way, until the returned value is dropped.
    pub fn begin(&self) -> UnderWay {
        self.add(Count::Requests, 1);
        UnderWay { began: Instant::now(), mark: Mark::new(self, Gauge::Busy) }
    }

    /// A request is on its way, until the returned value is dropped. It counts once it has ended well: see
    /// [`recurred`](Self::recurred).
    pub fn busy_one(&self) -> BusyMark {
        BusyMark(Mark::new(self, Gauge::Busy))
    }

    /// A request has gone over a connection that was there, and its response came at once, after this time.
    pub fn recurred(&self, time: Duration) {
        self.add(Count::Requests, 1);
        self.add(Count::Reused, 1);
        self.add_timed(Count::Begun, Count::Beginning, time);
        self.add_timed(Count::Ended, Count::Serving, time);
    }

    /// A connection is idle, until the returned value is dropped.
    pub(crate) fn idle_one(&self) -> IdleMark {
        IdleMark(Mark::new(self, Gauge::Idle))
    }
}

/// A request that is on its way.
#[derive(Debug)]
pub struct UnderWay {
    began: Instant,
    mark: Mark,
}

impl UnderWay {
    /// Something went wrong.
    pub fn fault(&self, fault: Fault) {
        self.mark.tally.fault(fault);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.mark.tally.add_timed(Count::Ended, Count::Serving, self.began.elapsed());
    }
}

/// A request that is on its way.
#[derive(Debug)]
pub struct BusyMark(#[expect(dead_code, reason = "it counts as long as it is there")] Mark);

/// A connection that is idle.
#[derive(Debug)]
pub(crate) struct IdleMark(#[expect(dead_code, reason = "it counts as long as it is there")] Mark);

/// One of what a gauge counts.
#[derive(Debug)]
struct Mark {
    tally: Tally,
    /// The row of this process. `None`: it is not counted.
    row: Option<usize>,
    gauge: Gauge,
}

impl Mark {
    fn new(tally: &Tally, gauge: Gauge) -> Mark {
        let row = tally.ledger.own_row();
        row.iter().for_each(|row| _ = tally.ledger.gauge(*row, tally.index, gauge).fetch_add(1, Relaxed));
        Mark { tally: tally.clone(), row, gauge }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(row) = self.row {
            self.tally.ledger.gauge(row, self.tally.index, self.gauge).fetch_sub(1, Relaxed);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dead_had_under_way_is_given_back() {
        let ledger = Ledger::new(2).expect("memory");
        let (one, other) = (ledger.tally(0), ledger.tally(1));
        // A process that is gone: its number is above all that there can be.
        let gone = (1 << shared_lock::NUMBER_BITS) - 1;
        ledger.owner(0).store(gone, Relaxed);
        ledger.gauge(0, 1, Gauge::Busy).store(7, Relaxed);
        ledger.rows[0].store(1, Relaxed);
        let under_way = other.begin();
        assert_eq!((one.busy(), other.busy()), (0, 8), "this process has another row");
        ledger.give_back();
        assert_eq!((one.busy(), other.busy()), (0, 1));
        drop(under_way);
        assert_eq!((other.busy(), other.get(Count::Requests), other.get(Count::Ended)), (0, 1, 1));
        assert_eq!(ledger.owner(0).load(Relaxed), 0, "another process may have the row");
    }

    #[test]
    fn a_row_is_taken_from_the_dead_if_no_other_is_left() {
        let ledger = Ledger::new(1).expect("memory");
        let gone = (1 << shared_lock::NUMBER_BITS) - 1;
        (0..ROWS).for_each(|row| ledger.owner(row).store(shared_lock::own(), Relaxed));
        let one = ledger.tally(0);
        drop(one.begin());
        assert_eq!(one.begin().mark.row, None, "they are all taken");
        let ledger = Ledger::new(1).expect("memory");
        (0..ROWS).for_each(|row| ledger.owner(row).store(gone, Relaxed));
        ledger.gauge(0, 0, Gauge::Busy).store(7, Relaxed);
        let one = ledger.tally(0);
        let _under_way = one.begin();
        assert_eq!(one.busy(), 1);
    }

    #[test]
    fn counts() {
        let ledger = Ledger::new(1).expect("memory");
        let one = ledger.tally(0);
        one.opened(Duration::from_micros(5));
        one.begun(Duration::from_micros(7));
        one.fault(Fault::Malformed);
        one.fault(Fault::Connect);
        let idle = one.idle_one();
        assert_eq!((one.idle(), one.busy()), (1, 0));
        drop(idle);
        let next = Ledger::new(1).expect("memory").tally(0);
        next.go_on_from(&one);
        assert_eq!((next.get(Count::Opened), next.get(Count::Connecting), next.get(Count::Beginning)), (1, 5, 7));
        assert_eq!((next.faults(Fault::Malformed), next.faults(Fault::Connect), next.faults(Fault::Tls)), (1, 1, 0));
    }
}
