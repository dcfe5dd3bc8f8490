//! How much memory there is for scripts: that of the machine, limited by the control groups that the server is in.
//!
//! proc(5) `/proc/meminfo`; Linux cgroup-v1 `memory.rst`, `cgroup-v2.rst`.

use std::fs::{File, read_to_string};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sys::cgroup;

/// The memory available now, and the total, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Unused memory, and memory used only for files that can be read again.
    pub(super) available: u64,
    /// The size of the machine, or of the smallest control group.
    pub(super) total: u64,
}

/// The files to read, found once.
#[derive(Debug)]
pub(super) struct Gauges {
    machine: Gauge,
    groups: Vec<Group>,
    /// Pressure stall information: that of our own group, or else of the machine.
    pressure: Option<Gauge>,
}

/// The gate admits nothing if some program waited for memory during more than this percentage of the last ten seconds.
const STALLED_MAX: f64 = 10.0;

#[derive(Debug)]
struct Group {
    limit: Gauge,
    /// The limit above which the kernel slows programs down instead of refusing them memory; only in version 2.
    high: Option<Gauge>,
    usage: Option<Gauge>,
    stat: Option<Gauge>,
}

/// A file whose text the kernel makes for each reading.
#[derive(Debug)]
struct Gauge(PathBuf);

impl Gauge {
    /// `None`: there is no such file.
    fn at(path: PathBuf) -> Option<Gauge> {
        path.exists().then_some(Gauge(path))
    }

    /// Finds something in the first `N` bytes of the text as it is now. `None`: there is no such thing, or no text.
    fn read<const N: usize, T>(&self, find: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let mut bytes = [0; N];
        let length = File::open(&self.0).and_then(|file| file.read_at(&mut bytes, 0)).ok()?;
        find(std::str::from_utf8(bytes.get(..length)?).ok()?)
    }

    /// The number that is the whole text. `None`: the text is `max`.
    fn number(&self) -> Option<u64> {
        self.read::<32, _>(|text| text.trim().parse().ok())
    }
}

impl Gauges {
    /// The gauges of the control group that this process is in.
    pub(super) fn of_this_process() -> Gauges {
        let own = read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mount = Path::new("/sys/fs/cgroup");
        // If our own group has no such file, the machine's includes other programs too.
        let limited = cgroup::groups_of(&own, mount, "memory").into_iter().find(|group| group.memory_limit().exists());
        let pressure = limited.and_then(|group| Gauge::at(group.directory.join("memory.pressure")));
        Gauges {
            machine: Gauge("/proc/meminfo".into()),
            groups: groups(&own, mount),
            pressure: pressure.or_else(|| Gauge::at("/proc/pressure/memory".into())),
        }
    }

    /// The memory now. `None`: the system does not tell.
    pub(super) fn read(&self) -> Option<Memory> {
        let machine = self.machine.read::<512, _>(machine)?;
        let groups = self.groups.iter().filter_map(Group::read);
        let all = groups.fold(machine, |all, group| Memory {
            available: all.available.min(group.available),
            total: all.total.min(group.total),
        });
        // The kernel knows better than any sum whether programs wait for memory.
        let pressed = self
            .pressure
            .as_ref()
            .and_then(|gauge| gauge.read::<128, _>(stalled))
            .is_some_and(|share| share >= STALLED_MAX);
        Some(Memory { available: if pressed { 0 } else { all.available }, ..all })
    }
}

/// The groups that limit memory.
fn groups(own: &str, mount: &Path) -> Vec<Group> {
    let group = |group: cgroup::Group| {
        let usage = if group.is_unified { "memory.current" } else { "memory.usage_in_bytes" };
        let gauge = |name: &str| Gauge::at(group.directory.join(name));
        Some(Group {
            limit: Gauge::at(group.memory_limit())?,
            high: gauge("memory.high"),
            usage: gauge(usage),
            stat: gauge("memory.stat"),
        })
    };
    cgroup::groups_of(own, mount, "memory").into_iter().filter_map(group).collect()
}

