//! The entries: one for each waiting request and running script.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use sys::process::Pid;
use sys::shared_lock::{is_there, own};

use super::layout::{ENTRIES, EntryField, EntryState, HeaderField, SCRIPTS, Table, hash, micros, now};
use super::lock::{Locked, pid};
use crate::gate::policy::Job;
use crate::gate::rules::Rules;

/// The operations that need no lock.
impl Table {
    /// Whether an entry has been admitted.
    pub(in crate::gate) fn is_running(&self, entry: usize) -> bool {
        self.entries[entry][EntryField::State as usize].load(Acquire) == EntryState::Running as u64
    }

    /// The place for the process of a running entry; 0 until it has one. It starts within a second.
    pub(in crate::gate) fn process(&self, entry: usize) -> &AtomicU64 {
        self.set(entry, EntryField::StartedBy, sys::process::ticks());
        &self.entries[entry][EntryField::Process as usize]
    }

    /// Whether an entry had to give way.
    pub(in crate::gate) fn is_turned_away(&self, entry: usize) -> bool {
        self.entries[entry][EntryField::State as usize].load(Acquire) == EntryState::TurnedAway as u64
    }

    /// Records that the client may be gone.
    pub(in crate::gate) fn doubt(&self, entry: usize) {
        self.set(entry, EntryField::Doubtful, 1);
    }

    /// Records that a script is about to end. A request that comes to wait either sees that, or is seen waiting.
    pub(in crate::gate) fn note_exiting(&self, entry: usize) {
        self.entries[entry][EntryField::Exiting as usize].store(1, SeqCst);
        fence(SeqCst);
    }

    /// Whether any script is about to end.
    pub(in crate::gate) fn is_any_exiting(&self) -> bool {
        let used = (self.header(HeaderField::Used).load(Relaxed) as usize).min(ENTRIES);
        (0..used).any(|entry| self.get(entry, EntryField::Exiting) != 0 && self.is_running(entry))
    }

    /// Lets go of an entry without the lock, because the lock's holder does not let go of that. The holder may be in
    /// the middle of admitting this very entry, or of counting, so the state stays as it is until the lock is taken
    /// next.
    pub(in crate::gate) fn abandon(&self, entry: usize) {
        self.entries[entry][EntryField::Abandoned as usize].store(1, Release);
        self.header(HeaderField::Abandoned).store(1, Release);
    }
}

