//! A request's entry in the table, and its wait there.

use std::time::{Duration, Instant};

use super::admit::{Gate, LOOK, READ_RELAXED};
use super::policy;
use super::refusal::Refusal;
use super::rules::Rules;
use super::table::EntryState;
use super::wait::WakeUp;

/// The first interval if a script is about to end, and how often it applies.
const LEAVING: Duration = Duration::from_millis(1);
const LEAVING_ROUNDS: u32 = 5;

impl Gate {
    /// Enters the table. Mostly the request is admitted at once. If too many wait, one gives way: one whose client may
    /// be gone, or the last of those who wait for the most wanted script.
    pub(super) fn queue(&'static self, name: &str, host: &str, rules: &Rules) -> Result<Seat, Refusal> {
        let memory = self.memory(READ_RELAXED);
        let locked = self.table.lock().ok_or_else(Refusal::stuck)?;
        let script = locked.script(name);
        let enter = || locked.enter(script, host, rules.most.unwrap_or(u64::MAX));
        let entry = enter().or_else(|| {
            locked.sweep();
            enter()
        });
        let Some(entry) = entry else {
            return Err(self.refusal(
                &locked,
                script,
                "too many scripts are running or waiting".into(),
                memory.available,
            ));
        };
        let must_wait = || !self.table.is_running(entry) && locked.is_full(rules);
        let mut told = self.admit(&locked, memory);
        if !self.table.is_running(entry) && locked.end_leaving() {
            told.extend(self.admit(&locked, memory));
        }
        if must_wait() {
            // Some of them may be dead.
            locked.sweep();
            told.extend(self.admit(&locked, memory));
        }
        let mut refusal = None;
        if must_wait() {
            let (entries, waiting) = locked.guests(EntryState::Waiting);
            match policy::gives_way(&waiting).map(|index| entries[index]) {
                Some(other) if other != entry => {
                    locked.turn_away(other);
                    told.push(other);
                }
                _ => {
                    let text = format!("{} requests are already waiting for scripts", locked.waiting() - 1);
                    refusal = Some(self.refusal(&locked, script, text, memory.available));
                    locked.leave(entry);
                }
            }
        }
        drop(locked);
        self.wake(told.into_iter().filter(|other| *other != entry));
        match refusal {
            None => Ok(Seat { gate: self, entry }),
            Some(refusal) => Err(refusal),
        }
    }
}

/// An entry of the table. Dropping it gives it back, and another request may come in.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) gate: &'static Gate,
    pub(super) entry: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        match self.gate.table.lock() {
            Some(locked) => locked.leave(self.entry),
            None => self.gate.table.abandon(self.entry),
        }
        self.gate.go_on();
    }
}

impl Seat {
    pub(super) fn is_admitted(&self) -> bool {
        self.gate.table.is_running(self.entry)
    }

    /// Waits to be admitted.
    pub(super) async fn wait(
        &self,
        deadline: Instant,
        rules: &Rules,
        script: &str,
        doubtful: impl Fn() -> bool,
    ) -> Result<(), Refusal> {
        // Without one it checks from time to time, as all do.
        let mut wake_up = WakeUp::of(&self.gate.name, self.entry);
        let mut timer = runtime::executor::Timer::default();
        let mut rounds = 0;
        loop {
            self.gate.end_leaving();
            // Memory that running scripts have taken meanwhile need not be reserved for them.
            self.gate.look();
            if self.is_admitted() {
                return Ok(());
            }
            let now = Instant::now();
            let turned_away = self.gate.table.is_turned_away(self.entry);
            if turned_away || now >= deadline {
                let memory = self.gate.memory(READ_RELAXED);
                let locked = self.gate.table.lock().ok_or_else(Refusal::stuck)?;
                if self.is_admitted() {
                    return Ok(());
                }
                let text = match turned_away {
                    true => "gave way to requests for other scripts, because too many are waiting".into(),
                    false => format!("waited {:?} for its turn", rules.timeout),
                };
                return Err(self.gate.refusal(&locked, locked.script(script), text, memory.available));
            }
            if doubtful() {
                self.gate.table.doubt(self.entry);
            }
            rounds += 1;
            let soon = rounds <= LEAVING_ROUNDS && self.gate.table.is_anybody_leaving();
            let pause = if soon { LEAVING } else { LOOK };
            runtime::release_worker(timer.until(deadline.min(now + pause), wake_up.arrives())).await;
        }
    }
}
