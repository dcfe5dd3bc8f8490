//! Reads /proc: a process's CPU time, its descendants, proportional memory, and how busy the cores are.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::machine::error::{Error, Result, read_text};

/// CPU times in /proc come in hundredths of a second on every Linux (USER_HZ).
const TICKS_PER_SECOND: u64 = 100;

/// The fields of /proc/PID/stat used here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The name of the process, or of its program's file, cut to 15 bytes.
    pub(crate) name: String,
    /// The parent's number.
    pub(crate) parent: u32,
    /// Own CPU time, user and system.
    pub(crate) own: Duration,
    /// The part of it in user mode.
    pub(crate) user: Duration,
    /// CPU time of children that have ended and were waited for.
    pub(crate) reaped: Duration,
    /// The number of threads.
    pub(crate) threads: u64,
    /// Resident memory, including shared pages, in KiB.
    pub(crate) resident_kib: u64,
}

/// Reads /proc/PID/stat; `None` if the process is gone.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// CPU time of a living process, with its ended children; `None` if it is gone.
///
/// Ticks lose most of the time of hundreds of processes that each work a little, so the larger of ticks and the
/// scheduler's nanoseconds is taken: the latter cover only living threads.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = stat(pid)?;
    Some(stat.living(pid) + stat.reaped)
}

impl Stat {
    /// CPU time of the process itself, as precisely as possible.
    pub(crate) fn living(&self, pid: u32) -> Duration {
        self.own.max(thread_times(&[pid]).into_values().sum())
    }
}

/// CPU time of each living thread, by the numbers of its process and its own.
pub(crate) fn thread_times(pids: &[u32]) -> BTreeMap<(u32, u32), Duration> {
    let threads_of = |pid: &u32| {
        let pid = *pid;
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.filter_map(move |thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            Some(((pid, thread.file_name().to_str()?.parse().ok()?), parse_schedstat(&text)?))
        })
    };
    pids.iter().flat_map(threads_of).collect()
}

fn parse_schedstat(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The name of a process stands in parentheses and may hold anything, so counting starts after the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (name, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let page_kib = rustix::param::page_size() as u64 / 1024;
    Some(Stat {
        name: name.split_once('(')?.1.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        own: from_ticks(ticks(11)? + ticks(12)?),
        user: from_ticks(ticks(11)?),
        reaped: from_ticks(ticks(13)? + ticks(14)?),
        threads: ticks(17)?,
        resident_kib: ticks(21)? * page_kib,
    })
}

/// CPU time of this process's ended children: exact for a child that was started and waited for between two readings.
pub(crate) fn reaped_children() -> Duration {
    stat(std::process::id()).map_or(Duration::ZERO, |stat| stat.reaped)
}

/// CPU time of this process itself.
pub(crate) fn own_time() -> Duration {
    stat(std::process::id()).map_or(Duration::ZERO, |stat| stat.own)
}

/// `root` and everything below it that is alive.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.parent)))
        .collect();
    descendants(root, &parents)
}

fn descendants(root: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut found = HashSet::new();
    if parents.contains_key(&root) {
        found.insert(root);
    }
    loop {
        let before = found.len();
        for (pid, parent) in parents {
            if found.contains(parent) {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            let mut found: Vec<u32> = found.into_iter().collect();
            found.sort_unstable();
            return found;
        }
    }
}

/// Proportional set size summed over processes, in KiB: shared pages are divided among the processes that share them,
/// so that the sum is the server's real memory. A process that ends meanwhile counts as 0.
pub(crate) fn pss_kib(pids: &[u32]) -> Result<u64> {
    let mut sum = 0;
    for pid in pids {
        let path = format!("/proc/{pid}/smaps_rollup");
        match std::fs::read_to_string(&path) {
            Ok(text) => sum += parse_pss(&text).ok_or_else(|| Error::new(format!("{path} has no Pss line")))?,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(Error::new(format!("{path} may not be read")).advise("run the laboratory as root"));
            }
            Err(_) => {}
        }
    }
    Ok(sum)
}

fn parse_pss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The share of the machine's memory still available to programs; 1 if the kernel does not tell.
pub(crate) fn memory_left() -> f64 {
    parse_memory(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default()).unwrap_or(1.0)
}

/// The machine's memory, and the part still available to programs, in KiB.
pub(crate) fn memory_kib() -> Option<(u64, u64)> {
    parse_memory_kib(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_memory(text: &str) -> Option<f64> {
    let (all, available) = parse_memory_kib(text)?;
    Some(available as f64 / all as f64)
}

fn parse_memory_kib(text: &str) -> Option<(u64, u64)> {
    Some((parse_kib(text, "MemTotal:")?, parse_kib(text, "MemAvailable:")?))
}

fn parse_kib(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// Whether this process ignores a signal, as set by its parent.
pub(crate) fn ignores(signal: i32) -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = text.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The command line of a process, with blanks between its words; empty if the process has none, or is gone.
pub(crate) fn command_line(pid: u32) -> String {
    let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&text).replace('\0', " ").trim_end().to_owned()
}

/// Pages that the machine has swapped out since it started.
pub(crate) fn swapped_out() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let pages = text.lines().find_map(|line| line.strip_prefix("pswpout "));
    pages.and_then(|pages| pages.trim().parse().ok()).unwrap_or(0)
}

/// Swap space that is in use, in KiB.
pub(crate) fn swap_used_kib() -> u64 {
    parse_swap_used(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default()).unwrap_or(0)
}

fn parse_swap_used(text: &str) -> Option<u64> {
    Some(parse_kib(text, "SwapTotal:")?.saturating_sub(parse_kib(text, "SwapFree:")?))
}

/// The times of cores since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreTime {
    /// In user mode.
    pub(crate) user: Duration,
    /// In nice programs.
    pub(crate) nice: Duration,
    /// In the kernel, interrupts included.
    pub(crate) system: Duration,
    /// Idle, while something waited for a disk.
    pub(crate) iowait: Duration,
    /// Ready to work while the hypervisor ran someone else.
    pub(crate) stolen: Duration,
    /// Idle otherwise.
    pub(crate) idle: Duration,
}

