//! A pool of backends and the requests that wait for one of them, as the process manager sees them.

mod backend;
mod lending;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use runtime::Awaited;
use sys::local::Unnamed;
use sys::process::Pid;
use sys::time::Instant;

use super::class::{Class, Concurrency, PoolSettings, Version};
use super::manager_messages::Grant;
use super::policy::{self, Activity, BackendView, Decision, PoolView};
use super::reason::Reason;
use super::share::Share;
use super::stats::{self, Field, LEASE_CELLS, Row};
use super::throttle::{Failures, ScoreState};
use crate::gate::Permit;

use backend::Backend;
pub(super) use lending::LeaseProgress;

/// The result for a request.
#[derive(Clone, Debug)]
pub(super) enum Granted {
    /// A backend: its number, a connection to it, and the data for the child.
    Backend { number: u64, socket: Arc<OwnedFd>, grant: Grant },
    /// None: the status for the client, and why.
    Refused { status: u16, why: String },
}

/// A request that waits for a backend, in the order in which requests came.
#[derive(Debug)]
struct Waiter {
    number: u64,
    /// The child that asks.
    child: Pid,
    /// The version of the program's file when it came.
    version: Version,
    /// Since when it has been waiting, in nanoseconds.
    came: u64,
    granted: Awaited<Granted>,
}

/// The backends of a class, and the requests that wait for them.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) class: Arc<Class>,
    pub(super) row: Row,
    /// The version of the program's file at the last look.
    version: Version,
    backends: Vec<Backend>,
    queue: VecDeque<Waiter>,
    /// Backends about to start.
    pub(super) starting: usize,
    share: Share,
    score: ScoreState,
    failures: Failures,
    /// How the last backend ended that served nothing.
    last_failure: String,
    /// Backends that ended well during their first request, whose outcome is not known yet.
    undecided: Vec<u64>,
    /// The time of the next look.
    pub(super) alarm: Option<Duration>,
    /// The time of the last request.
    used: Instant,
    began: Instant,
    /// Whether children keep leases that requests of others may soon get.
    watches: bool,
}

impl Pool {
    pub(super) fn new(class: Class) -> Pool {
        let row = Row::take(&class.name);
        row.set(Field::Max, class.settings.max);
        Pool {
            row,
            class: Arc::new(class),
            version: Version::default(),
            backends: Vec::new(),
            queue: VecDeque::new(),
            starting: 0,
            share: Share::default(),
            score: ScoreState::default(),
            failures: Failures::default(),
            last_failure: String::new(),
            undecided: Vec::new(),
            alarm: None,
            used: Instant::now(),
            began: Instant::now(),
            watches: false,
        }
    }

    /// Whether it was unused for this long, and has nothing left.
    pub(super) fn is_unused_for(&self, time: Duration) -> bool {
        self.count() == 0 && self.queue.is_empty() && self.alarm.is_none() && self.used.elapsed() >= time
    }

    /// Removes it from all pages.
    pub(super) fn hide(&mut self) {
        self.row = Row::none();
    }

    /// The clock of the pool.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// How many backends there are, including those about to start.
    pub(super) fn count(&self) -> u64 {
        (self.backends.len() + self.starting) as u64
    }

    pub(super) fn backends(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter()
    }

    fn backend_mut(&mut self, number: u64) -> Option<&mut Backend> {
        self.backends.iter_mut().find(|backend| backend.number == number)
    }

    /// Sets the current version of the program's file.
    pub(super) fn set_version(&mut self, version: Version) {
        if self.version != version {
            self.version = version;
            // The file's faults may be gone.
            self.failures = Failures::default();
        }
    }

    /// Puts a request into the queue. `Err`: the response is known at once.
    pub(super) fn enqueue(
        &mut self,
        number: u64,
        child: Pid,
        came: u64,
        version: Version,
    ) -> Result<Awaited<Granted>, Granted> {
        self.used = Instant::now();
        if self.failures.are_hopeless() && self.count() == 0 && self.now() < self.failures.allow_start_at() {
            self.row.add(Field::Refused, 1);
            return Err(Granted::Refused { status: 503, why: self.hopeless() });
        }
        if self.queue.len() as u64 >= self.class.settings.queue {
            self.row.add(Field::Refused, 1);
            let why = format!("{} requests are already waiting for a backend", self.queue.len());
            return Err(Granted::Refused { status: 503, why });
        }
        let granted = Awaited::default();
        let came = came.min(Instant::now().nanoseconds());
        // Nearly always at the end.
        let place = self.queue.partition_point(|other| other.came <= came);
        self.queue.insert(place, Waiter { number, child, version, came, granted: granted.clone() });
        Ok(granted)
    }

