//! A child's own rows, as the child writes them.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use sys::process::Pid;
use sys::time::{CpuOf, cpu};

use super::board::Board;
use super::clock::micros;
use super::durations::BOUNDS;
use super::layout::{self, CLASSES, DURATIONS, Field, HANDSHAKES, Header, WATCH, WorkerField, WorkerRow};
use super::row::{Row, ServedRequest};
use super::states::{ChildState, Gauge, Handshake, State};
use super::visits::{Visit, VisitKeys};

/// The unit that has a row to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// A request, until its response is sent: one thread serves all of them.
    OfRequests,
    /// A thread that serves requests: a response that only waits for its client has no row any more.
    OfThreads,
    /// A worker that serves one connection at a time, and nothing else.
    OfOne,
}

/// The rows of one child. A connection takes one while it serves a request.
#[derive(Debug)]
pub struct Workers {
    board: &'static Board,
    process: usize,
    /// The first of the rows.
    first: usize,
    /// A bit per row, set while it is free. Not shared with other children.
    free: Box<[AtomicU64]>,
    count: usize,
    /// The unit that has one of these rows.
    rows: Rows,
    /// Each of them on its own, where threads have asked for it.
    only: OnceLock<Box<[OnceLock<Workers>]>>,
    /// One thread alone answers this child's requests.
    is_alone: bool,
    /// The time of the last look at the CPU time, in seconds.
    looked: AtomicU64,
}

static ONE_THREAD_SERVES_ALL: AtomicBool = AtomicBool::new(false);

/// Whether one thread of this process serves all of its connections: what it remembers exists once in the process, and there are few
/// such processes.
pub fn one_thread_serves_all() -> bool {
    ONE_THREAD_SERVES_ALL.load(Relaxed)
}

