//! The thread that waits for abandoned processes, all of them at once; it exists only if there was recent need for it.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use server::ScriptUse;
use sys::poll::Poller;
use sys::signal::Signal;
use sys::time::Instant;

use super::daemon_script::forget_expired;
use super::progress::Progress;
use super::script_process::{Permitted, ScriptProcess};
use crate::gate::Permit;

/// How often to check what cannot be waited for: groups that outlive their leaders.
const LOOK: Duration = Duration::from_millis(100);
/// How long the idle thread stays.
const STAY: Duration = Duration::from_secs(10);
/// How long a script that has closed its outputs may continue before it gets the order to end.
pub(crate) const EXIT_GRACE: Duration = Duration::from_secs(1);
/// How long a script may take to follow an order to end before it is killed (as in Apache).
pub(crate) const TERM_GRACE: Duration = Duration::from_secs(3);

/// A process left to the thread.
#[derive(Debug)]
pub(crate) struct AbandonedProcess {
    pub(crate) script: ScriptProcess,
    /// Its permit and its cost, until it is reaped.
    account: Option<(Permit, Arc<ScriptUse>)>,
    pub(crate) ended: bool,
    /// Nobody will report its end.
    pub(crate) lost: bool,
    /// The descriptor that reports its end, if there is one.
    end: Option<Arc<OwnedFd>>,
    next_signal: NextSignal,
}

/// The signal that a process gets at a certain moment if it has not ended by then.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NextSignal {
    /// Ends by itself; the rest of its group may stay (daemons).
    Term(Instant),
    /// Got the order to end, and so did its whole group.
    Kill(Instant),
}

impl AbandonedProcess {
    pub(crate) fn new(permitted: Permitted, next_signal: NextSignal) -> AbandonedProcess {
        let Permitted { process: script, permit, cost } = permitted;
        AbandonedProcess { script, account: Some((permit, cost)), ended: false, lost: false, end: None, next_signal }
    }

    /// Its leader has already been reaped; only others of its group are left.
    pub(crate) fn reaped(self) -> AbandonedProcess {
        AbandonedProcess { ended: true, ..self }
    }

    /// Its parts, if it has not ended.
    pub(crate) fn into_permitted(self) -> Option<Permitted> {
        let (permit, cost) = self.account?;
        Some(Permitted { process: self.script, permit, cost })
    }

    /// Whether the process has ended; then its permit is given back.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.ended {
            return true;
        }
        let reaped = loop {
            match self.script.progress() {
                Progress::Begun(pid, took) => {
                    if let Some((permit, cost)) = &self.account {
                        permit.started(pid);
                        cost.set_started(took);
                    }
                }
                Progress::Runs => return false,
                Progress::Lost => {
                    self.lost = true;
                    return false;
                }
                Progress::NotStarted(_) => {
                    if let Some((permit, _)) = self.account.take() {
                        permit.not_started();
                    }
                    break None;
                }
                Progress::Ended(reaped) => break reaped,
            }
        };
        self.ended = true;
        if let Some((permit, cost)) = self.account.take()
            && let Some(reaped) = reaped
        {
            permit.ended(&reaped, self.script.floor());
            cost.set_ended(reaped);
        }
        true
    }

    /// Whether its end may be noticed a little later: nobody waits for its place.
    fn may_be_missed(&self) -> bool {
        self.account.as_ref().is_none_or(|(permit, _)| permit.note_exiting())
    }

    /// Whether there is nothing left to do.
    fn is_over(&mut self, now: Instant) -> bool {
        let ended = self.has_ended();
        match self.next_signal {
            NextSignal::Term(_) if ended => true,
            NextSignal::Term(end) if now >= end => {
                self.script.signal(Signal::TERM, true);
                self.next_signal = NextSignal::Kill(now + TERM_GRACE);
                false
            }
            NextSignal::Term(_) => false,
            // A group keeps its number from being reused as long as it has members.
            NextSignal::Kill(_) if ended && !self.script.has_group() => true,
            NextSignal::Kill(end) if now >= end => {
                self.script.signal(Signal::KILL, !ended);
                ended
            }
            NextSignal::Kill(_) => false,
        }
    }

    /// Whether something is still to be done. Stops listening to descriptors that have reported everything.
    fn goes_on(&mut self, poller: &Poller, now: Instant) -> bool {
        let over = self.is_over(now);
        if (over || self.ended || self.lost)
            && let Some(end) = self.end.take()
        {
            let _ = poller.remove(end);
        }
        !over
    }
}

