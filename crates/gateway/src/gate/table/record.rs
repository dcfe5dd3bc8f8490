//! The statistics of each script: a row of numbers, and its name.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use sys::process::Status;

use super::layout::{EntryField, EntryState, HeaderField, NAME, RECORD, SCRIPTS, STEPS, Table, hash, micros, now};
use super::lock::Locked;
use super::usage::Usage;

/// Durations are counted in [`STEPS`] steps of √2 from this many µs on: the number of runs in each step, and their sum
/// in µs.
const FIRST_STEP: u64 = 100;
/// How often a refusal of a script is explained in detail.
const EXPLAINED: Duration = Duration::from_millis(100);

#[derive(Clone, Copy)]
enum ScriptField {
    Key,
    Runs,
    Failures,
    Refused,
    /// The expected need of the next run; 0: unknown.
    Expected,
    /// The most any run needed.
    Peak,
    /// In µs, over all runs.
    Cpu,
    Queued,
    /// When a refusal was last explained, and when the script was last requested, in µs.
    LastExplained,
    LastRequested,
}

/// The statistics of a script, for a status page.
#[derive(Clone, Debug, Default)]
pub struct ScriptStats {
    /// Its file, or the end of a long name.
    pub name: String,
    /// Runs that have ended.
    pub runs: u64,
    /// Runs that ended badly, or before they could start.
    pub failures: u64,
    /// Requests that were refused a run.
    pub refused: u64,
    /// Bytes the next run is expected to need; 0 if no run has ended.
    pub expected: u64,
    /// The most bytes that a run has needed; 0 if none needed more than the process that started it.
    pub peak: u64,
    /// CPU time of all runs.
    pub cpu: Duration,
    /// Total time that requests have waited to be admitted.
    pub queued: Duration,
    /// Half of the runs took at most this long, as precisely as that is known: the mean of that step's runs. 0 if no
    /// started run has ended.
    pub median: Duration,
    /// 99 of 100 runs took at most this long, in the precision of `median`.
    pub p99: Duration,
    /// Runs at the moment.
    pub running: u64,
    /// How many requests for it wait at the gate.
    pub waiting: u64,
}

/// The expected need of the next run after one that needed `peak`: the same if that is more, otherwise a little less
/// than before.
fn expect(before: u64, peak: u64) -> u64 {
    if peak >= before { peak } else { before - (before - peak) / 8 }
}

/// The step that a duration belongs to.
fn step(took: Duration) -> usize {
    let times = micros(took).max(1) as f64 / FIRST_STEP as f64;
    ((times.log2() * 2.0).ceil().max(0.0) as usize).min(STEPS - 1)
}

impl Table {
    /// Whether any finished run of an entry's script has shown its needs. Without the lock.
    pub(in crate::gate) fn is_known(&self, entry: usize) -> bool {
        let script = (self.get(entry, EntryField::Script) as usize).min(SCRIPTS - 1);
        self.scripts[script][ScriptField::Expected as usize].load(Relaxed) > 0
    }
}