impl Workers {
    /// Starts the rows of this child's process slot, which makes the child running: its workers are `_`. They last as long as
    /// the child.
    pub fn start(board: &'static Board, process: usize, rows: Rows) -> &'static Workers {
        let row = board.process(process);
        let count = row.workers(board.workers_per_process());
        for index in 0..count {
            board.worker(process, index).store(WorkerField::State, State::Ready as u64);
        }
        board.set_pid(process, Pid::own());
        Board::take_for_life(process);
        if board.life(process) == ChildState::Starting {
            row.set_life(ChildState::Running);
        }
        board.attention().raise();
        ONE_THREAD_SERVES_ALL.store(rows == Rows::OfRequests, Relaxed);
        Box::leak(Box::new(Workers::of(board, process, 0, count, rows)))
    }

    fn of(board: &'static Board, process: usize, first: usize, count: usize, rows: Rows) -> Workers {
        let bits = |word: usize| match count - word * 64 {
            left @ 0..64 => (1 << left) - 1,
            _ => u64::MAX,
        };
        let free = (0..count.div_ceil(64)).map(|word| AtomicU64::new(bits(word))).collect();
        let is_alone = match rows {
            Rows::OfRequests => true,
            Rows::OfThreads => false,
            Rows::OfOne => board.process(process).workers(board.workers_per_process()) == 1,
        };
        Workers { board, process, first, free, count, rows, only: OnceLock::new(), is_alone, looked: AtomicU64::new(0) }
    }

    /// The row of the `index`th worker of this child, a thread that serves one connection at a time.
    pub fn only(&'static self, index: usize) -> &'static Workers {
        let only = self.only.get_or_init(|| (0..self.count).map(|_| OnceLock::new()).collect());
        only[index].get_or_init(|| Workers::of(self.board, self.process, self.first + index, 1, Rows::OfOne))
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn board(&self) -> &'static Board {
        self.board
    }

    /// The number of this child's process slot.
    pub fn process(&self) -> usize {
        self.process
    }

    /// Takes a free row for a request that is being read (`R`); dropping it gives it back. When all are taken the
    /// request is counted, but not listed.
    pub fn acquire(&'static self) -> Row {
        let index = self.take();
        if index.is_none() {
            self.enter(Gauge::Unlisted);
        }
        let slot = Row::new(self, index, index.is_none());
        slot.state(State::Read);
        slot
    }

    /// A row for a request beside another one of its connection. Both share one worker: if rows belong to workers,
    /// the second request gets none, and takes none away.
    pub fn acquire_beside(&'static self) -> Row {
        match self.rows {
            Rows::OfRequests => self.acquire(),
            Rows::OfThreads | Rows::OfOne => Row::new(self, None, false),
        }
    }

    /// Takes a free row.
    fn take(&self) -> Option<usize> {
        for (word, bits) in self.free.iter().enumerate() {
            let mut seen = bits.load(Relaxed);
            while seen != 0 {
                match bits.compare_exchange_weak(seen, seen & (seen - 1), Acquire, Relaxed) {
                    Ok(_) => return Some(word * 64 + seen.trailing_zeros() as usize),
                    Err(other) => seen = other,
                }
            }
        }
        None
    }

    /// Gives back what [`take`](Workers::take) took.
    pub(super) fn give_back(&self, index: usize) {
        self.free[index / 64].fetch_or(1 << (index % 64), Release);
    }

    /// One of the rows.
    pub(super) fn row(&self, index: usize) -> WorkerRow<'_> {
        self.board.worker(self.process, self.first + index)
    }

    /// The unit that has one of these rows.
    pub(super) fn unit(&self) -> Rows {
        self.rows
    }

    /// Counts a request among those for its URL and its virtual host.
    pub(super) fn count_visit(&self, keys: VisitKeys, visit: Visit<'_>) {
        self.board.count_visit(self.process, keys, visit);
    }

    /// Shows the state of a worker that serves one connection at a time, while no request has taken its row. For the
    /// MPM.
    pub fn show(&self, state: State) {
        if self.rows == Rows::OfOne {
            let row = self.board.worker(self.process, self.first);
            row.store(WorkerField::State, state as u64);
            if state == State::Ready {
                row.forget_connection();
            }
        }
    }

    /// Counts one more. The MPM counts connections and their stages, a protocol its own.
    pub fn enter(&self, gauge: Gauge) {
        if !self.counts(gauge) {
            return;
        }
        self.board.process(self.process).add(gauge.field(), 1);
    }

    /// Counts one fewer.
    pub fn leave(&self, gauge: Gauge) {
        if !self.counts(gauge) {
            return;
        }
        self.board.process(self.process).sub(gauge.field(), 1);
    }

    /// Whether a stage counts: a connection with a worker to itself, or with no need of one, will not take one.
    fn counts(&self, gauge: Gauge) -> bool {
        gauge != Gauge::Reading || self.rows == Rows::OfThreads
    }

    /// Counts a TLS handshake; `None`: it failed.
    pub fn count_handshake(&self, outcome: Option<Handshake>) {
        let index = outcome.map_or(Handshake::COUNT, Handshake::index);
        self.board.process(self.process).tally(HANDSHAKES, index);
    }

    /// How many connections of this child are in a stage.
    pub fn count_of(&self, gauge: Gauge) -> u64 {
        self.board.process(self.process).load(gauge.field())
    }

    /// Counts an accepted connection. `true`: the child has now reached its quota, and calls the parent. For the
    /// MPM.
    pub fn accepted(&self) -> bool {
        let row = self.board.process(self.process);
        self.reaches(row.add(Field::Accepted, 1), row.load(Field::QuotaConnections))
    }

    /// Records that no worker of this child is idle any more. If that is so in all children, and there may be more of
    /// them, it calls the parent: the next client would have to wait. For the MPM.
    pub fn all_taken(&self) {
        let board = self.board;
        if board.header().load(Header::Growing) == 0 {
            return;
        }
        let generation = board.process(self.process).load(Field::Generation);
        let is_idle = |slot: usize| {
            slot != self.process
                && matches!(board.life(slot), ChildState::Starting | ChildState::Running)
                && board.process(slot).load(Field::Generation) == generation
                && board.idle_workers(slot) > 0
        };
        if !(0..board.used()).any(is_idle) {
            board.attention().raise();
        }
    }

    fn reaches(&self, count: u64, quota: u64) -> bool {
        let reached = count == quota;
        if reached {
            self.board.attention().raise();
        }
        reached
    }

    /// Whether a connection holds a worker for as long as it exists, whatever it waits for.
    pub fn are_held(&self) -> bool {
        self.rows == Rows::OfOne
    }

    /// Whether any request of these rows is being answered or logged.
    pub fn is_answering(&self) -> bool {
        (self.first..self.first + self.count).any(|row| self.board.worker(self.process, row).state() == State::Write)
    }

    /// How many connections this child has open.
    pub fn connections(&self) -> u64 {
        self.board.connections(self.process)
    }

    /// The average number of open connections over the accepting children of this generation, this one included.
    pub fn average_connections(&self) -> u64 {
        let generation = self.board.process(self.process).load(Field::Generation);
        let (mut sum, mut children) = (0, 0);
        for slot in 0..self.board.used() {
            let row = self.board.process(slot);
            if self.board.life(slot) == ChildState::Running && row.load(Field::Generation) == generation {
                sum += row.load(Field::Connections);
                children += 1;
            }
        }
        sum / children.max(1)
    }

    /// Whether this child should accept no more, because it decided so or because the parent did: the parent may mark
    /// the child before its order to leave arrives. For the MPM.
    pub fn is_quiescing(&self) -> bool {
        self.board.life(self.process) == ChildState::Quiescing
    }

    /// Marks this child as accepting no more (its busy rows then show `G`).
    pub fn quiesce(&self) {
        self.board.set_quiescing(self.process);
    }

    pub(super) fn count(&self, answered: ServedRequest, bytes: u64, took: u64) {
        let row = self.board.process(self.process);
        // Where nobody else counts, plain additions do: an atomic one costs as much as twenty instructions.
        let add = |word: usize, by: u64| match (&row.0[word], self.is_alone) {
            (count, true) => {
                let sum = count.load(Relaxed).wrapping_add(by);
                count.store(sum, Relaxed);
                sum
            }
            (count, false) => count.fetch_add(by, Relaxed).wrapping_add(by),
        };
        let bucket = BOUNDS.partition_point(|bound| *bound < took);
        let counters = [
            (CLASSES.at(usize::from(answered.status / 100).saturating_sub(1)), 1),
            (DURATIONS.at(bucket), 1),
            (Field::OwnBytes as usize, bytes),
            (Field::Received as usize, answered.received),
            (Field::Duration as usize, took),
        ];
        for (word, by) in counters {
            add(word, by);
        }
        if answered.watches {
            row.tally(WATCH, bucket);
            row.add(Field::WatchSent, answered.sent);
            row.add(Field::WatchReceived, answered.received);
        }
        if answered.repeated {
            add(Field::Repeated as usize, 1);
        } else if answered.prepared {
            add(Field::Prepared as usize, 1);
        }
        self.reaches(add(Field::OwnAccesses as usize, 1), row.load(Field::QuotaRequests));
    }

    /// Reads the CPU time once a second at most: the call costs as much as a small request.
    pub(super) fn note_cpu(&self, now: u64) {
        let second = now / 1_000_000;
        if self.looked.load(Relaxed) == second || self.looked.swap(second, Relaxed) == second {
            return;
        }
        let row = self.board.process(self.process);
        let ((user, system), (children_user, children_system)) = (cpu(CpuOf::Own), cpu(CpuOf::Children));
        for (field, time) in layout::CPU.into_iter().zip([user, system, children_user, children_system]) {
            row.store(field, micros(time));
        }
    }
}
