//! Connections that wait for their clients: which, for what, since when, and with how much memory.
//!
//! A client that never finishes its head, or never reads its response, costs memory and a descriptor for as long as the
//! time-outs allow. Times a few thousand, that is the memory of the machine, or all descriptors of a process. So each
//! connection records here that it waits, and what it holds meanwhile: a head or a ClientHello, trailers, a response that
//! the client does not read, in any protocol. All connections of a process share a budget. Beyond it those that have
//! waited longest have to go, and so do they when descriptors or places run out.
//!
//! What is usual is not counted, so that the budget meets nobody who behaves.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use conf::Level;
use sys::time::Instant;

/// What a connection may hold of one kind without being counted, in bytes: twice the size of heads from browsers with
/// many cookies, or a record of TLS.
const USUAL: usize = 20 * 1024;
/// The share of the memory that children may hold for waiting clients in all: one part in so many. The rest is for
/// scripts, the cache of the system, and responses that are being made.
const MEMORY_PART: u64 = 16;
/// The least and the most budget of a process, in bytes: a few large heads, and what ten thousand slow readers hold.
const BUDGET_MIN: u64 = 16 * 1024 * 1024;
const BUDGET_MAX: u64 = 1024 * 1024 * 1024;
/// How long a client may be silent in the middle of a head, or of a body, before others may have its place: long enough
/// for a packet that has to be sent again.
const GRACE: Duration = Duration::from_secs(2);
/// How often the log reports that the budget is used up.
const SAY_AGAIN: Duration = Duration::from_secs(10);

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// The end of a client to which nothing more is said.
    End = 1,
    /// The next request.
    Request = 2,
    /// The rest of a head, or of a handshake.
    Head = 3,
    /// The rest of a body.
    Body = 4,
}

/// What a connection holds while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldMemory {
    /// What the client has sent of a handshake, a head, or trailers.
    Input = 0,
    /// A response, not sealed yet.
    Response = 1,
    /// Sealed records.
    Sealed = 2,
}

/// Why a connection has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// Waiting clients hold as much memory as they may.
    Memory = 1,
    /// Others need its descriptor, or its place.
    Place = 2,
}

#[derive(Debug, Default)]
struct Entry {
    /// Since when it waits, in µs, times eight, and what for; 0: it does not wait.
    waits: AtomicU64,
    held: [AtomicUsize; 3],
    /// Since when it has held more than the usual, in µs; 0: it does not.
    since: AtomicU64,
    /// An [`Evicted`]; 0: it may stay.
    evicted: AtomicU8,
    waker: Mutex<Option<Waker>>,
    /// The task whose waker that is, identified by its data; 0: nobody's.
    wakes: AtomicUsize,
}

/// The record of one connection.
#[derive(Debug)]
pub struct ParkState {
    entry: Arc<Entry>,
    place: usize,
}

/// All connections of this process.
#[derive(Debug, Default)]
struct All {
    entries: Vec<Option<Arc<Entry>>>,
    free: Vec<usize>,
    /// How many there are, and how many there were at most since memory was last given back.
    count: usize,
    peak: usize,
    /// Memory was given back, and some connections were left that had been among many.
    some_are_left: bool,
}

static ALL: Mutex<All> =
    Mutex::new(All { entries: Vec::new(), free: Vec::new(), count: 0, peak: 0, some_are_left: false });
/// What all connections hold beyond the usual, and the most of it since memory was last given back, in bytes.
static HELD: AtomicUsize = AtomicUsize::new(0);
static HELD_PEAK: AtomicUsize = AtomicUsize::new(0);
static BUDGET: AtomicUsize = AtomicUsize::new(BUDGET_MIN as usize);
/// When the log last reported that it is used up, in µs.
static SAID: AtomicU64 = AtomicU64::new(0);
/// Connections have closed that may leave memory behind, and who waits for that.
static TIDY: AtomicBool = AtomicBool::new(false);
static TIDIER: Mutex<Option<Waker>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// µs on the monotonic clock; never 0.
fn micros(at: Instant) -> u64 {
    (at.nanoseconds() / 1000).max(1)
}

