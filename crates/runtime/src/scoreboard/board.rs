//! The shared memory of the scoreboard, and what the parent does with it.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use sys::event_fd::EventFd;
use sys::process::{Pid, Reaped};
use sys::shm::Shared;

use super::clients::ClientCounts;
use super::clock::{micros, now};
use super::layout::{self, Field, Header, HeaderRow, ProcessRow, WorkerField, WorkerRow};
use super::moment::{self, MOMENTS};
use super::states::{ChildState, Duty, State};
use super::visits::{Visit, VisitKeys, Visited, Visits};

/// The thresholds at which the parent should look at a child; 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Connections accepted.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
}

/// The shared memory itself. The parent makes it before it forks; every child has it.
#[derive(Debug)]
pub struct Board {
    /// The event that children raise when they have begun to accept or have reached their quota.
    attention: EventFd,
    header: Shared<[AtomicU64; layout::HEADER]>,
    processes: Shared<[AtomicU64; layout::PROCESS]>,
    workers: Shared<[AtomicU64; layout::WORKER]>,
    /// When the child of a slot last answered, in µs on the monotonic clock.
    answered_at: Shared<AtomicU64>,
    /// The last ten minutes.
    history: Shared<[AtomicU64; moment::WORDS]>,
    /// URLs and virtual hosts that are asked for often, or take long.
    visits: Visits,
    /// How many connections each client has, if anybody wants to know.
    clients: OnceLock<ClientCounts>,
    per_process: usize,
    one_each: bool,
}

static BOARD: OnceLock<Board> = OnceLock::new();

/// The scoreboard of this server; `None` before it has started.
pub fn get() -> Option<&'static Board> {
    BOARD.get()
}

/// Which work the server wants from load balancers; all before it has started.
pub fn duty() -> Duty {
    get().map_or(Duty::Ready, Board::duty)
}

/// Makes the scoreboard: `processes` slots, each with up to `workers`, which have one connection each at a time, or several. Called once in
/// the life of a server, before the first fork; slots cost memory only when used.
pub fn create(processes: usize, workers: usize, one_each: bool) -> io::Result<&'static Board> {
    let board = Board::new(processes, workers, one_each)?;
    if COUNTS_CLIENTS.load(Relaxed) {
        board.make_clients()?;
    }
    BOARD.set(board).map_err(|_| io::Error::other("the scoreboard exists already"))?;
    get().ok_or_else(|| io::ErrorKind::NotFound.into())
}

static COUNTS_CLIENTS: AtomicBool = AtomicBool::new(false);

/// From now on, children that are forked can count the connections of each client ([`Workers::count_connection`]). For the parent; a
/// scoreboard that is made later has room for that.
///
/// [`Workers::count_connection`]: super::Workers::count_connection
pub fn count_clients() -> io::Result<()> {
    COUNTS_CLIENTS.store(true, Relaxed);
    get().map_or(Ok(()), Board::make_clients)
}

/// The slot of this child process.
static OWN: OnceLock<usize> = OnceLock::new();

/// Answers the parent that this child is there. For the MPM.
pub fn answer() {
    if let (Some(board), Some(slot)) = (get(), OWN.get()) {
        board.answered_at[*slot].store(micros(sys::time::monotonic()), Relaxed);
    }
}

impl Board {
    pub(super) fn new(processes: usize, workers: usize, one_each: bool) -> io::Result<Board> {
        let count = processes.checked_mul(workers).ok_or(io::ErrorKind::InvalidInput)?;
        let header = Shared::new(1)?;
        let board = Board {
            attention: EventFd::new()?,
            header,
            processes: Shared::new(processes)?,
            workers: Shared::new(count)?,
            answered_at: Shared::new(processes)?,
            history: Shared::new(MOMENTS)?,
            visits: Visits::new()?,
            clients: OnceLock::new(),
            per_process: workers,
            one_each,
        };
        board.header().store(Header::Started, now());
        board.header().store(Header::Restarted, now());
        Ok(board)
    }

