//! What the servers behind this one do: counts that all processes share.
//!
//! Each process has a row of its own, which nobody else writes, and whoever reads adds up the rows. So no process waits for the memory
//! that another one has just written, and where one thread serves all connections of a process, it counts without locks. A process may
//! die at any instruction: its counts stay in the row, for the next process to go on with, and the parent
//! [gives back](Ledger::give_back) what it had under way.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use runtime::scoreboard::one_thread_serves_all;
use sys::shared_lock;
use sys::shm::Shared;
use sys::time::Instant;

/// How many processes have rows. Others count in the common row, and what they have under way is not counted.
const ROWS: usize = 1024;
/// The common row: it is the first one.
const COMMON: usize = 0;
/// The words of a cache line: a row begins with one.
const LINE: usize = 64 / size_of::<u64>();

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

/// What a process has under way with a server: it goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gauge {
    /// Requests.
    Busy = COUNTS as isize,
    /// Connections that it keeps for itself.
    Idle,
}

/// The counts of a server in a row.
const COUNTS: usize = Count::Faults as usize + Fault::ALL.len();
/// With its gauges, which come behind them.
const PLACES: usize = Gauge::Idle as usize + 1;

/// The counts of several servers.
pub struct Ledger {
    /// How many rows have been in use; from the next line on the rows: the process, and the places of each server.
    words: Shared<AtomicU64>,
    servers: usize,
    /// The length of a row, in words.
    row_length: usize,
    /// The row of this process; 0: it has none yet, and above all rows: there is none left.
    own: AtomicUsize,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Ledger {
    /// Counts of so many servers, for this process and those that it forks.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(servers: usize) -> io::Result<Arc<Ledger>> {
        // Whole lines, so that no two processes write the same one.
        let row_length = (1 + PLACES * servers).next_multiple_of(LINE);
        let words = Shared::new(LINE + (1 + ROWS) * row_length)?;
        Ok(Arc::new(Ledger { words, servers, row_length, own: AtomicUsize::new(0) }))
    }

    /// The counts of one of them.
    pub fn tally(self: &Arc<Ledger>, index: usize) -> Tally {
        Tally { ledger: self.clone(), index }
    }

    /// Gives back what processes that are gone had under way. For the parent, now and then: it has reaped them.
    pub fn give_back(&self) {
        for row in self.rows() {
            let owner = self.owner(row).load(Relaxed);
            if owner != 0 && !shared_lock::exists(owner) && self.seize(row, owner) {
                self.owner(row).store(0, Release);
            }
        }
    }

    /// The rows that have been in use, from the common one on.
    fn rows(&self) -> RangeInclusive<usize> {
        COMMON..=usize::try_from(self.words[0].load(Acquire)).map_or(ROWS, |used| used.min(ROWS))
    }

    fn owner(&self, row: usize) -> &AtomicU64 {
        &self.words[LINE + row * self.row_length]
    }

    fn places(&self, row: usize, server: usize) -> &[AtomicU64] {
        let first = LINE + row * self.row_length + 1 + PLACES * server;
        &self.words[first..first + PLACES]
    }

    fn place(&self, row: usize, server: usize, place: usize) -> &AtomicU64 {
        &self.places(row, server)[place]
    }