/// Sets the budget of this process, one of `children`.
pub(crate) fn child_started(children: usize) {
    let share = memory().unwrap_or(0) / MEMORY_PART / children.max(1) as u64;
    BUDGET.store(share.clamp(BUDGET_MIN, BUDGET_MAX) as usize, Ordering::Relaxed);
}

/// The memory that this process and its siblings may have, in bytes: the machine's, or less if a group or a limit says
/// so.
fn memory() -> Option<u64> {
    let field = |text: String| {
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().split(' ').next()?.parse().ok())
    };
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(field).map(|kib: u64| kib * 1024);
    let groups = sys::cgroup::groups("memory").into_iter();
    let groups = groups.filter_map(|group| sys::cgroup::number(&group.memory_limit()));
    let limit = sys::rlimit::get(sys::rlimit::Limit::Memory).soft;
    machine.into_iter().chain(groups).chain(limit).min()
}

impl Default for ParkState {
    /// For a new connection.
    fn default() -> ParkState {
        let entry = Arc::new(Entry::default());
        let mut all = lock(&ALL);
        all.count += 1;
        all.peak = all.peak.max(all.count);
        let place = match all.free.pop() {
            Some(place) => {
                all.entries[place] = Some(entry.clone());
                place
            }
            None => {
                all.entries.push(Some(entry.clone()));
                all.entries.len() - 1
            }
        };
        ParkState { entry, place }
    }
}

impl Drop for ParkState {
    fn drop(&mut self) {
        [HeldMemory::Input, HeldMemory::Response, HeldMemory::Sealed].into_iter().for_each(|what| self.hold(what, 0));
        let mut all = lock(&ALL);
        all.entries[self.place] = None;
        all.free.push(self.place);
        all.count -= 1;
        let many_are_gone = all.peak >= TIDY_AFTER_CONNECTIONS && all.count <= all.peak / 2;
        let the_last_is_gone = all.some_are_left && all.count == 0;
        if many_are_gone || the_last_is_gone {
            all.peak = all.count;
            all.some_are_left = all.count > 0;
            drop(all);
            tidy_soon();
        }
    }
}

impl ParkState {
    /// The connection waits for its client since then. Repeating the call changes nothing but the time.
    pub(crate) fn wait(&self, what: WaitingFor, since: Instant) {
        self.entry.waits.store(micros(since) << 3 | what as u64, Ordering::Relaxed);
    }