    fn hopeless(&self) -> String {
        format!("its backends end before they have served a request; the last one {}", self.last_failure)
    }

    /// Forgets a waiting request that was given up.
    pub(super) fn forget(&mut self, number: u64) {
        self.queue.retain(|waiter| waiter.number != number);
        self.row.set(Field::Waiting, self.queue.len() as u64);
    }

    /// Refuses all waiting requests: there will be no backend.
    fn refuse_all(&mut self, status: u16, why: &str) {
        self.row.add(Field::Refused, self.queue.len() as u64);
        for waiter in self.queue.drain(..) {
            waiter.granted.set(Granted::Refused { status, why: why.to_string() });
        }
    }

    /// Lets a backend end: now, or when the requests that it serves have ended.
    pub(super) fn retire(&mut self, number: u64, reason: Reason) {
        match self.backend_mut(number) {
            Some(backend) if backend.activity == Activity::Busy && backend.busy > 0 => {
                backend.reason.get_or_insert(reason);
                backend.activity = Activity::Draining;
                backend.since = Instant::now();
            }
            _ => self.end(number, reason),
        }
    }

    /// Orders a backend to end.
    pub(super) fn end(&mut self, number: u64, reason: Reason) {
        if let Some(backend) = self.backend_mut(number) {
            backend.reason.get_or_insert(reason);
            backend.activity = Activity::Ending;
            backend.end();
        }
    }

    /// The result that is set when a backend gets the order to end.
    pub(super) fn end_ordered(&self, number: u64) -> Option<Awaited<()>> {
        self.backends.iter().find(|backend| backend.number == number).map(|backend| backend.end_ordered.clone())
    }

    /// Adds a backend that was started from this version of the program's file.
    pub(super) fn started(&mut self, number: u64, pid: Pid, version: Version, address: Unnamed, permit: Permit) {
        self.starting = self.starting.saturating_sub(1);
        if let Some(limits) = self.class.settings.score {
            self.score.add(limits.start, self.now(), limits);
        }
        self.row.add(Field::Started, 1);
        let now = Instant::now();
        // Spread like the numbers, from a tenth less to a tenth more.
        let jitter = i64::try_from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap_or(0) % 201 - 100;
        let place = (0..LEASE_CELLS as u64).find(|place| {
            self.class.concurrency == Concurrency::One
                && !self.backends.iter().any(|other| other.cell.is_some_and(|(taken, _)| taken == *place))
        });
        let cell = place.and_then(|place| Some((place, stats::lease_cell(self.row.index(), place)?)));
        self.backends.push(Backend {
            number,
            pid,
            address,
            connection: None,
            activity: Activity::Idle,
            busy: 0,
            since: now,
            born: now,
            served: 0,
            lease: 0,
            holder: None,
            kept: None,
            cell,
            memory: None,
            needed: Duration::ZERO,
            weighed_at: 1,
            jitter,
            version,
            fails: false,
            end_ordered: Awaited::default(),
            reason: None,
            permit: Some(permit),
        });
    }

    /// The version of the program's file.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Records a failed start: the next attempt does not follow at once.
    pub(super) fn failed_to_start(&mut self, text: &str) {
        self.failures.add(self.now());
        self.last_failure = format!("could not be started: {text}");
        self.not_started(500, &format!("it cannot be started: {text}"));
    }

    /// Records that a backend could not be started. Without any other, no request need wait.
    pub(super) fn not_started(&mut self, status: u16, text: &str) {
        self.starting = self.starting.saturating_sub(1);
        if self.backends.is_empty() && self.starting == 0 {
            self.refuse_all(status, text);
        }
    }

    /// Whether the backend that was about to start is superfluous now.
    pub(super) fn spare(&self) -> bool {
        self.queue.is_empty() && self.backends.len() as u64 >= self.class.settings.min
    }

