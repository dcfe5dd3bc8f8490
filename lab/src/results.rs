//! The results as they are kept: one versioned schema, written as JSON and as CSV.

mod raw_csv;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Context as _, Error, Result, read_text, write_file};
use crate::experiment::{self, Experiment};
use crate::generator::Errors;
use crate::host::Host;
use crate::workload::Profile;

/// A server that has not answered a fresh request after this hangs.
pub(crate) const FRESH_LIMIT: Duration = Duration::from_secs(1);

/// Rises when a reader of older results would misunderstand.
pub(crate) const SCHEMA: u32 = 1;

/// The name of the file in the output directory.
const FILE: &str = "results.json";

/// What it is called until it is complete.
const NEW_FILE: &str = "results.json.new";

/// Everything about one run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    /// [`SCHEMA`].
    pub(crate) schema: u32,
    /// The name of the experiment.
    pub(crate) experiment: String,
    /// When it began, UTC.
    pub(crate) started: String,
    /// Rounds asked for.
    pub(crate) rounds: u32,
    /// Length of one measurement.
    pub(crate) seconds: u32,
    /// How CPU time was read.
    pub(crate) accounting: String,
    /// The machine.
    pub(crate) host: Host,
    /// Who took part, or why not.
    pub(crate) subjects: Vec<SubjectRecord>,
    /// What was measured.
    pub(crate) samples: Vec<Sample>,
    /// What could not be measured.
    pub(crate) failures: Vec<Failure>,
}

/// A subject as it was found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SubjectRecord {
    /// The identifier in the table of subjects.
    pub(crate) id: String,
    /// The name in tables.
    pub(crate) title: String,
    /// What the program says about itself; `None` when it is not here.
    pub(crate) version: Option<String>,
    /// Why it did not take part.
    pub(crate) absent: Option<String>,
    /// The configurations it ran with.
    pub(crate) configurations: Vec<Configuration>,
}

/// An exact configuration.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Configuration {
    /// Which of the subject's configurations.
    pub(crate) profile: Profile,
    /// The command line.
    pub(crate) command: String,
    /// Additional environment.
    pub(crate) environment: Vec<String>,
    /// Name and text of each file that the laboratory wrote or changed.
    pub(crate) files: Vec<(String, String)>,
    /// Names of files taken over as installed.
    pub(crate) as_installed: Vec<String>,
}

/// One measurement of one server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The workload's identifier.
    pub(crate) workload: String,
    /// The subject's identifier.
    pub(crate) subject: String,
    /// Its configuration.
    pub(crate) profile: Profile,
    /// Connections at a time, idle ones in a crowd, or processes where their memory is measured.
    pub(crate) connections: u32,
    /// Which round, from 1.
    pub(crate) round: u32,
    /// The figures.
    pub(crate) measure: Measure,
}

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

/// A measurement that did not happen.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// The workload's identifier.
    pub(crate) workload: String,
    /// The subject's identifier.
    pub(crate) subject: String,
    /// Its configuration.
    pub(crate) profile: Profile,
    /// As in [`Sample`].
    #[serde(default)]
    pub(crate) connections: u32,
    /// Which round.
    pub(crate) round: u32,
    /// Why.
    pub(crate) reason: String,
}

impl Memory {
    /// What the connections, or serving, added.
    pub(crate) fn growth_kib(&self) -> f64 {
        self.after_kib as f64 - self.before_kib as f64
    }
}

