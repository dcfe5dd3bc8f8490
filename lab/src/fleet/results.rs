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

    /// Writes results.json, and setup.txt with the configurations.
    pub(super) fn save(&self, directory: &Path) -> Result<()> {
        write_file(directory.join("results.json"), self.to_json()? + "\n")?;
        let texts = self.configurations.iter().map(|(name, text)| format!("# {name}\n\n{text}\n"));
        write_file(directory.join("setup.txt"), texts.collect::<String>())
    }
}