impl Group {
    /// `None`: it has no limit.
    fn read(&self) -> Option<Memory> {
        // "max", and in the first version a number beyond all memory.
        let limits = [Some(&self.limit), self.high.as_ref()].into_iter().flatten().filter_map(Gauge::number);
        let total = limits.filter(|limit| *limit < 1 << 60).min()?;
        let used = self.usage.as_ref()?.number()?;
        let cache = self.stat.as_ref().and_then(|gauge| gauge.read::<8192, _>(|text| Some(cache(text)))).unwrap_or(0);
        Some(Memory { available: total.saturating_sub(used.saturating_sub(cache)), total })
    }
}

/// The memory that a group could do without: cached files, the recently used ones at half, as the kernel counts for a
/// whole machine.
fn cache(stat: &str) -> u64 {
    let value = |name: &str| {
        let line = |prefix: &str| {
            stat.lines().find_map(|line| {
                line.strip_prefix(prefix)?.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok()
            })
        };
        // Version 1 counts the groups below separately.
        line("total_").or_else(|| line("")).unwrap_or(0)
    };
    value("inactive_file") + value("active_file") / 2
}

/// The percentage of the last ten seconds in which some program waited for memory (Linux `psi.rst`).
fn stalled(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("some avg10=")?.split(' ').next()?.parse().ok())
}

/// From `/proc/meminfo`.
fn machine(text: &str) -> Option<Memory> {
    let value = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    Some(Memory { available: value("MemAvailable")?, total: value("MemTotal")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_machine() {
        let text = "MemTotal:       24684084 kB\nMemFree:        23177668 kB\nMemAvailable:   24131576 kB\n";
        assert_eq!(machine(text), Some(Memory { available: 24_131_576 * 1024, total: 24_684_084 * 1024 }));
        assert_eq!(machine("MemTotal: 1 kB\n"), None);
        assert!(Gauges::of_this_process().read().is_some_and(|memory| memory.available <= memory.total));
    }

    #[test]
    fn pressure() {
        assert_eq!(stalled("some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=3.00 avg60=0\n"), Some(12.5));
        assert_eq!(stalled(""), None);
    }

    #[test]
    fn memory_that_a_group_can_spare() {
        assert_eq!(cache("anon 5\ninactive_file 100\nactive_file 50\n"), 125);
        assert_eq!(cache("inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 50\n"), 125);
        assert_eq!(cache(""), 0);
    }

    /// A directory with groups as the kernel shows them.
    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("tsubame-gate-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            std::fs::write(path, text).expect("file");
        }
        root
    }

    #[test]
    fn the_smallest_of_all_groups_counts() {
        let second = tree(
            "v2",
            &[
                ("a/memory.max", "1000\n"),
                ("a/memory.current", "400\n"),
                ("a/memory.stat", "inactive_file 100\n"),
                ("a/b/memory.max", "max\n"),
                ("a/b/memory.current", "300\n"),
            ],
        );
        let found = groups("0::/a/b\n", &second);
        assert_eq!(
            found.iter().map(Group::read).collect::<Vec<_>>(),
            [None, Some(Memory { available: 700, total: 1000 })]
        );
        let first = tree(
            "v1",
            &[
                ("memory/x/memory.limit_in_bytes", "2000\n"),
                ("memory/x/memory.usage_in_bytes", "2500\n"),
                ("memory/x/memory.stat", "total_inactive_file 600\n"),
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/memory.usage_in_bytes", "5000\n"),
            ],
        );
        let found = groups("9:name=systemd:/\n4:cpu,memory:/x\n", &first);
        assert_eq!(found.iter().filter_map(Group::read).collect::<Vec<_>>(), [Memory { available: 100, total: 2000 }]);
        // A path outside the container.
        assert_eq!(groups("0::/../elsewhere\n", &second.join("a")).len(), 1);
        for root in [first, second] {
            std::fs::remove_dir_all(root).expect("clean");
        }
    }
}