impl Locked<'_> {
    pub(super) fn used(&self) -> usize {
        (self.0.header(HeaderField::Used).load(Relaxed) as usize).min(ENTRIES)
    }

    /// Finds out anew what changes of entries and scripts keep count of.
    pub(super) fn recount(&self) {
        let is = |state: EntryState| move |entry: &usize| self.state(*entry) == state;
        let is_unknown = |entry: &usize| self.0.get(*entry, EntryField::Unknown) != 0;
        let all = || 0..self.used();
        let counts = [
            (HeaderField::FirstFree, 0),
            (HeaderField::Waiting, all().filter(is(EntryState::Waiting)).count() as u64),
            (HeaderField::Running, all().filter(is(EntryState::Running)).count() as u64),
            (HeaderField::Unknown, all().filter(is(EntryState::Running)).filter(is_unknown).count() as u64),
            (HeaderField::Largest, (0..SCRIPTS).filter_map(|script| self.expected(script)).max().unwrap_or(0)),
        ];
        for (field, count) in counts {
            self.0.header(field).store(count, Relaxed);
        }
    }

    /// Whether too many wait.
    pub(in crate::gate) fn is_full(&self, rules: &Rules) -> bool {
        self.waiting() > rules.queue.max(1) || self.waiting() + self.running() > rules.total.max(1)
    }

    pub(super) fn state(&self, entry: usize) -> EntryState {
        let state = self.0.get(entry, EntryField::State);
        // In the order of their numbers.
        let known =
            [EntryState::Free, EntryState::Waiting, EntryState::Running, EntryState::TurnedAway, EntryState::Ended];
        known.get(state as usize).copied().unwrap_or(EntryState::Free)
    }

    fn set_state(&self, entry: usize, state: EntryState) {
        let header = |field| self.0.header(field);
        let count = |state: EntryState, by: fn(&AtomicU64, u64, Ordering) -> u64| match state {
            EntryState::Waiting => {
                by(header(HeaderField::Waiting), 1, Relaxed);
            }
            EntryState::Running => {
                by(header(HeaderField::Running), 1, Relaxed);
                by(header(HeaderField::Unknown), self.0.get(entry, EntryField::Unknown), Relaxed);
            }
            EntryState::Free | EntryState::TurnedAway | EntryState::Ended => {}
        };
        count(self.state(entry), AtomicU64::fetch_sub);
        count(state, AtomicU64::fetch_add);
        if state == EntryState::Free {
            header(HeaderField::FirstFree).fetch_min(entry as u64, Relaxed);
        }
        self.0.entries[entry][EntryField::State as usize].store(state as u64, Release);
    }

    /// Takes an entry for a request that waits from now on. `None`: there are too many already.
    pub(in crate::gate) fn enter(&self, script: usize, host: &str, most: u64) -> Option<usize> {
        let (used, first) = (self.used(), self.0.header(HeaderField::FirstFree).load(Relaxed) as usize);
        let entry = (first..ENTRIES).find(|entry| *entry >= used || self.state(*entry) == EntryState::Free)?;
        self.0.header(HeaderField::FirstFree).store(entry as u64 + 1, Relaxed);
        self.0.header(HeaderField::Used).fetch_max(entry as u64 + 1, Relaxed);
        let values = [
            (EntryField::Holder, own()),
            (EntryField::Script, script as u64),
            (EntryField::Host, hash(host)),
            (EntryField::Since, now()),
            (EntryField::Has, 0),
            (EntryField::Peak, 0),
            (EntryField::Most, most),
            (EntryField::Unknown, 0),
            (EntryField::Process, 0),
            (EntryField::StartedBy, 0),
            (EntryField::Doubtful, 0),
            (EntryField::Exiting, 0),
            (EntryField::Abandoned, 0),
        ];
        for (field, value) in values {
            self.0.set(entry, field, value);
        }
        self.set_state(entry, EntryState::Waiting);
        Some(entry)
    }

    /// Whether this entry may run for sure, although nobody has looked at the runs of others: it needs to be the only one
    /// that waits, without a limit of its own, and `free` bytes are enough for it and all others even if each run takes
    /// the most that any ever took.
    pub(in crate::gate) fn has_ample_room(&self, entry: usize, free: u64) -> bool {
        let number = |field| self.0.header(field).load(Relaxed);
        let most = number(HeaderField::Largest).saturating_mul(self.running() as u64 + 1);
        let is_known = || number(HeaderField::Unknown) == 0 && self.expected(self.script_of(entry)).is_some();
        let is_alone = self.waiting() == 1 && self.0.get(entry, EntryField::Most) == u64::MAX;
        is_alone && free > 0 && most <= free && is_known()
    }

    /// Makes an entry give way to others.
    pub(in crate::gate) fn turn_away(&self, entry: usize) {
        self.set_state(entry, EntryState::TurnedAway);
    }

    /// Admits an entry.
    pub(in crate::gate) fn admit(&self, entry: usize) {
        self.0.set(entry, EntryField::Since, now());
        self.0.set(entry, EntryField::Unknown, self.expected(self.script_of(entry)).is_none().into());
        self.set_state(entry, EntryState::Running);
    }

    /// Gives an entry back.
    pub(in crate::gate) fn leave(&self, entry: usize) {
        self.set_state(entry, EntryState::Free);
    }

    /// Gives abandoned entries back.
    pub(super) fn take_back(&self) {
        self.0.header(HeaderField::Abandoned).swap(0, AcqRel);
        for entry in (0..self.used()).filter(|entry| self.0.get(*entry, EntryField::Abandoned) != 0) {
            self.0.set(entry, EntryField::Abandoned, 0);
            self.leave(entry);
        }
    }

    /// All entries in a state.
    pub(in crate::gate) fn jobs(&self, state: EntryState) -> (Vec<usize>, Vec<Job>) {
        let entries = (0..self.used()).filter(|entry| self.state(*entry) == state);
        entries.map(|entry| (entry, self.job(entry))).unzip()
    }

    pub(in crate::gate) fn script_of(&self, entry: usize) -> usize {
        (self.0.get(entry, EntryField::Script) as usize).min(SCRIPTS - 1)
    }

    fn job(&self, entry: usize) -> Job {
        let get = |field| self.0.get(entry, field);
        let script = self.script_of(entry);
        let expected = self.expected(script);
        Job {
            script,
            host: get(EntryField::Host),
            since: get(EntryField::Since),
            needs: expected.unwrap_or(0),
            has: get(EntryField::Has),
            known: expected.is_some(),
            most: get(EntryField::Most),
            doubtful: get(EntryField::Doubtful) != 0,
        }
    }

    /// The processes of running entries that were admitted at least this long ago.
    pub(in crate::gate) fn processes(&self, age: Duration) -> Vec<(usize, Pid)> {
        let number = |entry: &usize| pid(self.0.get(*entry, EntryField::Process));
        let before = now().saturating_sub(micros(age));
        let is_old = |entry: &usize| self.0.get(*entry, EntryField::Since) <= before;
        let running = (0..self.used()).filter(|entry| self.state(*entry) == EntryState::Running).filter(is_old);
        running.filter_map(|entry| Some((entry, number(&entry)?))).collect()
    }

    /// The running scripts of this process that have not closed their outputs.
    pub(in crate::gate) fn own_processes(&self) -> Vec<Pid> {
        let own = own();
        let is_own = |entry: &usize| {
            self.0.get(*entry, EntryField::Holder) == own && self.0.get(*entry, EntryField::Exiting) == 0
        };
        let running = (0..self.used()).filter(|entry| self.state(*entry) == EntryState::Running).filter(is_own);
        running.filter_map(|entry| pid(self.0.get(entry, EntryField::Process))).collect()
    }

    /// Records the memory of a running entry; nothing means that the process has ended.
    pub(in crate::gate) fn weigh(&self, entry: usize, pid: Pid, has: u64) {
        let is_the_same = self.0.get(entry, EntryField::Process) == u64::from(pid.number().unsigned_abs());
        if self.state(entry) != EntryState::Running || !is_the_same {
            return;
        }
        self.0.set(entry, EntryField::Has, has);
        self.0.set(entry, EntryField::Peak, self.0.get(entry, EntryField::Peak).max(has));
        if has == 0 {
            self.set_state(entry, EntryState::Ended);
        }
    }

    /// Checks whether scripts that were about to end have done so; returns whether one has.
    pub(in crate::gate) fn end_exited(&self) -> bool {
        let is_exiting =
            |entry: &usize| self.state(*entry) == EntryState::Running && self.0.get(*entry, EntryField::Exiting) != 0;
        // A daemon may not have said yet which process it is.
        let is_known = |entry: &usize| pid(self.0.get(*entry, EntryField::Process)).is_some();
        let exiting = (0..self.used()).filter(is_exiting).filter(is_known);
        let ended: Vec<usize> = exiting.filter(|entry| !self.script_is_there(*entry)).collect();
        ended.iter().for_each(|entry| self.set_state(*entry, EntryState::Ended));
        !ended.is_empty()
    }

    /// Forgets entries whose process of the server is gone: waiting ones at once, running ones when their script is
    /// gone too.
    pub(in crate::gate) fn sweep(&self) {
        let mut holders = HashMap::new();
        for entry in (0..self.used()).filter(|entry| self.state(*entry) != EntryState::Free) {
            let holder = self.0.get(entry, EntryField::Holder);
            let lives = *holders.entry(holder).or_insert_with(|| is_there(holder));
            let waits = matches!(self.state(entry), EntryState::Waiting | EntryState::TurnedAway);
            if !lives && (waits || !self.script_is_there(entry)) {
                self.leave(entry);
            }
        }
        self.recount();
    }

    fn script_is_there(&self, entry: usize) -> bool {
        let started_by = self.0.get(entry, EntryField::StartedBy);
        pid(self.0.get(entry, EntryField::Process)).is_some_and(|pid| sys::process::is_there_since(pid, started_by))
    }
}