    /// The sum over all processes.
    fn sum(&self, server: usize, place: usize) -> u64 {
        self.rows().map(|row| self.place(row, server, place).load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// The row of this process, or the common one if there is none left.
    fn own_row(&self) -> usize {
        match self.own.load(Relaxed) {
            0 => self.find_row(),
            row if row > ROWS => COMMON,
            row => row,
        }
    }

    #[cold]
    fn find_row(&self) -> usize {
        let is_free = |row: &usize| self.owner(*row).load(Relaxed) == 0 && self.seize(*row, 0);
        let is_left = |row: &usize| {
            let owner = self.owner(*row).load(Relaxed);
            !shared_lock::is_there(owner) && self.seize(*row, owner)
        };
        let found = (1..=ROWS).find(is_free).or_else(|| (1..=ROWS).find(is_left));
        // Another thread of this process may have been faster: its row is the one.
        match self.own.compare_exchange(0, found.unwrap_or(ROWS + 1), AcqRel, Acquire) {
            Ok(_) => {
                self.words[0].fetch_max(found.unwrap_or(COMMON) as u64, AcqRel);
                found.unwrap_or(COMMON)
            }
            Err(other) => {
                found.iter().for_each(|row| self.owner(*row).store(0, Release));
                if other > ROWS { COMMON } else { other }
            }
        }
    }

    /// Takes a row from its former owner, and clears what that one had under way. `false`: another process has done so.
    fn seize(&self, row: usize, owner: u64) -> bool {
        let is_ours = self.owner(row).compare_exchange(owner, shared_lock::own(), AcqRel, Relaxed).is_ok();
        if is_ours && owner != 0 {
            for server in 0..self.servers {
                (COUNTS..PLACES).for_each(|gauge| self.place(row, server, gauge).store(0, Relaxed));
            }
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
    /// Adds to places in the row of this process.
    #[inline]
    fn change<const N: usize>(&self, changes: [(usize, u64); N]) {
        let row = self.ledger.own_row();
        let (places, has_own) = (self.ledger.places(row, self.index), row != COMMON);
        let is_alone = has_own && one_thread_serves_all();
        for (place, by) in changes {
            let word = &places[place];
            if is_alone {
                word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
            } else if has_own || place < COUNTS {
                word.fetch_add(by, Relaxed);
            }
        }
    }

    fn add<const N: usize>(&self, counts: [(Count, u64); N]) {
        self.change(counts.map(|(count, by)| (count as usize, by)));
    }

    fn more(&self, gauge: Gauge) {
        self.change([(gauge as usize, 1)]);
    }

    fn fewer(&self, gauge: Gauge) {
        self.change([(gauge as usize, 1_u64.wrapping_neg())]);
    }

    /// A connection was made, in this time.
    pub fn opened(&self, time: Duration) {
        self.add([(Count::Opened, 1), (Count::Connecting, micros(time))]);
    }

    /// A request goes over a connection that was there.
    pub fn reused(&self) {
        self.add([(Count::Reused, 1)]);
    }

    /// A response has begun, so long after its request.
    pub fn begun(&self, time: Duration) {
        self.add([(Count::Begun, 1), (Count::Beginning, micros(time))]);
    }

    /// Something went wrong.
    pub fn fault(&self, fault: Fault) {
        self.change([(Count::Faults as usize + fault as usize, 1)]);
    }

    /// What was counted.
    pub fn get(&self, count: Count) -> u64 {
        self.ledger.sum(self.index, count as usize)
    }

    /// How often this went wrong.
    pub fn faults(&self, fault: Fault) -> u64 {
        self.ledger.sum(self.index, Count::Faults as usize + fault as usize)
    }

    /// The requests that are on their way now.
    pub fn busy(&self) -> u64 {
        self.ledger.sum(self.index, Gauge::Busy as usize)
    }

    /// The idle connections that children keep for themselves.
    pub fn idle(&self) -> u64 {
        self.ledger.sum(self.index, Gauge::Idle as usize)
    }

    /// Begins with what another one has counted. For the parent, before it starts children.
    pub fn go_on_from(&self, former: &Tally) {
        for count in 0..COUNTS {
            let counted = former.ledger.sum(former.index, count);
            self.ledger.place(COMMON, self.index, count).store(counted, Relaxed);
        }
    }

    /// The counts that it is one of.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// A request is on its way, until the returned value is dropped.
    pub fn begin(&self) -> UnderWay {
        self.add([(Count::Requests, 1)]);
        self.enter();
        UnderWay { began: Instant::now(), tally: self.clone() }
    }

    /// A request is on its way, until [`leave`](Self::leave). It counts once it has ended well: see [`recurred`](Self::recurred).
    pub fn enter(&self) {
        self.more(Gauge::Busy);
    }

    /// A request is no longer on its way.
    pub fn leave(&self) {
        self.fewer(Gauge::Busy);
    }

    /// A request has gone over a connection that was there, and its response came at once, after this time.
    pub fn recurred(&self, time: Duration) {
        let time = micros(time);
        self.add([
            (Count::Requests, 1),
            (Count::Reused, 1),
            (Count::Begun, 1),
            (Count::Beginning, time),
            (Count::Ended, 1),
            (Count::Serving, time),
        ]);
    }

    /// A connection is idle, until the returned value is dropped.
    pub(crate) fn idle_one(&self) -> IdleMark {
        self.rests();
        IdleMark(self.clone())
    }

    /// A connection is idle, until [`wakes`](Self::wakes).
    pub(crate) fn rests(&self) {
        self.more(Gauge::Idle);
    }

    /// A connection is no longer idle.
    pub(crate) fn wakes(&self) {
        self.fewer(Gauge::Idle);
    }
}

/// A request that is on its way.
#[derive(Debug)]
pub struct UnderWay {
    began: Instant,
    tally: Tally,
}

impl UnderWay {
    /// Something went wrong.
    pub fn fault(&self, fault: Fault) {
        self.tally.fault(fault);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.tally.add([(Count::Ended, 1), (Count::Serving, micros(self.began.elapsed()))]);
        self.tally.leave();
    }
}

/// A connection that is idle.
#[derive(Debug)]
pub(crate) struct IdleMark(Tally);

impl Drop for IdleMark {
    fn drop(&mut self) {
        self.0.wakes();
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that is gone: its number is above all that there can be.
    const GONE: u64 = (1 << shared_lock::NUMBER_BITS) - 1;

    #[test]
    fn what_the_dead_had_under_way_is_given_back() {
        let ledger = Ledger::new(2).expect("memory");
        let (one, other) = (ledger.tally(0), ledger.tally(1));
        ledger.owner(1).store(GONE, Relaxed);
        ledger.place(1, 1, Gauge::Busy as usize).store(7, Relaxed);
        ledger.place(1, 1, Count::Requests as usize).store(30, Relaxed);
        ledger.words[0].store(1, Relaxed);
        let under_way = other.begin();
        assert_eq!((one.busy(), other.busy()), (0, 8), "this process has another row");
        ledger.give_back();
        assert_eq!((one.busy(), other.busy()), (0, 1));
        drop(under_way);
        assert_eq!((other.busy(), other.get(Count::Ended)), (0, 1));
        assert_eq!(other.get(Count::Requests), 31, "what was counted stays");
        assert_eq!(ledger.owner(1).load(Relaxed), 0, "another process may have the row");
    }

    #[test]
    fn a_row_is_taken_from_the_dead_if_no_other_is_left() {
        let all_rows = |owner: u64| {
            let ledger = Ledger::new(1).expect("memory");
            (1..=ROWS).for_each(|row| ledger.owner(row).store(owner, Relaxed));
            ledger
        };
        let ledger = all_rows(shared_lock::own());
        let one = ledger.tally(0);
        let under_way = one.begin();
        assert_eq!((one.busy(), one.get(Count::Requests)), (0, 1), "they are all taken: it counts in the common row");
        drop(under_way);
        assert_eq!((one.busy(), one.get(Count::Ended)), (0, 1));
        let ledger = all_rows(GONE);
        ledger.place(1, 0, Gauge::Busy as usize).store(7, Relaxed);
        let one = ledger.tally(0);
        let _under_way = one.begin();
        assert_eq!(one.busy(), 1);
    }

    #[test]
    fn no_two_rows_share_a_line() {
        for servers in [1, 2, 7, 100] {
            let ledger = Ledger::new(servers).expect("memory");
            let line = |word: &AtomicU64| std::ptr::from_ref(word).addr() / 64;
            let last = ledger.place(1, servers - 1, PLACES - 1);
            assert!(line(last) < line(ledger.owner(2)), "{servers}");
            assert_eq!(std::ptr::from_ref(ledger.owner(1)).addr() % 64, 0, "{servers}");
        }
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
