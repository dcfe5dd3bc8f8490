//! Decides which request is admitted next. Pure.
//!
//! Memory decides how many scripts may run; fairness decides whose turn it is: the script with the fewest runs comes
//! first, then the virtual host with the fewest, then the longest wait. A smaller script may pass one that does not
//! fit, but not for ever. A script with unknown needs runs one at a time, until they are known.

use std::collections::HashMap;
use std::time::Duration;

/// How long others may pass a request for which there is not enough memory.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How long they then stand still for it. Scripts that run longer than that must not keep everybody waiting.
const CHANCE: Duration = Duration::from_secs(4);

/// A waiting request, or a running script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// The script.
    pub(super) script: usize,
    /// The virtual host.
    pub(super) host: u64,
    /// When its wait or run began, in µs on the monotonic clock.
    pub(super) since: u64,
    /// Bytes it will need, if known.
    pub(super) needs: u64,
    /// Bytes it already has.
    pub(super) has: u64,
    /// Whether its needs are known at all.
    pub(super) known: bool,
    /// How many runs of its script there may be at once.
    pub(super) most: u64,
    /// Whether the client may be gone.
    pub(super) doubtful: bool,
}

/// Unlimited memory: no needs have to be known.
pub(super) const UNLIMITED: u64 = u64::MAX;

impl Job {
    /// The memory it may still take.
    fn outstanding(&self) -> u64 {
        self.needs.saturating_sub(self.has)
    }
}

/// Whether only a lack of room can keep a waiting request out. The other reason is that its script runs as often as
/// it may at once.
pub(super) fn needs_room(job: &Job, running: &[Job], free: u64) -> bool {
    let most = if job.known || free == UNLIMITED { job.most } else { job.most.min(1) };
    alike(job, running) < most
}

/// How many runs of its script there are.
fn alike(job: &Job, running: &[Job]) -> u64 {
    running.iter().filter(|other| other.script == job.script).count() as u64
}

/// The one of `waiting` to admit now, by its index. `free`: unused bytes that scripts may use; `now` in µs.
pub(super) fn next(waiting: &[Job], running: &[Job], free: u64, now: u64) -> Option<usize> {
    let of_host = |host: u64| running.iter().filter(|other| other.host == host).count();
    let promised = running.iter().map(Job::outstanding).fold(0, u64::saturating_add);
    let room = free.saturating_sub(promised);
    let ready = waiting.iter().enumerate().filter(|(_, job)| needs_room(job, running, free));
    let turn = |(index, job): (usize, &Job)| (alike(job, running), of_host(job.host), job.since, index);
    let mut order: Vec<_> = ready.map(turn).collect();
    order.sort_unstable();
    for (_, _, since, index) in order {
        // A script that fits nowhere gets the machine to itself.
        if waiting[index].needs <= room || running.is_empty() {
            return Some(index);
        }
        let waited = Duration::from_micros(now.saturating_sub(since));
        if (PATIENCE..PATIENCE + CHANCE).contains(&waited) {
            return None;
        }
    }
    None
}