impl Results {
    /// The results as JSON.
    pub(crate) fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).context(|| "write the results as JSON".to_owned())
    }

    /// Results that [`Results::save`] wrote.
    pub(crate) fn load(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        Self::from_json(&read_text(&path)?).context(|| format!("understand {}", path.display()))
    }

    /// The same, if there are any.
    pub(crate) fn load_if_any(directory: &Path) -> Result<Option<Self>> {
        match directory.join(FILE).exists() {
            true => Self::load(directory).map(Some),
            false => Ok(None),
        }
    }

    /// In what these results cannot be continued by those of a run that is about to begin.
    pub(crate) fn difference(&self, next: &Self) -> Option<String> {
        let of_machine = |results: &Self| {
            let Host { system, kernel, cpu, cores, memory_mib, generator, .. } = &results.host;
            format!("{system}, {kernel}, {cpu}, {cores} cores, {memory_mib} MiB, {generator}, {}", results.accounting)
        };
        let of_subjects = |results: &Self| {
            let told = |subject: &SubjectRecord| {
                format!("{} {}", subject.id, subject.version.as_deref().unwrap_or("(not here)"))
            };
            results.subjects.iter().map(told).collect::<Vec<_>>().join(", ")
        };
        let rows = [
            ("experiment", self.experiment.clone(), next.experiment.clone()),
            ("rounds", self.rounds.to_string(), next.rounds.to_string()),
            ("seconds", self.seconds.to_string(), next.seconds.to_string()),
            ("machine", of_machine(self), of_machine(next)),
            ("subjects", of_subjects(self), of_subjects(next)),
        ];
        let (what, then, now) = rows.into_iter().find(|(_, then, now)| then != now)?;
        Some(format!("{what} then: {then}; now: {now}"))
    }

    fn from_json(text: &str) -> Result<Self> {
        let value: serde_json::Value = serde_json::from_str(text).context(|| "read JSON".to_owned())?;
        let schema = &value["schema"];
        if *schema != SCHEMA {
            return Err(Error::new(format!("its schema is {schema}, this laboratory reads {SCHEMA}"))
                .advise("use the laboratory of that time, or measure again"));
        }
        serde_json::from_value(value).context(|| "read results".to_owned())
    }

    /// What was measured and promised.
    pub(crate) fn experiment(&self) -> &'static Experiment {
        Experiment::find(&self.experiment).unwrap_or(&experiment::HTTP)
    }

    /// Writes results.json and raw.csv.
    pub(crate) fn save(&self, directory: &Path) -> Result<()> {
        // A laboratory that is killed while it writes leaves the file of before.
        let (path, new) = (directory.join(FILE), directory.join(NEW_FILE));
        write_file(&new, self.to_json()? + "\n")?;
        std::fs::rename(&new, &path).context(|| format!("replace {}", path.display()))?;
        write_file(directory.join("raw.csv"), self.to_csv()?)
    }
}

/// Results for the tests of everything that reads them.
#[cfg(test)]
pub(crate) mod example {
    use super::*;

    /// A run without samples.
    pub(crate) fn empty() -> Results {
        Results {
            schema: SCHEMA,
            experiment: "http".to_owned(),
            started: "2026-01-01 00:00 UTC".to_owned(),
            rounds: 3,
            seconds: 4,
            accounting: "exact".to_owned(),
            host: Host::default(),
            subjects: Vec::new(),
            samples: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// A quiet measurement of one second on one CPU-second.
    pub(crate) fn load(workload: &str, subject: &str, connections: u32, round: u32, requests: u64) -> Sample {
        Sample {
            workload: workload.to_owned(),
            subject: subject.to_owned(),
            profile: Profile::Bare,
            connections,
            round,
            measure: Measure::from(Load {
                seconds: 1.0,
                requests,
                bytes: 0,
                server_cpu_seconds: 1.0,
                min_us: 500,
                mean_us: 1100.0,
                p50_us: 1000,
                p99_us: 2000,
                max_us: 3000,
                errors: Errors::default(),
                pss_kib: 1024,
                processes: 2,
                busy: Busy { server: 1.0, generator: 0.8, ..Busy::default() },
                lost: 0,
                replaced: 0,
                late_p99_us: 0,
                fresh_us: 100,
                busiest: 0.5,
                squeezed: None,
                latencies: [(0.0, 500), (50.0, 1000), (99.0, 2000), (100.0, 3000)].into(),
                course: [0.0, 0.2, 0.4]
                    .map(|at| Moment { at, server: 0.9, generator_core: 0.8, memory: 0.25, swapped_pages: 0 })
                    .into(),
            }),
        }
    }

    /// A measurement of memory.
    pub(crate) fn memory(workload: &str, subject: &str, connections: u32, before_kib: u64, after_kib: u64) -> Sample {
        Sample {
            workload: workload.to_owned(),
            subject: subject.to_owned(),
            profile: Profile::Bare,
            connections,
            round: 1,
            measure: Measure::Memory(Memory { before_kib, after_kib, processes: 2, lost: 0 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_survive_being_kept() {
        let mut results = example::empty();
        results.samples.push(example::load("keepalive", "nginx", 100, 1, 50_000));
        results.samples.push(example::memory("idle", "nginx", 10_000, 100, 200));
        let kept = Results::from_json(&results.to_json().unwrap()).unwrap();
        assert_eq!(kept.to_csv().expect("a table"), results.to_csv().expect("a table"));
    }

    #[test]
    fn another_schema_is_refused() {
        let json = example::empty().to_json().unwrap().replace("\"schema\": 1", "\"schema\": 9");
        let error = Results::from_json(&json).unwrap_err().to_string();
        assert!(error.contains("its schema is 9"), "{error}");
    }
}