    /// Handles the end of a backend, `well` or not. Returns it with the reason, for the log.
    pub(super) fn ended(&mut self, number: u64, how: &str, well: bool) -> Option<(Backend, Reason)> {
        let index = self.backends.iter().position(|backend| backend.number == number)?;
        let backend = self.backends.swap_remove(index);
        if let Some((_, cell)) = backend.cell {
            cell.end(backend.lease);
        }
        // A good end is fine once it has served. The outcome of a request that it still has is known later.
        let own = well && (backend.served > 0 || backend.busy > 0);
        let reason = backend.reason.unwrap_or(if own { Reason::Own } else { Reason::Died });
        if let Some(limits) = self.class.settings.score {
            self.score.add(limits.end, self.now(), limits);
        }
        self.row.ended(reason);
        if backend.fails || backend.served == 0 && reason == Reason::Died {
            self.fails(how);
        } else if backend.served == 0 && backend.reason.is_none() {
            self.undecided.push(number);
        }
        Some((backend, reason))
    }

    /// Records a backend that ended before it served anything.
    fn fails(&mut self, how: &str) {
        self.failures.add(self.now());
        how.clone_into(&mut self.last_failure);
        if self.failures.are_hopeless() && self.backends.is_empty() && self.starting == 0 {
            let text = self.hopeless();
            self.refuse_all(503, &text);
        }
    }

    /// Whether any backend is serving a request.
    pub(super) fn is_busy(&self) -> bool {
        self.backends.iter().any(|backend| matches!(backend.activity, Activity::Busy | Activity::Draining))
    }

    /// How many requests wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// How many backends have an order to end.
    pub(super) fn ending(&self) -> usize {
        self.backends.iter().filter(|backend| backend.activity == Activity::Ending).count()
    }

    /// Whether requests wait only because of the limit for all classes together.
    pub(super) fn is_blocked(&self, of_all: u64) -> bool {
        let PoolSettings { max, max_of_all, .. } = self.class.settings;
        self.waiting() > self.starting && of_all >= max_of_all && self.count() < max
    }

    /// The backend that has been idle the longest, if others need its memory.
    pub(super) fn longest_idle(&self) -> Option<(Instant, u64)> {
        let idle = self.backends.iter().filter(|backend| backend.activity == Activity::Idle);
        idle.map(|backend| (backend.since, backend.number)).min()
    }

    /// Measures how much of a processor the backends need, if requests wait for more of them than there are processors.
    pub(super) fn measure(&mut self, processors: usize) {
        if !self.queue.is_empty()
            && self.backends.len() >= processors
            && let Some(worked) = self.row.get(Field::Worked)
        {
            let busy = self.backends.iter().filter(|backend| backend.busy > 0);
            let present: Duration = busy.map(|backend| backend.since.elapsed()).sum();
            let backends = self.backends.iter_mut().map(|backend| (backend.pid, &mut backend.needed));
            self.share.measure(Duration::from_micros(worked) + present, backends);
        }
    }

    /// The policy's decision, if `of_all` backends count together.
    pub(super) fn decide(&self, of_all: u64, processors: usize) -> (Decision, Vec<u64>) {
        let at = |instant: Instant| instant.saturating_duration_since(self.began);
        let seen: Vec<BackendView> = self
            .backends
            .iter()
            .map(|backend| BackendView {
                activity: backend.activity,
                since: at(backend.since),
                born: at(backend.born),
                served: backend.served,
                outdated: backend.version != self.version,
                memory: backend.memory,
                jitter: backend.jitter,
            })
            .collect();
        let decision = policy::decide(&PoolView {
            settings: &self.class.settings,
            many: self.class.concurrency != Concurrency::One,
            backends: &seen,
            waiting: self.queue.len(),
            starting: self.starting,
            of_all,
            processors,
            share: self.share.known(),
            score: self.score,
            failures: self.failures,
            now: self.now(),
        });
        (decision, self.backends.iter().map(|backend| backend.number).collect())
    }

    /// Updates the numbers on pages.
    pub(super) fn show(&self) {
        let busy: u64 = self.backends.iter().map(|backend| backend.busy).sum();
        self.row.set(Field::Size, self.backends.len() as u64);
        self.row.set(Field::Busy, busy);
        self.row.set(Field::Waiting, self.queue.len() as u64);
        self.show_wanted();
        if busy == 0 && self.queue.is_empty() {
            // Requests that wait behind others have others to wait for: a child that has died has left this number.
            self.row.set(Field::Behind, 0);
        }
        self.row.set(Field::Memory, self.backends.iter().filter_map(|backend| backend.memory).sum());
    }
}