/// The processes left to the thread.
#[derive(Debug)]
struct List {
    /// About to end: mostly gone when the next script leaves, otherwise left to the thread when it next looks.
    exiting: VecDeque<AbandonedProcess>,
    abandoned: BTreeMap<u64, AbandonedProcess>,
    next: u64,
    /// The descriptors that the thread waits for, while it exists.
    poller: Option<Arc<Poller>>,
}

static LIST: Mutex<List> =
    Mutex::new(List { exiting: VecDeque::new(), abandoned: BTreeMap::new(), next: 0, poller: None });

fn list() -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

impl List {
    /// Starts the thread if there is none. If that fails, the next script tries again.
    fn start(&mut self) {
        if self.poller.is_none() {
            let start = |poller: Arc<Poller>| {
                let poller_of_thread = poller.clone();
                let thread = std::thread::Builder::new().name("reaper".into()).stack_size(64 * 1024);
                thread.spawn(move || run(&poller_of_thread)).map(|_| poller)
            };
            self.poller = Poller::new().map(Arc::new).and_then(start).ok();
        }
    }

    /// Looks whether those that are about to end have ended: at two of them for each one that comes, because each look is a
    /// system call, or at all of them if there is no thread that looks at the others.
    fn look_at_exiting(&mut self) {
        let looks = if self.poller.is_some() { 2 } else { self.exiting.len() };
        for _ in 0..looks {
            let Some(mut process) = self.exiting.pop_front() else { break };
            if !process.has_ended() {
                self.exiting.push_back(process);
            }
        }
    }

    fn add(&mut self, process: AbandonedProcess) -> u64 {
        let number = self.next;
        self.next += 1;
        self.abandoned.insert(number, process);
        number
    }
}

/// Leaves a process to the thread, which learns when it ends.
pub(crate) fn abandon(process: AbandonedProcess) {
    let mut list = list();
    list.start();
    let number = list.add(process);
    let List { abandoned, poller, .. } = &mut *list;
    // A process that cannot be waited for is checked from time to time.
    if let Some(process) = abandoned.get_mut(&number).filter(|process| !process.ended) {
        let is_waited_for = |end: &Arc<OwnedFd>| poller.as_ref().is_some_and(|poller| poller.add(end, number).is_ok());
        process.end = process.script.end().ok().filter(is_waited_for);
    }
}

/// Takes a process that has closed its outputs. Mostly it has ended, or does so at once: then no thread has to wake for
/// it, unless somebody waits for its place.
pub(crate) fn expect_exit(mut process: AbandonedProcess) {
    {
        let mut list = list();
        list.look_at_exiting();
        if process.has_ended() {
            return;
        }
        if process.may_be_missed() {
            list.start();
            list.exiting.push_back(process);
            return;
        }
    }
    abandon(process);
}

/// The life of the thread.
fn run(poller: &Poller) {
    let mut ready = Vec::new();
    let (mut used, mut looked) = (Instant::now(), Instant::now());
    loop {
        // An error would come back at once, for ever.
        if poller.wait(Some(LOOK), &mut ready).is_err() {
            #[expect(clippy::disallowed_methods, reason = "a thread of its own")]
            std::thread::sleep(LOOK);
        }
        let mut list = list();
        let now = Instant::now();
        for number in &ready {
            if list.abandoned.get_mut(number).is_some_and(|process| !process.goes_on(poller, now)) {
                list.abandoned.remove(number);
            }
        }
        // A deadline may have passed.
        if now >= looked + LOOK {
            looked = now;
            forget_expired();
            for process in std::mem::take(&mut list.exiting) {
                list.add(process);
            }
            list.abandoned.retain(|_, process| process.goes_on(poller, now));
        }
        if !list.abandoned.is_empty() || !list.exiting.is_empty() || !ready.is_empty() {
            used = now;
        } else if now >= used + STAY {
            list.poller = None;
            return;
        }
    }
}

/// Whether any process left to the thread has not ended.
pub(crate) fn is_any_left() -> bool {
    let list = list();
    !list.abandoned.is_empty() || !list.exiting.is_empty()
}

/// Kills, at once, all remaining processes; for a process that ends.
pub(crate) fn kill_all() {
    let list = list();
    list.abandoned
        .values()
        .chain(&list.exiting)
        .for_each(|process| process.script.signal(Signal::KILL, !process.ended));
}