impl Locked<'_> {
    /// The row of a script, by its file. If none is left, this takes the row that was not requested for the longest
    /// time, and forgets its script; if every row is in use, the last one serves all others.
    pub(in crate::gate) fn script(&self, name: &str) -> usize {
        let key = hash(name);
        let start = (key % SCRIPTS as u64) as usize;
        let slots = || (start..SCRIPTS - 1).chain(0..start.min(SCRIPTS - 1));
        let slot = slots().find(|slot| [0, key].contains(&self.script_number(*slot, ScriptField::Key)));
        let slot = match slot.or_else(|| self.forgettable()) {
            Some(slot) => slot,
            None => return SCRIPTS - 1,
        };
        if self.script_number(slot, ScriptField::Key) != key {
            let row = &self.0.scripts[slot];
            row.iter().for_each(|word| word.store(0, Relaxed));
            let bytes = &name.as_bytes()[name.len().saturating_sub(NAME * 8)..];
            for (index, word) in bytes.chunks(8).enumerate() {
                let mut whole = [0; 8];
                whole[..word.len()].copy_from_slice(word);
                row[RECORD + index].store(u64::from_ne_bytes(whole), Relaxed);
            }
            row[ScriptField::Key as usize].store(key, Release);
        }
        self.set_script_number(slot, ScriptField::LastRequested, now());
        slot
    }

    /// The row that was not requested for the longest time, among those without waiting requests and runs.
    fn forgettable(&self) -> Option<usize> {
        let mut free = [true; SCRIPTS];
        free[SCRIPTS - 1] = false;
        for entry in (0..self.used()).filter(|entry| self.state(*entry) != EntryState::Free) {
            free[self.script_of(entry)] = false;
        }
        (0..SCRIPTS).filter(|slot| free[*slot]).min_by_key(|slot| self.script_number(*slot, ScriptField::LastRequested))
    }

    fn script_number(&self, script: usize, field: ScriptField) -> u64 {
        self.0.scripts[script][field as usize].load(Relaxed)
    }

    fn set_script_number(&self, script: usize, field: ScriptField, value: u64) {
        self.0.scripts[script][field as usize].store(value, Relaxed);
    }

    /// The expected need of a script's next run; `None`: no run has ended.
    pub(in crate::gate) fn expected(&self, script: usize) -> Option<u64> {
        Some(self.script_number(script, ScriptField::Expected)).filter(|bytes| *bytes > 0)
    }

    /// Learns from a run that has ended. A run that was cut short only shows that others may need as much; if nothing
    /// else is known it shows nothing.
    pub(in crate::gate) fn learn(&self, entry: usize, usage: Usage) {
        let index = self.script_of(entry);
        let script = &self.0.scripts[index];
        let add = |field: ScriptField, value: u64| script[field as usize].fetch_add(value, Relaxed);
        let (before, weighed) = (self.script_number(index, ScriptField::Expected), self.0.get(entry, EntryField::Peak));
        let peak = usage.peak.max(Some(weighed).filter(|weighed| *weighed > 0));
        let expected = match peak {
            _ if usage.was_cut_short() && before == 0 => 0,
            _ if usage.was_cut_short() => before.max(peak.unwrap_or(0)),
            Some(peak) => expect(before, peak),
            None if before == 0 => usage.floor,
            None => expect(before, before.min(usage.floor)),
        };
        // In this order: nobody may expect more than that, even if this process is killed here.
        self.0.header(HeaderField::Largest).fetch_max(expected, Relaxed);
        self.set_script_number(index, ScriptField::Expected, expected);
        script[ScriptField::Peak as usize].fetch_max(peak.unwrap_or(0), Relaxed);
        self.count(index, usage.status != Status::Exited(0) && !usage.given_up);
        add(ScriptField::Cpu, micros(usage.cpu));
        add(ScriptField::Queued, micros(usage.queued));
        let step = RECORD + NAME + step(usage.took);
        script[step].fetch_add(1, Relaxed);
        script[step + STEPS].fetch_add(micros(usage.took), Relaxed);
    }

    /// Counts a run that could not be started: it has failed, and shows nothing about the script's needs.
    pub(in crate::gate) fn fail(&self, entry: usize) {
        self.count(self.script_of(entry), true);
    }

    fn count(&self, script: usize, failed: bool) {
        let counts = [
            (ScriptField::Runs, HeaderField::Runs, 1),
            (ScriptField::Failures, HeaderField::Failures, u64::from(failed)),
        ];
        for (own, all, count) in counts {
            self.0.scripts[script][own as usize].fetch_add(count, Relaxed);
            self.0.header(all).fetch_add(count, Relaxed);
        }
    }

    /// Learns from the memory of a long run, before its end, what others may need.
    pub(in crate::gate) fn presume(&self, script: usize, has: u64) {
        self.0.header(HeaderField::Largest).fetch_max(has, Relaxed);
        self.0.scripts[script][ScriptField::Expected as usize].fetch_max(has, Relaxed);
    }

    /// Counts a refused request. Returns whether to explain it in detail: that is expensive, and there may be many.
    pub(in crate::gate) fn refuse(&self, script: usize) -> bool {
        self.0.scripts[script][ScriptField::Refused as usize].fetch_add(1, Relaxed);
        self.0.header(HeaderField::Refused).fetch_add(1, Relaxed);
        let explain = now().saturating_sub(self.script_number(script, ScriptField::LastExplained)) >= micros(EXPLAINED);
        if explain {
            self.set_script_number(script, ScriptField::LastExplained, now());
        }
        explain
    }

    /// What is known of all scripts.
    pub(in crate::gate) fn scripts(&self) -> Vec<ScriptStats> {
        let (mut running, mut waiting) = ([0; SCRIPTS], [0; SCRIPTS]);
        for entry in 0..self.used() {
            match self.state(entry) {
                EntryState::Running => running[self.script_of(entry)] += 1,
                EntryState::Waiting => waiting[self.script_of(entry)] += 1,
                _ => {}
            }
        }
        let is_known = |index: &usize| {
            self.script_number(*index, ScriptField::Key) != 0 || self.script_number(*index, ScriptField::Runs) > 0
        };
        (0..SCRIPTS).filter(is_known).map(|index| self.described(index, running[index], waiting[index])).collect()
    }

    /// The statistics of running scripts.
    pub(in crate::gate) fn running_scripts(&self) -> Vec<ScriptStats> {
        let mut running = std::collections::BTreeMap::new();
        for entry in (0..self.used()).filter(|entry| self.state(*entry) == EntryState::Running) {
            *running.entry(self.script_of(entry)).or_insert(0) += 1;
        }
        running.into_iter().map(|(index, count)| self.described(index, count, 0)).collect()
    }

    /// The statistics of one script.
    pub(in crate::gate) fn described(&self, index: usize, running: u64, waiting: u64) -> ScriptStats {
        let row = &self.0.scripts[index];
        let get = |field: ScriptField| self.script_number(index, field);
        let bytes: Vec<u8> =
            row[RECORD..RECORD + NAME].iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let steps: Vec<u64> = row[RECORD + NAME..].iter().map(|word| word.load(Relaxed)).collect();
        let (counts, sums) = steps.split_at(STEPS);
        let quantile = |share: f64| {
            let mut left = (counts.iter().sum::<u64>() as f64 * share).ceil() as u64;
            let reached = counts.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            let mean = reached.and_then(|step| sums[step].checked_div(counts[step]));
            Duration::from_micros(mean.unwrap_or(0))
        };
        ScriptStats {
            name: if end == 0 { "(others)".into() } else { shown(&bytes[..end]) },
            runs: get(ScriptField::Runs),
            failures: get(ScriptField::Failures),
            refused: get(ScriptField::Refused),
            expected: get(ScriptField::Expected),
            peak: get(ScriptField::Peak),
            cpu: Duration::from_micros(get(ScriptField::Cpu)),
            queued: Duration::from_micros(get(ScriptField::Queued)),
            median: quantile(0.5),
            p99: quantile(0.99),
            running,
            waiting,
        }
    }
}

/// A name for pages and log lines.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_rise_at_once_and_fall_slowly() {
        assert_eq!((expect(0, 100), expect(100, 300), expect(300, 100), expect(300, 300)), (100, 300, 275, 300));
    }

    #[test]
    fn steps_of_durations() {
        let cases = [(0, 0), (100, 0), (101, 1), (141, 1), (142, 2), (200, 2), (3_600_000_000, STEPS - 1)];
        for (micros, want) in cases {
            assert_eq!(step(Duration::from_micros(micros)), want, "{micros}");
        }
    }
}