    /// The connection does not wait any more.
    pub(crate) fn go_on(&self) {
        self.entry.waits.store(0, Ordering::Relaxed);
        if self.entry.evicted.load(Ordering::Relaxed) == Evicted::Place as u8 {
            let _ = self.entry.evicted.compare_exchange(Evicted::Place as u8, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The connection holds so many bytes of a kind.
    pub(crate) fn hold(&self, what: HeldMemory, bytes: usize) {
        let counted = if bytes > USUAL { bytes } else { 0 };
        let slot = &self.entry.held[what as usize];
        if counted == 0 && slot.load(Ordering::Relaxed) == 0 {
            return;
        }
        let before = slot.swap(counted, Ordering::Relaxed);
        if counted == before {
            return;
        }
        if counted < before {
            let now = HELD.fetch_sub(before - counted, Ordering::Relaxed) - (before - counted);
            if self.entry.held() == 0 {
                self.entry.since.store(0, Ordering::Relaxed);
                self.entry.evicted.store(0, Ordering::Release);
            }
            if HELD_PEAK.load(Ordering::Relaxed) >= now + TIDY_AFTER_BYTES {
                HELD_PEAK.store(now, Ordering::Relaxed);
                tidy_soon();
            }
            return;
        }
        if self.entry.since.load(Ordering::Relaxed) == 0 {
            self.renew();
        }
        let now = HELD.fetch_add(counted - before, Ordering::Relaxed) + (counted - before);
        HELD_PEAK.fetch_max(now, Ordering::Relaxed);
        if now > BUDGET.load(Ordering::Relaxed) {
            relieve(BUDGET.load(Ordering::Relaxed) / 8 * 7);
        }
    }

    /// The client has taken what it held, or much of it: it counts as one that has just begun to wait.
    pub(crate) fn renew(&self) {
        self.entry.since.store(micros(Instant::now()), Ordering::Relaxed);
    }

    /// Ready once the connection has to go.
    pub(crate) fn poll_evicted(&self, cx: &mut Context<'_>) -> Poll<Evicted> {
        let evicted = || match self.entry.evicted.load(Ordering::Acquire) {
            0 => Poll::Pending,
            1 => Poll::Ready(Evicted::Memory),
            _ => Poll::Ready(Evicted::Place),
        };
        // A thread with only one connection finds out when it looks next: to be woken by others would cost it a system
        // call with each wait, and there are few such connections.
        let task = cx.waker().data().addr();
        if self.entry.wakes.load(Ordering::Acquire) != task && sys::watch::serves_many() {
            let before = {
                let mut waker = lock(&self.entry.waker);
                self.entry.wakes.store(task, Ordering::Release);
                waker.replace(cx.waker().clone())
            };
            drop(before);
        }
        evicted()
    }
}

impl Entry {
    fn held(&self) -> usize {
        self.held.iter().map(|slot| slot.load(Ordering::Relaxed)).sum()
    }

    fn evict(&self, why: Evicted) {
        self.evicted.store(why as u8, Ordering::Release);
        let waker = {
            let mut waker = lock(&self.waker);
            self.wakes.store(0, Ordering::Relaxed);
            waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The connections that have held more than the usual for longest have to go, until the others hold no more than this.
fn relieve(most: usize) {
    let entries: Vec<Arc<Entry>> =
        lock(&ALL).entries.iter().flatten().filter(|entry| entry.held() > 0).cloned().collect();
    let (gone, mut staying): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| entry.evicted.load(Ordering::Acquire) == Evicted::Memory as u8);
    let leaving: usize = gone.iter().map(|entry| entry.held()).sum();
    let mut left = HELD.load(Ordering::Relaxed).saturating_sub(leaving);
    staying.sort_by_key(|entry| entry.since.load(Ordering::Relaxed));
    for entry in staying {
        if left <= most {
            break;
        }
        left = left.saturating_sub(entry.held());
        entry.evict(Evicted::Memory);
        say();
    }
}

/// Reports now and then that connections are closed because of the budget.
fn say() {
    let (now, said) = (micros(Instant::now()), SAID.load(Ordering::Relaxed));
    let is_new = said == 0 || now.saturating_sub(said) >= SAY_AGAIN.as_micros() as u64;
    if is_new && SAID.compare_exchange(said, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        let text = "clients that do not finish requests or do not read responses hold as much memory as they may; those \
                    that have waited longest are closed";
        runtime::log::log("core", Level::Warn, format_args!("{text} ({} MiB)", BUDGET.load(Ordering::Relaxed) >> 20));
    }
}

/// Asks up to `most` connections to go, of those that only wait for their clients: those that are closing first, then
/// those that have waited longest. Returns how many were asked.
pub(crate) fn make_room(most: usize) -> usize {
    let chosen = choose(lock(&ALL).entries.iter().flatten(), most);
    chosen.iter().for_each(|entry| entry.evict(Evicted::Place));
    chosen.len()
}

fn choose<'a>(all: impl Iterator<Item = &'a Arc<Entry>>, most: usize) -> Vec<Arc<Entry>> {
    let now = Instant::now();
    let (late, early) = (micros(now), now.checked_sub(GRACE).map_or(0, micros));
    let mut waiting: Vec<(bool, u64, &Arc<Entry>)> = all
        .filter_map(|entry| {
            let waits = entry.waits.load(Ordering::Relaxed);
            let (since, what) = (waits >> 3, waits & 7);
            let before = if what >= WaitingFor::Head as u64 { early } else { late };
            let is_asked = entry.evicted.load(Ordering::Acquire) != 0;
            (what != 0 && since <= before && !is_asked).then_some((what != WaitingFor::End as u64, since, entry))
        })
        .collect();
    waiting.sort_by_key(|(speaks, since, _)| (*speaks, *since));
    waiting.truncate(most);
    waiting.into_iter().map(|(_, _, entry)| entry.clone()).collect()
}

/// How many connections there have to have been for the end of half of them to matter to the memory.
const TIDY_AFTER_CONNECTIONS: usize = 8;
/// How much of what was held has to be free again to matter, in bytes.
const TIDY_AFTER_BYTES: usize = 4 * 1024 * 1024;
/// How long memory stays with the process after such an end: it is likely that others follow, or need it.
const TIDY_DELAY: Duration = Duration::from_secs(1);

fn tidy_soon() {
    if !TIDY.swap(true, Ordering::AcqRel)
        && let Some(waker) = lock(&TIDIER).take()
    {
        waker.wake();
    }
}

/// Gives memory back to the system whenever many connections have closed, at most once a second.
pub(crate) async fn tidy() -> std::convert::Infallible {
    loop {
        std::future::poll_fn(|cx| {
            *lock(&TIDIER) = Some(cx.waker().clone());
            if TIDY.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        runtime::executor::sleep(TIDY_DELAY).await;
        TIDY.store(false, Ordering::Release);
        sys::memory::give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because the budget is the process's.
    #[test]
    fn those_that_wait_longest_go() {
        let mut cx = Context::from_waker(Waker::noop());
        let budget = BUDGET.load(Ordering::Relaxed);
        let each = budget / 16;
        let mut all: Vec<ParkState> = Vec::new();
        let is_evicted = |one: &ParkState, cx: &mut Context<'_>| one.poll_evicted(cx) == Poll::Ready(Evicted::Memory);
        for number in 0..24 {
            let one = ParkState::default();
            one.hold(HeldMemory::Input, USUAL);
            assert_eq!(one.entry.held(), 0, "what is usual is not counted");
            one.hold([HeldMemory::Input, HeldMemory::Response, HeldMemory::Sealed][number % 3], each);
            all.push(one);
        }
        let evicted = all.iter().take_while(|one| is_evicted(one, &mut cx)).count();
        assert!((8..=12).contains(&evicted), "{evicted}");
        assert!(!all[evicted..].iter().any(|one| is_evicted(one, &mut cx)), "the newest stay");
        // A client that reads counts as new.
        let slow = &all[evicted];
        slow.renew();
        let more: Vec<ParkState> = (0..evicted).map(|_| ParkState::default()).collect();
        all.iter().take(evicted).for_each(|one| one.hold(HeldMemory::Input, 0));
        all.iter().take(evicted).for_each(|one| one.hold(HeldMemory::Response, 0));
        all.iter().take(evicted).for_each(|one| one.hold(HeldMemory::Sealed, 0));
        assert!(!is_evicted(&all[0], &mut cx), "it has nothing left");
        more.iter().for_each(|one| one.hold(HeldMemory::Response, each));
        assert!(!is_evicted(&all[evicted], &mut cx));
        drop((all, more));
        assert_eq!(HELD.load(Ordering::Relaxed), 0);
    }

    /// Who is closing, then who has waited longest; not who has only just fallen silent.
    #[test]
    fn places_go_to_those_that_speak() {
        let now = Instant::now() + Duration::from_secs(1);
        let waits = [
            (WaitingFor::Head, 0),
            (WaitingFor::Request, 1),
            (WaitingFor::Request, 0),
            (WaitingFor::End, 0),
            (WaitingFor::Body, 0),
        ];
        let some = waits.map(|(what, before)| {
            let one = ParkState::default();
            // A clock of which the beginning is not long ago.
            one.wait(what, now.checked_sub(Duration::from_millis(1000 + before)).unwrap_or(now));
            one
        });
        let chosen = || {
            let chosen = choose(some.iter().map(|one| &one.entry), 2);
            let place = |entry: &Arc<Entry>| some.iter().position(|one| Arc::ptr_eq(&one.entry, entry));
            chosen.iter().filter_map(place).collect::<Vec<_>>()
        };
        assert_eq!(chosen(), [3, 1]);
        some[1].entry.evict(Evicted::Place);
        assert_eq!(chosen(), [3, 2], "who was asked is leaving");
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(some[1].poll_evicted(&mut cx), Poll::Ready(Evicted::Place));
        some[1].go_on();
        assert!(some[1].poll_evicted(&mut cx).is_pending(), "its request has come");
    }
}
