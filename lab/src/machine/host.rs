//! The machine: recorded beside every result, because no figure means anything without it.

use serde::{Deserialize, Serialize};

use rustix::thread::sched_getaffinity;

use crate::machine::error::{Context as _, Result};

/// Facts about the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Host {
    /// The distribution.
    pub(crate) system: String,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// The processor.
    pub(crate) cpu: String,
    /// How many cores this process may use.
    pub(crate) cores: usize,
    /// The frequency governor, where there is one.
    pub(crate) governor: Option<String>,
    /// Memory in MiB.
    pub(crate) memory_mib: u64,
    /// Swap in MiB.
    #[serde(default)]
    pub(crate) swap_mib: u64,
    /// Load average over one minute when the run began.
    pub(crate) load_average: String,
    /// The load generator's version.
    pub(crate) generator: String,
    /// The limit on open files of a process; 0 if unknown.
    #[serde(default)]
    pub(crate) descriptors: u64,
}

impl Host {
    /// Reads /proc, /sys and /etc; unreadable values stay empty.
    pub(crate) fn observe() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let first_word = |text: String| text.split_whitespace().next().unwrap_or_default().to_owned();
        let governor = first_word(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
        let mib = |name: &str| {
            let value = value_of(&read("/proc/meminfo"), name, ':');
            value.trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1024
        };
        Self {
            system: value_of(&read("/etc/os-release"), "PRETTY_NAME", '='),
            kernel: first_word(read("/proc/sys/kernel/osrelease")),
            cpu: value_of(&read("/proc/cpuinfo"), "model name", ':'),
            cores: allowed_cores().map_or(0, |cores| cores.len()),
            governor: Some(governor).filter(|governor| !governor.is_empty()),
            memory_mib: mib("MemTotal"),
            swap_mib: mib("SwapTotal"),
            load_average: first_word(read("/proc/loadavg")),
            generator: concat!("tsubame-lab ", env!("CARGO_PKG_VERSION")).to_owned(),
            descriptors: 0,
        }
    }
}

/// The division of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    /// The server's only core.
    pub(crate) server: usize,
    /// The core of the load generator and of the laboratory.
    pub(crate) generator: usize,
}

impl Cores {
    /// Chooses the last core for the server, since interrupts prefer the first.
    pub(crate) fn choose() -> Result<Self> {
        let cores = allowed_cores()?;
        let first = cores.first().copied().unwrap_or(0);
        Ok(Self { server: cores.last().copied().unwrap_or(first), generator: first })
    }

    /// Both, each once.
    pub(crate) fn both(self) -> Vec<usize> {
        let mut cores = vec![self.generator, self.server];
        cores.dedup();
        cores
    }
}

/// The cores that this process may use.
pub(crate) fn allowed_cores() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context(|| "ask which cores may be used".to_owned())?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// The value after `key` and `separator`, without quotes.
fn value_of(text: &str, key: &str, separator: char) -> String {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().trim_matches('"').to_owned())
        .unwrap_or_default()
}

/// The current time, for people: `2026-01-31 23:59 UTC`.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_key() {
        assert_eq!(value_of("NAME=x\nPRETTY_NAME=\"Debian 12\"\n", "PRETTY_NAME", '='), "Debian 12");
        assert_eq!(value_of("MemTotal:  2048 kB\n", "MemTotal", ':'), "2048 kB");
        assert_eq!(value_of("", "MemTotal", ':'), "");
    }

    #[test]
    fn some_core_may_be_used() {
        let cores = Cores::choose().unwrap();
        assert!(cores.both().contains(&cores.server));
    }
}
