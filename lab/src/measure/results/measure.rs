//! The figures of one measurement: under load, or at rest.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::Handshakes;
use crate::load::rates::Rates;

/// A server that does not answer a fresh request within this hangs.
pub(crate) const FRESH_LIMIT: Duration = Duration::from_secs(1);

/// A measurement.
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
    /// The shortest latency, in microseconds like those below.
    #[serde(default)]
    pub(crate) min_us: u64,
    /// The mean latency.
    #[serde(default)]
    pub(crate) mean_us: f64,
    /// The latency that half of the responses had at most.
    pub(crate) p50_us: u64,
    /// The latency that 99 of 100 responses had at most.
    pub(crate) p99_us: u64,
    /// The longest latency.
    pub(crate) max_us: u64,
    /// Complete TLS handshakes.
    #[serde(default)]
    pub(crate) handshakes: Handshakes,
    /// Failures.
    pub(crate) errors: Errors,
    /// Connections that the server closed instead of answering; their requests were sent again.
    #[serde(default)]
    pub(crate) reopened: u64,
    /// Memory right after the load.
    pub(crate) pss_kib: u64,
    /// Processes right after the load.
    pub(crate) processes: usize,
    /// The users of the cores.
    pub(crate) busy: Busy,
    /// Connections of the crowd that were refused or closed by the server.
    #[serde(default)]
    pub(crate) lost: u64,
    /// Processes of the server that started during the measurement.
    #[serde(default)]
    pub(crate) replaced: u64,
    /// The delay in microseconds that one of a hundred requests exceeded because the generator was late.
    #[serde(default)]
    pub(crate) late_p99_us: u64,
    /// How long a fresh request took right after the load, in microseconds; [`FRESH_LIMIT`] if it was not answered.
    #[serde(default)]
    pub(crate) fresh_us: u64,
    /// CPU seconds per second of the server's busiest thread.
    #[serde(default)]
    pub(crate) busiest: f64,
    /// What too little memory caused, if the workload is about that.
    #[serde(default, rename = "squeezed")]
    pub(crate) pressure: Option<Box<PressureEvents>>,
    /// Its beginning, if that is measured.
    #[serde(default)]
    pub(crate) begun: Option<Begun>,
    /// Connections that the servers behind it accepted from it, where that is measured.
    #[serde(default)]
    pub(crate) accepted: Option<u64>,
    /// For various percentages of the requests, the most microseconds they took, in order; a dozen points.
    #[serde(default)]
    pub(crate) latencies: Box<[(f64, u64)]>,
    /// Server and machine over time.
    #[serde(default, rename = "course")]
    pub(crate) moments: Box<[MachineSample]>,
    /// The clients' view over time.
    #[serde(default)]
    pub(crate) intervals: Box<[Rates]>,
    /// The use of cores, as in `sar`.
    #[serde(default)]
    pub(crate) averages: Option<Averages>,
    /// Swap space in use before it began, in KiB.
    #[serde(default)]
    pub(crate) swap_before_kib: u64,
}

/// Failures, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Errors {
    /// Connections refused or not established.
    pub(crate) connect: u64,
    /// Connections that broke during reading, and invalid responses.
    pub(crate) read: u64,
    /// Connections that broke during writing.
    pub(crate) write: u64,
    /// Responses that took too long.
    pub(crate) timeout: u64,
    /// Responses with a status above 399.
    pub(crate) status: u64,
}

impl Errors {
    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.connect + self.read + self.write + self.timeout + self.status
    }
}

/// The use of cores during a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Averages {
    /// All cores of the machine.
    pub(crate) machine: CoreUse,
    /// The server's own core, if it has one.
    pub(crate) core: CoreUse,
}

/// Hundredths of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CoreUse {
    /// In user mode.
    pub(crate) user: f64,
    /// In nice programs.
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

/// The machine at a moment of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MachineSample {
    /// Seconds since it began.
    pub(crate) at: f64,
    /// CPU seconds per second used by the server since the last moment.
    pub(crate) server: f64,
    /// The share of time in which the load generator's core was busy, with anything else that ran there.
    pub(crate) generator_core: f64,
    /// The share of the machine's memory in use.
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

    /// Seconds of CPU time that the server used per second.
    pub(crate) fn cpu_share(&self) -> f64 {
        self.server_cpu_seconds / self.seconds
    }

    /// Requests for each connection that the servers behind it accepted; 0 where that is not measured.
    pub(crate) fn per_accepted(&self) -> f64 {
        self.accepted.map_or(0.0, |accepted| self.requests as f64 / accepted.max(1) as f64)
    }

    /// Whether the server did not answer after the load.
    pub(crate) fn hung(&self) -> bool {
        self.fresh_us >= FRESH_LIMIT.as_micros() as u64
    }
}

/// The events of too little memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PressureEvents {
    /// How often processes wanted more memory than there was.
    pub(crate) at_limit: u64,
    /// Processes that the kernel killed for lack of memory.
    pub(crate) oom_kills: u64,
    /// Pages that had to be read from disk.
    pub(crate) major_faults: u64,
    /// The most memory that was in use.
    pub(crate) peak_kib: u64,
    /// Pages that the machine swapped out meanwhile.
    pub(crate) swapped_pages: u64,
    /// Files answered, of those requested at a fixed rate.
    #[serde(rename = "file_answers")]
    pub(crate) file_responses: u64,
    /// The latency that half of the files had at most, in microseconds.
    pub(crate) file_p50_us: u64,
    /// The latency that 99 of 100 files had at most.
    pub(crate) file_p99_us: u64,
    /// The longest latency of a file.
    pub(crate) file_max_us: u64,
    /// Files that were not answered.
    pub(crate) file_errors: u64,
}

impl PressureEvents {
    /// A latency of files, in milliseconds: infinite if none was answered.
    pub(crate) fn file_milliseconds(&self, figure: fn(&Self) -> u64) -> f64 {
        if self.file_responses > 0 { figure(self) as f64 / 1000.0 } else { f64::INFINITY }
    }
}

/// A server that has just started.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// The time from its start to the first response.
    pub(crate) answered_ms: u64,
    /// Its memory then.
    pub(crate) pss_kib: u64,
}

/// Shares of one core's time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Busy {
    /// The server.
    pub(crate) server: f64,
    /// The load generator.
    pub(crate) generator: f64,
    /// The servers behind a proxy.
    #[serde(default)]
    pub(crate) origins: f64,
    /// All others except the laboratory, on the two cores.
    pub(crate) others: f64,
    /// Taken by the hypervisor, on the two cores.
    pub(crate) stolen: f64,
    /// Idle, on the two cores.
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
    /// The memory added by the connections, or by serving.
    pub(crate) fn growth_kib(&self) -> f64 {
        self.after_kib as f64 - self.before_kib as f64
    }
}
