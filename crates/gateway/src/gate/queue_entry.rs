//! A request's entry in the table, and its wait there.

use std::time::Duration;

use sys::time::Instant;

use super::admit::{CHECK_INTERVAL, Gate, READ_RELAXED};
use super::not_admitted::NotAdmitted;
use super::policy;
use super::rules::Rules;
use super::table::EntryState;
use super::wait::WakeUp;

/// The first interval if a script is about to end, and how often it applies.
const EXITING_PAUSE: Duration = Duration::from_millis(1);
const EXITING_ROUNDS: u32 = 5;

impl Gate {
    /// Enters the table. Mostly the request is admitted at once. If too many wait, one gives way: one whose client may
    /// be gone, or the last of those who wait for the most wanted script.
    pub(super) fn queue(&'static self, name: &str, host: &str, rules: &Rules) -> Result<QueueEntry, NotAdmitted> {
        let memory = self.memory(READ_RELAXED);
        let locked = self.table.lock().ok_or_else(NotAdmitted::stuck)?;
        let script = locked.script(name);
        let enter = || locked.enter(script, host, rules.most.unwrap_or(u64::MAX));
        let entry = enter().or_else(|| {
            locked.sweep();
            enter()
        });
        let Some(entry) = entry else {
            return Err(self.not_admitted(
                &locked,
                script,
                "too many scripts are running or waiting".into(),
                memory.available,
            ));
        };
        let must_wait = || !self.table.is_running(entry) && locked.is_full(rules);
        let mut to_wake = match self.admit_alone(&locked, entry, memory) {
            true => Vec::new(),
            false => self.admit(&locked, memory),
        };
        if !self.table.is_running(entry) && locked.end_exited() {
            to_wake.extend(self.admit(&locked, memory));
        }
        if must_wait() {
            // Some of them may be dead.
            locked.sweep();
            to_wake.extend(self.admit(&locked, memory));
        }
        let mut not_admitted = None;
        if must_wait() {
            let (entries, waiting) = locked.jobs(EntryState::Waiting);
            match policy::gives_way(&waiting).map(|index| entries[index]) {
                Some(other) if other != entry => {
                    locked.turn_away(other);
                    to_wake.push(other);
                }
                _ => {
                    let text = format!("{} requests are already waiting for scripts", locked.waiting() - 1);
                    not_admitted = Some(self.not_admitted(&locked, script, text, memory.available));
                    locked.leave(entry);
                }
            }
        }
        drop(locked);
        self.wake(to_wake.into_iter().filter(|other| *other != entry));
        match not_admitted {
            None => Ok(QueueEntry { gate: self, index: entry }),
            Some(not_admitted) => Err(not_admitted),
        }
    }
}

/// An entry of the table. Dropping it gives it back, and another request may come in.
#[derive(Debug)]
pub(super) struct QueueEntry {
    pub(super) gate: &'static Gate,
    pub(super) index: usize,
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        match self.gate.table.lock() {
            Some(locked) => locked.leave(self.index),
            None => self.gate.table.abandon(self.index),
        }
        self.gate.admit_waiting();
    }
}

impl QueueEntry {
    pub(super) fn is_admitted(&self) -> bool {
        self.gate.table.is_running(self.index)
    }

    /// Waits to be admitted.
    pub(super) async fn wait(
        &self,
        deadline: Instant,
        rules: &Rules,
        script: &str,
        doubtful: impl Fn() -> bool,
    ) -> Result<(), NotAdmitted> {
        // Without one it checks from time to time, as all do.
        let mut wake_up = WakeUp::of(&self.gate.name, self.index);
        let mut timer = runtime::executor::Timer::default();
        let mut rounds = 0;
        loop {
            self.gate.end_exited();
            // Memory that running scripts have taken meanwhile need not be reserved for them.
            self.gate.check_running();
            if self.is_admitted() {
                return Ok(());
            }
            let now = Instant::now();
            let turned_away = self.gate.table.is_turned_away(self.index);
            if turned_away || now >= deadline {
                let memory = self.gate.memory(READ_RELAXED);
                let locked = self.gate.table.lock().ok_or_else(NotAdmitted::stuck)?;
                if self.is_admitted() {
                    return Ok(());
                }
                let text = match turned_away {
                    true => "gave way to requests for other scripts, because too many are waiting".into(),
                    false => format!("waited {:?} for its turn", rules.timeout),
                };
                return Err(self.gate.not_admitted(&locked, locked.script(script), text, memory.available));
            }
            if doubtful() {
                self.gate.table.doubt(self.index);
            }
            rounds += 1;
            let soon = rounds <= EXITING_ROUNDS && self.gate.table.is_any_exiting();
            let pause = if soon { EXITING_PAUSE } else { CHECK_INTERVAL };
            runtime::release_worker(timer.until(deadline.min(now + pause), wake_up.arrives())).await;
        }
    }
}