impl CoreTime {
    /// Working, for anyone.
    pub(crate) fn busy(&self) -> Duration {
        self.user + self.nice + self.system
    }
}

/// The sum over the given cores.
pub(crate) fn core_time(cores: &[usize]) -> Result<CoreTime> {
    let is_one = |name: &str| name.parse().is_ok_and(|core| cores.contains(&core));
    Ok(parse_core_time(&read_text("/proc/stat")?, is_one))
}

/// The sum over all cores of the machine.
pub(crate) fn machine_time() -> Result<CoreTime> {
    Ok(parse_core_time(&read_text("/proc/stat")?, str::is_empty))
}

/// The line for the whole machine has no number after `cpu`.
fn parse_core_time(text: &str, is_wanted: impl Fn(&str) -> bool) -> CoreTime {
    let mut sum = CoreTime::default();
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        if !fields.next().and_then(|name| name.strip_prefix("cpu")).is_some_and(&is_wanted) {
            continue;
        }
        let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
        let at = |index: usize| from_ticks(ticks.get(index).copied().unwrap_or(0));
        // user, nice, system, idle, iowait, irq, softirq, steal
        sum.user += at(0);
        sum.nice += at(1);
        sum.system += at(2) + at(5) + at(6);
        sum.idle += at(3);
        sum.iowait += at(4);
        sum.stolen += at(7);
    }
    sum
}

fn from_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_left_is_a_share() {
        assert_eq!(parse_memory("MemTotal:  2000 kB\nMemFree: 1 kB\nMemAvailable:    500 kB\n"), Some(0.25));
        assert_eq!(parse_memory("MemTotal:  2000 kB\n"), None);
    }

    #[test]
    fn stat_survives_any_process_name() {
        let text = "7 (a) R b) S 3 7 7 0 -1 4194304 100 200 0 0 150 50 30 20 20 0 3 0 99 1 2";
        let expected = Stat {
            name: "a) R b".to_owned(),
            parent: 3,
            own: Duration::from_secs(2),
            user: Duration::from_millis(1500),
            reaped: Duration::from_millis(500),
            threads: 3,
            resident_kib: 2 * rustix::param::page_size() as u64 / 1024,
        };
        assert_eq!(parse_stat(text), Some(expected));
        assert_eq!(parse_stat("7 (cut"), None);
    }

    #[test]
    fn scheduled_time_is_in_nanoseconds() {
        assert_eq!(parse_schedstat("2500000 17 3\n"), Some(Duration::from_micros(2500)));
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn a_tree_holds_grandchildren_and_no_strangers() {
        let parents = BTreeMap::from([(1, 0), (10, 1), (5, 10), (6, 5), (99, 1)]);
        assert_eq!(descendants(10, &parents), [5, 6, 10]);
        assert_eq!(descendants(77, &parents), Vec::<u32>::new());
    }

    #[test]
    fn pss_is_read_from_a_rollup() {
        let text =
            "5580-7ffe ---p 00000000 00:00 0    [rollup]\nRss:  4096 kB\nPss:        1234 kB\nPss_Dirty:   7 kB\n";
        assert_eq!(parse_pss(text), Some(1234));
        assert_eq!(parse_pss("Rss: 1 kB\n"), None);
    }

    #[test]
    fn core_time_sums_the_cores_asked_for() {
        let text = "cpu  110 10 110 909 14 10 110 50 0 0\ncpu0 100 0 100 900 5 0 100 50 0 0\ncpu1 10 10 10 9 9 10 10 0 0 0\nintr 5\n";
        let [first, all] = [parse_core_time(text, |name| name == "0"), parse_core_time(text, str::is_empty)];
        assert_eq!((first.busy(), first.stolen), (Duration::from_secs(3), Duration::from_millis(500)));
        assert_eq!((first.idle, first.iowait), (Duration::from_secs(9), Duration::from_millis(50)));
        assert_eq!(all.busy(), Duration::from_millis(3500));
        assert_eq!(parse_core_time(text, |name| ["0", "1"].contains(&name)), all);
    }

    #[test]
    fn swap_in_use_is_what_is_not_free() {
        assert_eq!(parse_swap_used("SwapTotal:  2000 kB\nSwapFree:   500 kB\n"), Some(1500));
        assert_eq!(parse_swap_used("SwapTotal:  2000 kB\n"), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let own = std::process::id();
        assert!(tree(own).contains(&own));
        assert!(thread_times(&[own]).contains_key(&(own, own)));
        assert!(pss_kib(&[own]).unwrap() > 0);
    }
}
