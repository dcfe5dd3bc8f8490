//! What became of sessions, and of each of their steps.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Scenario;
use crate::load::distribution::Distribution;

/// The length of a sample of the rate, as in httperf.
pub(crate) const SAMPLE: Duration = Duration::from_secs(5);
/// More samples than a week has; later ones are not kept.
const SAMPLES_MAX: usize = 200_000;

/// The results of sessions that are over. Those that the end of the load cuts off do not count.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// How long complete sessions took, and failed ones until they failed.
    pub(crate) complete: Distribution,
    pub(crate) failed: Distribution,
    /// Connections of complete sessions.
    pub(crate) connections: u64,
    /// How many sessions got how many responses.
    pub(crate) lengths: Vec<u64>,
    /// How many sessions were complete in each sample of time.
    pub(crate) samples: Vec<u64>,
    pub(crate) steps: Vec<StepTally>,
}

/// The results of a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StepTally {
    pub(crate) name: String,
    /// Requests that were answered, or failed.
    pub(crate) requests: u64,
    pub(crate) failures: u64,
    /// Why it failed for the first time.
    pub(crate) complaint: Option<String>,
    /// The latencies of its responses.
    pub(crate) total: Distribution,
}

impl Tally {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let step = |name: &String| StepTally {
            name: name.clone(),
            requests: 0,
            failures: 0,
            complaint: None,
            total: Distribution::new(),
        };
        Self {
            complete: Distribution::new(),
            failed: Distribution::new(),
            connections: 0,
            lengths: vec![0; scenario.length() + 1],
            samples: Vec::new(),
            steps: scenario.names.iter().map(step).collect(),
        }
    }

    /// Counts a session with so many responses. `since`: from the start of the load; `connections`: it was complete, and
    /// had so many.
    pub(super) fn session(&mut self, since: Duration, took: Duration, responses: usize, connections: Option<u64>) {
        self.lengths.iter_mut().skip(responses).take(1).for_each(|length| *length += 1);
        let Some(connections) = connections else { return self.failed.record(took) };
        self.complete.record(took);
        self.connections += connections;
        let sample = (since.as_secs() / SAMPLE.as_secs()) as usize;
        if sample < SAMPLES_MAX {
            self.samples.resize(self.samples.len().max(sample + 1), 0);
            self.samples[sample] += 1;
        }
    }

    /// Counts a response to a step that is counted by itself.
    pub(super) fn add_response(&mut self, step: usize, took: Duration) {
        let Some(step) = self.steps.get_mut(step) else { return };
        step.requests += 1;
        step.total.record(took);
    }

    /// Counts a failure of a step: its response is wrong, or it has none.
    pub(super) fn fail(&mut self, step: usize, is_answered: bool, why: impl FnOnce() -> String) {
        let Some(step) = self.steps.get_mut(step) else { return };
        step.requests += u64::from(!is_answered);
        step.failures += 1;
        step.complaint.get_or_insert_with(why);
    }

    /// Adds another thread's results.
    pub(in crate::load) fn add(&mut self, other: &Self) {
        self.complete.add(&other.complete);
        self.failed.add(&other.failed);
        self.connections += other.connections;
        for (counts, more) in [(&mut self.lengths, &other.lengths), (&mut self.samples, &other.samples)] {
            counts.resize(counts.len().max(more.len()), 0);
            counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        }
        for (step, other) in self.steps.iter_mut().zip(&other.steps) {
            step.requests += other.requests;
            step.failures += other.failures;
            step.complaint = step.complaint.take().or_else(|| other.complaint.clone());
            step.total.add(&other.total);
        }
    }
}