    pub(super) fn header(&self) -> HeaderRow<'_> {
        HeaderRow(&self.header[0])
    }

    pub(super) fn process(&self, slot: usize) -> ProcessRow<'_> {
        ProcessRow(&self.processes[slot])
    }

    pub(super) fn worker(&self, slot: usize, index: usize) -> WorkerRow<'_> {
        WorkerRow(&self.workers[slot * self.per_process + index])
    }

    /// How many process slots there are.
    pub fn slots(&self) -> usize {
        self.processes.len()
    }

    /// How many worker rows each process slot has.
    pub fn workers_per_process(&self) -> usize {
        self.per_process
    }

    fn make_clients(&self) -> io::Result<()> {
        if self.clients.get().is_none() {
            // The parent has one thread.
            let _ = self.clients.set(ClientCounts::new(self.slots(), self.per_process, self.one_each)?);
        }
        Ok(())
    }

    pub(super) fn clients(&self) -> Option<&ClientCounts> {
        self.clients.get()
    }

    /// How many connections a client has in all children, if they are counted.
    pub fn connections_of(&self, client: u64) -> u64 {
        self.clients().map_or(0, |clients| clients.of(self.used(), client))
    }

    /// The lowest free slot, if any. For the parent.
    pub fn free_slot(&self) -> Option<usize> {
        (0..self.slots()).find(|slot| self.life(*slot) == ChildState::Empty)
    }

    /// Takes a slot for a child about to be forked, with its workers in state `S`. For the parent.
    pub fn claim(&self, slot: usize, generation: u32, workers: usize) {
        let process = self.process(slot);
        let workers = workers.min(self.per_process);
        process.store(Field::Pid, 0);
        process.store(Field::Generation, u64::from(generation));
        process.store(Field::Started, now());
        process.store(Field::Workers, workers as u64);
        process.store(Field::Accepted, 0);
        let header = self.header();
        header.enter();
        for (past, own) in [(Field::PastAccesses, Field::OwnAccesses), (Field::PastBytes, Field::OwnBytes)] {
            process.add(past, process.load(own));
            process.store(own, 0);
        }
        header.leave();
        self.set_quota(slot, Quota::default());
        for field in layout::CPU.into_iter().chain(layout::GAUGES) {
            process.store(field, 0);
        }
        for index in 0..workers {
            let row = self.worker(slot, index);
            row.store(WorkerField::OwnAccesses, 0);
            row.store(WorkerField::OwnBytes, 0);
            row.store(WorkerField::State, State::Starting as u64);
        }
        self.header().0[Header::Used as usize].fetch_max(slot as u64 + 1, Relaxed);
        process.set_life(ChildState::Starting);
    }

    /// Sets when the child about to be forked into a slot calls the parent. For the parent.
    pub fn set_quota(&self, slot: usize, quota: Quota) {
        let process = self.process(slot);
        process.store(Field::QuotaConnections, quota.connections);
        process.store(Field::QuotaRequests, quota.requests);
    }

    /// The event that calls the parent to a row.
    pub fn attention(&self) -> &EventFd {
        &self.attention
    }

    /// How many slots were ever used: the others can be skipped.
    pub(super) fn used(&self) -> usize {
        (self.header().load(Header::Used) as usize).min(self.slots())
    }

    /// Records the process that has the slot. The parent does so after the fork, and so does the child, whichever comes
    /// first.
    pub fn set_pid(&self, slot: usize, pid: Pid) {
        self.process(slot).store(Field::Pid, u64::from(pid.number().unsigned_abs()));
    }

    /// The phase of life of the child in a slot.
    pub fn life(&self, slot: usize) -> ChildState {
        ChildState::of(self.process(slot).0[Field::Life as usize].load(Acquire))
    }

    /// Whether the child in a slot accepts.
    pub fn is_running(&self, slot: usize) -> bool {
        self.life(slot) == ChildState::Running
    }

    /// Marks a child that will accept no more: the parent does so with its order, the child when it knows.
    pub fn set_quiescing(&self, slot: usize) {
        self.process(slot).set_life(ChildState::Quiescing);
    }

    /// How many connections the child in a slot has open.
    pub fn connections(&self, slot: usize) -> u64 {
        self.process(slot).load(Field::Connections)
    }

    /// Whether every connection of the child in a slot waits for its next request.
    pub fn is_idle(&self, slot: usize) -> bool {
        let process = self.process(slot);
        process.load(Field::Connections) == process.load(Field::KeepAlive)
    }

    /// How many connections the child in a slot has accepted.
    pub fn accepted(&self, slot: usize) -> u64 {
        self.process(slot).load(Field::Accepted)
    }

    /// How many requests the child in a slot has answered.
    pub fn answered(&self, slot: usize) -> u64 {
        self.process(slot).load(Field::OwnAccesses)
    }

    /// When the child in a slot last answered, on the monotonic clock.
    pub fn answered_at(&self, slot: usize) -> Duration {
        Duration::from_micros(self.answered_at[slot].load(Relaxed))
    }

    /// A number that changes whenever any worker of the child in a slot does anything: begins, continues or ends a
    /// request. `None`: none is busy with more than the wait for a next request.
    pub fn mark(&self, slot: usize) -> Option<u64> {
        let rows = || (0..self.process(slot).workers(self.per_process)).map(|index| self.worker(slot, index));
        let of = |row: WorkerRow<'_>| {
            [WorkerField::State, WorkerField::Began, WorkerField::Used].map(|field| row.load(field))
        };
        let join = |mark: u64, word: u64| mark.wrapping_mul(0x0100_0000_01b3).wrapping_add(word);
        let process = self.process(slot);
        let counts = [Field::Accepted, Field::OwnAccesses].map(|field| process.load(field));
        let busy = rows().map(|row| row.state()).any(|state| state.is_busy() && state != State::KeepAlive);
        busy.then(|| rows().flat_map(of).chain(counts).fold(0, join))
    }

    /// How many workers of the child in a slot are idle; all of them while it starts. One is reserved for each
    /// connection whose head has begun to arrive: it will be needed in a moment. A request that waits without a worker
    /// needs none.
    pub fn idle_workers(&self, slot: usize) -> usize {
        let reading = usize::try_from(self.process(slot).load(Field::Reading)).unwrap_or(usize::MAX);
        self.free_workers(slot).saturating_sub(reading)
    }

    /// How many workers of the child in a slot could serve a request at once.
    pub fn free_workers(&self, slot: usize) -> usize {
        let process = self.process(slot);
        let workers = process.workers(self.per_process);
        let free = (0..workers).filter(|index| !self.worker(slot, *index).state().is_busy()).count();
        let gauge = |field| usize::try_from(process.load(field)).unwrap_or(usize::MAX);
        free.saturating_add(gauge(Field::Released)).saturating_sub(gauge(Field::Unlisted)).min(workers)
    }

    /// Sets whether the parent would start another child at once if no worker were idle
    /// ([`Workers::all_taken`](super::workers::Workers::all_taken)). For the parent.
    pub fn set_growing(&self, growing: bool) {
        self.header().store(Header::Growing, u64::from(growing));
    }

    /// Which work the server wants from load balancers.
    pub fn duty(&self) -> Duty {
        Duty::of(self.header().load(Header::Duty))
    }

    /// Sets which work the server wants from load balancers.
    pub fn set_duty(&self, duty: Duty) {
        self.header().store(Header::Duty, duty as u64);
    }

    /// Gives a slot back after its child was reaped, whatever the child was doing: its open connections are removed,
    /// half-written texts dropped, totals kept. For the parent.
    pub fn retire(&self, slot: usize, reaped: Option<&Reaped>) {
        let process = self.process(slot);
        for index in 0..process.workers(self.per_process) {
            let row = self.worker(slot, index);
            row.repair();
            row.store(WorkerField::State, State::Dead as u64);
        }
        for field in layout::GAUGES {
            process.store(field, 0);
        }
        self.clients().into_iter().for_each(|clients| clients.retire(slot));
        let header = self.header();
        header.enter();
        process.store(Field::Pid, 0);
        if let Some(reaped) = reaped {
            header.add(Header::CpuUser, micros(reaped.user));
            header.add(Header::CpuSystem, micros(reaped.system));
        }
        process.set_life(ChildState::Empty);
        header.leave();
    }

    /// Starts a generation. Takes the number that new children carry, and the minimum number of worker rows on a status
    /// page. With `reset` all totals start again from zero (`SIGHUP`); there must be no children then. For the parent.
    pub fn begin_generation(&self, generation: u32, shown: usize, reset: bool) {
        if reset {
            let used = self.used();
            self.processes[..used].iter().flatten().for_each(|word| word.store(0, Relaxed));
            self.workers[..used * self.per_process].iter().flatten().for_each(|word| word.store(0, Relaxed));
            for field in [Header::CpuUser, Header::CpuSystem, Header::Used, Header::Noted] {
                self.header().store(field, 0);
            }
            self.visits.forget();
        }
        self.header().store(Header::Generation, u64::from(generation));
        self.header().store(Header::Shown, shown as u64);
        self.header().store(Header::Restarted, now());
    }

    /// A restart has come to an end: the new generation serves alone, or the old one goes on. For the parent.
    pub fn conclude(&self, succeeded: bool) {
        if !succeeded {
            self.header().add(Header::Refused, 1);
        }
        self.header().add(Header::Concluded, 1);
    }

    /// How many restarts have come to an end, and how many of them were refused.
    pub fn concluded(&self) -> (u64, u64) {
        (self.header().load(Header::Concluded), self.header().load(Header::Refused))
    }

    /// Sets how many workers there are, if a request that waits for a script holds one of them. For the parent.
    pub fn set_held(&self, workers: Option<usize>) {
        self.header().store(Header::Held, workers.unwrap_or(0) as u64);
    }

    /// Sets how many requests may be served at once, if each needs a worker. For the parent.
    pub fn set_limit(&self, workers: Option<usize>) {
        self.header().store(Header::Limit, workers.unwrap_or(0) as u64);
    }

    /// The number from [`set_limit`](Board::set_limit).
    pub fn limit(&self) -> Option<usize> {
        usize::try_from(self.header().load(Header::Limit)).ok().filter(|workers| *workers > 0)
    }

    /// The number from [`set_held`](Board::set_held).
    pub fn held(&self) -> Option<usize> {
        usize::try_from(self.header().load(Header::Held)).ok().filter(|workers| *workers > 0)
    }

    /// Counts a visit that the child in a slot answered.
    pub(super) fn count_visit(&self, slot: usize, keys: VisitKeys, visit: Visit<'_>) {
        self.visits.count(slot, keys, visit);
    }

    /// What was visited in the last minutes.
    pub fn visited(&self) -> Visited {
        self.visits.visited()
    }

    /// Room for the last ten minutes.
    pub(super) fn moments(&self) -> &[[AtomicU64; moment::WORDS]] {
        &self.history
    }

    /// Makes the slot that of this process, which is only one child in its life.
    pub(super) fn take_for_life(slot: usize) {
        let _ = OWN.set(slot);
    }
}