/// The one of too many `waiting` that gives way: one whose client may be gone, or else the last of those who wait for
/// the most wanted script. A popular script must not keep out all others.
pub(super) fn gives_way(waiting: &[Job]) -> Option<usize> {
    let mut numbers = HashMap::new();
    for job in waiting {
        numbers.entry(job.script).or_insert_with(|| alike(job, waiting));
    }
    (0..waiting.len()).max_by_key(|index| {
        let Job { script, since, doubtful, .. } = waiting[*index];
        (doubtful, numbers[&script], since, *index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn job(script: usize, host: u64, since: u64, needs: u64) -> Job {
        Job { script, host, since, needs: needs * MB, has: 0, known: true, most: u64::MAX, doubtful: false }
    }

    #[test]
    fn memory_decides_how_many() {
        let waiting = [job(1, 1, 0, 200)];
        let running = [job(1, 1, 0, 200), job(1, 1, 0, 200)];
        assert_eq!(next(&waiting, &running, 600 * MB, 0), Some(0));
        assert_eq!(next(&waiting, &running, 599 * MB, 0), None);
        // The memory they already have is neither free any more, nor still to come.
        let grown = running.map(|job| Job { has: 200 * MB, ..job });
        assert_eq!(next(&waiting, &grown, 200 * MB, 0), Some(0));
        let beyond = running.map(|job| Job { has: 900 * MB, ..job });
        assert_eq!(next(&waiting, &beyond, 200 * MB, 0), Some(0));
        assert_eq!(next(&waiting, &grown, 199 * MB, 0), None);
    }

    #[test]
    fn a_script_that_fits_nowhere_runs_alone() {
        assert_eq!(next(&[job(1, 1, 0, 9000)], &[], 600 * MB, 0), Some(0));
        assert_eq!(next(&[job(1, 1, 0, 9000)], &[job(2, 1, 0, 1)], 600 * MB, 0), None);
        assert_eq!(next(&[], &[], 600 * MB, 0), None);
    }

    #[test]
    fn turns_are_fair_to_scripts_then_to_hosts_then_in_order() {
        let running = [job(1, 1, 0, 1), job(1, 1, 0, 1), job(2, 1, 0, 1), job(3, 2, 0, 1)];
        let waiting = [job(1, 1, 1, 1), job(2, 1, 2, 1), job(3, 2, 3, 1), job(3, 2, 4, 1)];
        assert_eq!(next(&waiting, &running, 600 * MB, 9), Some(2), "of its host fewer run");
        assert_eq!(next(&waiting[..2], &running, 600 * MB, 9), Some(1), "of its script fewer run");
        assert_eq!(next(&waiting[2..], &running, 600 * MB, 9), Some(0), "it came first");
    }

    #[test]
    fn the_small_pass_the_large_for_a_while() {
        let running = [job(9, 9, 0, 100)];
        let waiting = [job(1, 1, 10, 400), job(2, 1, 20, 50)];
        assert_eq!(next(&waiting, &running, 200 * MB, 30), Some(1));
        let late = 10 + PATIENCE.as_micros() as u64;
        assert_eq!(next(&waiting, &running, 200 * MB, late), None);
        let later = late + CHANCE.as_micros() as u64;
        assert_eq!(next(&waiting, &running, 200 * MB, later), Some(1), "what runs does not end");
    }

    #[test]
    fn the_last_of_the_most_gives_way() {
        assert_eq!(gives_way(&[]), None);
        let waiting = [job(1, 1, 10, 1), job(2, 1, 20, 1), job(1, 1, 15, 1), job(3, 1, 30, 1)];
        assert_eq!(gives_way(&waiting), Some(2));
        assert_eq!(gives_way(&waiting[1..]), Some(2), "all alike: who came last");
        let doubtful = [Job { doubtful: true, ..waiting[1] }, waiting[2], waiting[0]];
        assert_eq!(gives_way(&doubtful), Some(0));
    }

    #[test]
    fn the_unknown_run_one_at_a_time() {
        let unknown = [Job { known: false, ..job(1, 1, 0, 1) }];
        assert_eq!(next(&unknown, &[job(2, 1, 0, 1)], 600 * MB, 0), Some(0));
        assert_eq!(next(&unknown, &unknown, 600 * MB, 0), None);
        assert!(!needs_room(&unknown[0], &unknown, 600 * MB), "memory would not help");
        assert_eq!(next(&unknown, &unknown, UNLIMITED, 0), Some(0));
    }

    #[test]
    fn a_script_may_have_a_limit_of_its_own() {
        let limited = |most| [Job { most, ..job(1, 1, 0, 1) }];
        let running = [job(1, 1, 0, 1), job(1, 1, 0, 1)];
        assert_eq!(next(&limited(2), &running, 600 * MB, 0), None);
        assert_eq!(next(&limited(3), &running, 600 * MB, 0), Some(0));
    }
}
