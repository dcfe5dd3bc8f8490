//! The figures of one measurement: under load, or at rest.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::generator::Errors;
use crate::load::Handshakes;

/// A server that has not answered a fresh request after this hangs.
pub(crate) const FRESH_LIMIT: Duration = Duration::from_secs(1);

/// What a measurement consists of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Measure {
    /// Under load.
    Load(Box<Load>),
    /// At rest.
    Memory(Memory),
}

impl From<Load> for Measure {
    fn from(load: Load) -> Self {
        Self::Load(Box::new(load))
    }
}

/// Figures under load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    /// The time in which the requests were completed.
    pub(crate) seconds: f64,
    /// Completed requests.
    pub(crate) requests: u64,
    /// Bytes received.
    pub(crate) bytes: u64,
    /// CPU time of the server, in seconds.
    pub(crate) server_cpu_seconds: f64,
    /// Latencies in microseconds.
    #[serde(default)]
    pub(crate) min_us: u64,
    /// See `min_us`.
    #[serde(default)]
    pub(crate) mean_us: f64,
    /// See `min_us`.
    pub(crate) p50_us: u64,
    /// See `min_us`.
    pub(crate) p99_us: u64,
    /// See `min_us`.
    pub(crate) max_us: u64,
    /// Handshakes of TLS that were complete.
    #[serde(default)]
    pub(crate) handshakes: Handshakes,
    /// What failed.
    pub(crate) errors: Errors,
    /// Memory right after the load.
    pub(crate) pss_kib: u64,
    /// Processes right after the load.
    pub(crate) processes: usize,
    /// Who kept the cores busy.
    pub(crate) busy: Busy,
    /// Connections of the crowd that were refused or closed by the server.
    #[serde(default)]
    pub(crate) lost: u64,
    /// Processes of the server that were not there when the measurement began.
    #[serde(default)]
    pub(crate) replaced: u64,
    /// Delay in microseconds that one of a hundred requests exceeded because the generator was late.
    #[serde(default)]
    pub(crate) late_p99_us: u64,
    /// How long a fresh request took right after the load, in microseconds; [`FRESH_LIMIT`] when it was not answered.
    #[serde(default)]
    pub(crate) fresh_us: u64,
    /// CPU seconds per second of the server's thread that worked most.
    #[serde(default)]
    pub(crate) busiest: f64,
    /// What happened where there was too little memory.
    #[serde(default)]
    pub(crate) squeezed: Option<Box<Squeezed>>,
    /// How many of a hundred requests took at most so many microseconds, in order; a dozen points.
    #[serde(default)]
    pub(crate) latencies: Box<[(f64, u64)]>,
    /// The measurement over time.
    #[serde(default)]
    pub(crate) course: Box<[Moment]>,
    /// What the clients saw over time.
    #[serde(default)]
    pub(crate) intervals: Box<[Interval]>,
    /// What cores did meanwhile, as `sar` tells it.
    #[serde(default)]
    pub(crate) averages: Option<Averages>,
    /// Swap space that was in use before it began, in KiB.
    #[serde(default)]
    pub(crate) swap_before_kib: u64,
}

/// What cores did in a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Averages {
    /// All cores of the machine.
    pub(crate) machine: CoreUse,
    /// The core that the server has to itself where it has one.
    pub(crate) core: CoreUse,
}

/// Hundredths of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CoreUse {
    /// In programs.
    pub(crate) user: f64,
    /// In programs that give way to others.
    pub(crate) nice: f64,
    /// In the kernel, interrupts included.
    pub(crate) system: f64,
    /// Idle, while something waited for a disk.
    pub(crate) iowait: f64,
    /// Taken by the hypervisor.
    pub(crate) steal: f64,
    /// Idle otherwise.
    pub(crate) idle: f64,
}

/// What clients saw in an interval of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    /// Its end, in seconds since the measurement began.
    pub(crate) until: f64,
    /// Answers per second.
    pub(crate) answers: f64,
    /// Failures per second.
    pub(crate) failures: f64,
    /// Latencies in microseconds.
    pub(crate) p50_us: u64,
    /// See `p50_us`.
    pub(crate) p99_us: u64,
}

/// The machine at a moment of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// Seconds since it began.
    pub(crate) at: f64,
    /// CPU seconds per second that the server used since the moment before.
    pub(crate) server: f64,
    /// The share of its time that the load generator's core worked, with whatever else ran there.
    pub(crate) generator_core: f64,
    /// The share of the machine's memory that is in use.
    pub(crate) memory: f64,
    /// Pages that the machine has swapped out since it began.
    pub(crate) swapped_pages: u64,
}

impl Load {
    /// The primary unit.
    pub(crate) fn per_cpu_second(&self) -> f64 {
        if self.server_cpu_seconds > 0.0 { self.requests as f64 / self.server_cpu_seconds } else { 0.0 }
    }

    /// The unit everyone knows.
    pub(crate) fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// Seconds of CPU time that the server used in a second.
    pub(crate) fn cpu_share(&self) -> f64 {
        self.server_cpu_seconds / self.seconds
    }

    /// Whether the server did not answer after the load.
    pub(crate) fn hung(&self) -> bool {
        self.fresh_us >= FRESH_LIMIT.as_micros() as u64
    }
}

/// In too little memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Squeezed {
    /// How often processes wanted more memory than there was.
    pub(crate) at_limit: u64,
    /// Processes that the kernel ended for want of memory.
    pub(crate) oom_kills: u64,
    /// Pages that had to be read from disk.
    pub(crate) major_faults: u64,
    /// The most memory that was in use.
    pub(crate) peak_kib: u64,
    /// Pages that the machine swapped out meanwhile.
    pub(crate) swapped_pages: u64,
    /// Files that were answered, of those that were asked for at a fixed rate.
    pub(crate) file_answers: u64,
    /// Their latencies, in microseconds.
    pub(crate) file_p50_us: u64,
    /// See `file_p50_us`.
    pub(crate) file_p99_us: u64,
    /// See `file_p50_us`.
    pub(crate) file_max_us: u64,
    /// Files that were not answered.
    pub(crate) file_errors: u64,
}

impl Squeezed {
    /// A latency of files, in milliseconds: for ever, where none was answered.
    pub(crate) fn file_milliseconds(&self, figure: fn(&Self) -> u64) -> f64 {
        if self.file_answers > 0 { figure(self) as f64 / 1000.0 } else { f64::INFINITY }
    }
}

/// Shares of one core's time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Busy {
    /// The server.
    pub(crate) server: f64,
    /// The load generator.
    pub(crate) generator: f64,
    /// Neither of them nor the laboratory, on the two cores.
    pub(crate) others: f64,
    /// Taken by the hypervisor, on the two cores.
    pub(crate) stolen: f64,
    /// Nobody had anything to do, on the two cores.
    #[serde(default)]
    pub(crate) idle: f64,
}

/// Figures at rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// Memory before the connections came, or of fresh children.
    pub(crate) before_kib: u64,
    /// Memory while they stay, or of children that have all served.
    pub(crate) after_kib: u64,
    /// Server processes.
    pub(crate) processes: usize,
    /// Connections that the server closed, or that failed.
    pub(crate) lost: u64,
}

impl Memory {
    /// What the connections, or serving, added.
    pub(crate) fn growth_kib(&self) -> f64 {
        self.after_kib as f64 - self.before_kib as f64
    }
}
