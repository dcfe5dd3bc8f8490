//! What a run of the fleet measured, as it is kept.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::machine::error::{Context as _, Result, write_file};
use crate::machine::host::Host;

/// The version of this schema.
pub(super) const SCHEMA: u32 = 1;

/// Everything about one run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Results {
    /// [`SCHEMA`].
    pub(super) schema: u32,
    /// `fleet`.
    pub(super) experiment: String,
    /// When it began, UTC.
    pub(super) started: String,
    /// The machine.
    pub(super) host: Host,
    /// The version of tsubame, and how it was built.
    pub(super) tsubame: String,
    /// The version of HAProxy.
    pub(super) haproxy: String,
    /// How often each arrangement and each failure was measured.
    pub(super) rounds: u32,
    /// Length of one measurement of capacity.
    pub(super) seconds: u32,
    /// The configurations: name and text.
    pub(super) configurations: Vec<(String, String)>,
    /// How much was done, in the order of the measurements.
    pub(super) capacities: Vec<Capacity>,
    /// What failures cost, likewise.
    pub(super) failures: Vec<Failure>,
    /// What could not be measured, and why.
    pub(super) absences: Vec<String>,
}

/// One measurement of an arrangement of nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Capacity {
    /// The arrangement's name in its table.
    pub(super) arrangement: String,
    /// Which round, from 1.
    pub(super) round: u32,
    /// Completed scripts per second.
    pub(super) scripts_per_second: f64,
    /// The time within which half of the scripts were complete, and 99 of 100, in milliseconds.
    pub(super) script_ms: [f64; 2],
    /// The same for requests for the file.
    pub(super) file_ms: [f64; 2],
    /// Requests that failed, by reason.
    pub(super) failed: BTreeMap<String, u64>,
}

/// One measurement of a failure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The failure's name in its table.
    pub(super) failure: String,
    /// Which round, from 1.
    pub(super) round: u32,
    /// Requests that may be repeated: files and scripts.
    pub(super) idempotent: u64,
    /// Those that failed, by reason.
    pub(super) idempotent_failed: BTreeMap<String, u64>,
    /// Posts.
    pub(super) posts: u64,
    /// Those that failed, by reason.
    pub(super) posts_failed: BTreeMap<String, u64>,
    /// Posts whose script ran more than once.
    pub(super) posts_doubled: u64,
    /// Posts that were answered as done, and whose script never ran.
    pub(super) posts_lost: u64,
    /// The longest time in which no request for the file was answered, in seconds.
    pub(super) silence: f64,
    /// The longest time that a request for the file took, in seconds.
    pub(super) slowest_file: f64,
    /// The same for a script.
    pub(super) slowest_script: f64,
}

impl Results {
    /// As JSON.
    pub(super) fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).context(|| "write the results as JSON".to_owned())
    }

    /// The configurations as one text.
    pub(super) fn setup(&self) -> String {
        self.configurations.iter().map(|(name, text)| format!("# {name}\n\n{text}\n")).collect()
    }

    /// Writes results.json, raw.csv, and setup.txt with the configurations.
    pub(super) fn save(&self, directory: &Path) -> Result<()> {
        write_file(directory.join("results.json"), self.to_json()? + "\n")?;
        write_file(directory.join("raw.csv"), self.to_csv()?)?;
        write_file(directory.join("setup.txt"), self.setup())
    }

    /// A line with the names of the columns, and one line for each measurement.
    fn to_csv(&self) -> Result<Vec<u8>> {
        let mut table = csv::Writer::from_writer(Vec::new());
        let doing = || "write the table of measurements".to_owned();
        for row in self.capacities.iter().map(Row::of_capacity).chain(self.failures.iter().map(Row::of_failure)) {
            table.serialize(row).context(doing)?;
        }
        table.into_inner().context(doing)
    }
}

/// A measurement in raw.csv; columns that do not apply stay empty.
#[derive(Default, Serialize)]
struct Row<'a> {
    measurement: &'a str,
    round: u32,
    scripts_per_second: Option<f64>,
    script_p50_ms: Option<f64>,
    script_p99_ms: Option<f64>,
    file_p50_ms: Option<f64>,
    file_p99_ms: Option<f64>,
    failed: Option<u64>,
    gets: Option<u64>,
    gets_failed: Option<u64>,
    posts: Option<u64>,
    posts_failed: Option<u64>,
    posts_doubled: Option<u64>,
    posts_lost: Option<u64>,
    silence_s: Option<f64>,
    slowest_file_s: Option<f64>,
    slowest_script_s: Option<f64>,
}

impl<'a> Row<'a> {
    fn of_capacity(capacity: &'a Capacity) -> Self {
        Self {
            measurement: &capacity.arrangement,
            round: capacity.round,
            scripts_per_second: Some(capacity.scripts_per_second),
            script_p50_ms: Some(capacity.script_ms[0]),
            script_p99_ms: Some(capacity.script_ms[1]),
            file_p50_ms: Some(capacity.file_ms[0]),
            file_p99_ms: Some(capacity.file_ms[1]),
            failed: Some(capacity.failed.values().sum()),
            ..Self::default()
        }
    }

    fn of_failure(failure: &'a Failure) -> Self {
        Self {
            measurement: &failure.failure,
            round: failure.round,
            gets: Some(failure.idempotent),
            gets_failed: Some(failure.idempotent_failed.values().sum()),
            posts: Some(failure.posts),
            posts_failed: Some(failure.posts_failed.values().sum()),
            posts_doubled: Some(failure.posts_doubled),
            posts_lost: Some(failure.posts_lost),
            silence_s: Some(failure.silence),
            slowest_file_s: Some(failure.slowest_file),
            slowest_script_s: Some(failure.slowest_script),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fleet::report::tests::results;

    #[test]
    fn raw_data_has_a_line_for_each_measurement() {
        let text = String::from_utf8(results().to_csv().unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 4 + 4, "{text}");
        assert!(lines[0].starts_with("measurement,round,scripts_per_second,"), "{text}");
        assert_eq!(lines[1], "one,1,4.0,1000.0,2000.0,1.0,3.0,0,,,,,,,,,");
        assert_eq!(lines[6], "frozen,1,,,,,,,100,1,10,2,0,0,0.5,2.25,3.0");
    }
}
