//! The stored results: one versioned schema, written as JSON and as CSV.

mod measure;
mod raw_csv;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::experiments::experiment::{self, Experiment};
use crate::experiments::profile::Profile;
use crate::machine::accounting::CpuTimeSource;
use crate::machine::error::{Context as _, Error, Result, read_text, write_file};
use crate::machine::host::Host;
pub(crate) use measure::{
    Averages, Begun, Busy, CoreUse, Errors, FRESH_LIMIT, Load, MachineSample, Measure, Memory, PressureEvents,
};

/// Rises when results contain more: 2 has the clients' view over time, the use of cores, and swap in use beforehand.
pub(crate) const SCHEMA: u32 = 2;

/// The oldest readable schema: fields it lacks stay empty.
const OLDEST_SCHEMA: u32 = 1;

/// The name of the file in the output directory.
const FILE: &str = "results.json";

/// Its name until it is complete.
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
    /// The number of rounds.
    pub(crate) rounds: u32,
    /// Length of one measurement.
    pub(crate) seconds: u32,
    /// Where the CPU time of servers was read from.
    pub(crate) accounting: CpuTimeSource,
    /// The machine.
    pub(crate) host: Host,
    /// The subjects, or why they are missing.
    pub(crate) subjects: Vec<SubjectRecord>,
    /// The measurements.
    pub(crate) samples: Vec<Sample>,
    /// The measurements that failed.
    pub(crate) failures: Vec<Failure>,
}

/// A subject as it was found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SubjectRecord {
    /// The identifier in the table of subjects.
    pub(crate) id: String,
    /// The name in tables.
    pub(crate) title: String,
    /// The program's own version text; `None` if it is not installed.
    pub(crate) version: Option<String>,
    /// Why it was not measured.
    pub(crate) absent: Option<String>,
    /// The configurations it ran with.
    pub(crate) configurations: Vec<Configuration>,
}

/// An exact configuration.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Configuration {
    /// The profile of the subject's configuration.
    pub(crate) profile: Profile,
    /// The command line.
    pub(crate) command: String,
    /// Additional environment.
    pub(crate) environment: Vec<String>,
    /// Name and text of each file written or changed by the laboratory.
    pub(crate) files: Vec<(String, String)>,
    /// Names of files used as installed.
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

    /// The difference that prevents a new run from continuing these results.
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
        if !schema.as_u64().is_some_and(|schema| (OLDEST_SCHEMA.into()..=SCHEMA.into()).contains(&schema)) {
            let known = format!("its schema is {schema}, this laboratory reads {OLDEST_SCHEMA} to {SCHEMA}");
            return Err(Error::new(known).advise("use the laboratory of that time, or measure again"));
        }
        let results: Self = serde_json::from_value(value).context(|| "read results".to_owned())?;
        Ok(Self { schema: SCHEMA, ..results })
    }

    /// The experiment of these results.
    pub(crate) fn experiment(&self) -> &'static Experiment {
        Experiment::find(&self.experiment).unwrap_or(&experiment::HTTP)
    }

    /// Writes results.json and raw.csv.
    pub(crate) fn save(&self, directory: &Path) -> Result<()> {
        // A laboratory that is killed while it writes leaves the old file.
        let (path, new) = (directory.join(FILE), directory.join(NEW_FILE));
        write_file(&new, self.to_json()? + "\n")?;
        std::fs::rename(&new, &path).context(|| format!("replace {}", path.display()))?;
        write_file(directory.join("raw.csv"), self.to_csv()?)
    }
}

/// Results for the tests of all readers.
#[cfg(test)]
pub(crate) mod example {
    use super::*;

    use crate::load::Handshakes;
    use crate::load::rates::Rates;

    /// A run without samples.
    pub(crate) fn empty() -> Results {
        Results {
            schema: SCHEMA,
            experiment: "http".to_owned(),
            started: "2026-01-01 00:00 UTC".to_owned(),
            rounds: 3,
            seconds: 4,
            accounting: CpuTimeSource::Unified,
            host: Host::default(),
            subjects: Vec::new(),
            samples: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// The same in three rounds, which agree.
    pub(crate) fn thrice(results: &Results) -> Results {
        // Nothing else needs a copy of a sample.
        let copy = || -> Results {
            let text = serde_json::to_string(results).expect("JSON");
            serde_json::from_str(&text).expect("what was just written")
        };
        let of_round = |round| copy().samples.into_iter().map(move |sample| Sample { round, ..sample });
        Results { samples: (1..=3).flat_map(of_round).collect(), ..copy() }
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
                handshakes: Handshakes::default(),
                errors: Errors::default(),
                reopened: 0,
                pss_kib: 1024,
                processes: 2,
                busy: Busy { server: 1.0, generator: 0.8, ..Busy::default() },
                lost: 0,
                replaced: 0,
                late_p99_us: 0,
                fresh_us: 100,
                busiest: 0.5,
                pressure: None,
                begun: None,
                accepted: None,
                latencies: [(0.0, 500), (50.0, 1000), (99.0, 2000), (100.0, 3000)].into(),
                moments: [0.0, 0.2, 0.4]
                    .map(|at| MachineSample { at, server: 0.9, generator_core: 0.8, memory: 0.25, swapped_pages: 0 })
                    .into(),
                intervals: [0.25, 0.5]
                    .map(|until| Rates { until, responses: 1234.0, failures: 0.0, p50_us: 1000, p99_us: 2000 })
                    .into(),
                averages: Some(Averages::default()),
                swap_before_kib: 0,
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
    fn the_results_in_the_documentation_can_be_read() {
        let benchmarks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks");
        let seeds = std::fs::read_dir(benchmarks.join("seeds")).unwrap().map(|entry| entry.unwrap().path());
        for directory in seeds.chain([benchmarks.join("tls")]).filter(|path| path.join("results.json").exists()) {
            let results = Results::load(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
            assert!(!results.samples.is_empty(), "{}", directory.display());
        }
        let results = Results::load(&benchmarks.join("seeds/memory")).unwrap();
        for sample in &results.samples {
            let Measure::Load(load) = &sample.measure else { panic!("{sample:?}") };
            assert!(load.pressure.is_some() && !load.moments.is_empty(), "{sample:?}");
        }
    }

    #[test]
    fn older_results_are_read_and_newer_ones_refused() {
        let mut results = example::empty();
        results.samples.push(example::load("keepalive", "nginx", 100, 1, 50_000));
        let mut value: serde_json::Value = serde_json::from_str(&results.to_json().unwrap()).unwrap();
        value["schema"] = 1.into();
        let measure = value["samples"][0]["measure"].as_object_mut().unwrap();
        for name in ["intervals", "averages", "swap_before_kib", "min_us", "mean_us"] {
            assert!(measure.remove(name).is_some(), "{name}");
        }
        let kept = Results::from_json(&value.to_string()).unwrap();
        let Measure::Load(load) = &kept.samples[0].measure else { panic!("{kept:?}") };
        assert_eq!((kept.schema, load.averages, load.intervals.len()), (SCHEMA, None, 0));

        value["schema"] = 9.into();
        let error = Results::from_json(&value.to_string()).unwrap_err().to_string();
        assert!(error.contains("its schema is 9, this laboratory reads 1 to 2"), "{error}");
    }
}
