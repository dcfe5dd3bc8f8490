//! A server in the table of `top --fleet`.

use std::time::Instant;

use serde::Serialize;

use super::metrics::{Reading, quantile};
use crate::watch::form::{count, milliseconds, size, time};

/// What is known of a server.
pub(super) struct Node {
    name: String,
    before: Option<(Instant, Reading)>,
    now: Option<(Instant, Reading)>,
    /// Why there is nothing new.
    problem: Option<String>,
}

/// A row of the table. Without an answer only the name and the problem are known.
#[derive(Debug, Default, Serialize)]
pub(super) struct Row {
    node: String,
    problem: Option<String>,
    ready: Option<bool>,
    /// Requests, and responses with a status from 500 on, per second.
    requests: Option<f64>,
    errors: Option<f64>,
    /// The time within which 99 of 100 requests were answered.
    p99_ms: Option<f64>,
    busy: Option<f64>,
    scripts_running: Option<f64>,
    scripts_waiting: Option<f64>,
    /// The share of the memory for scripts that is taken.
    script_memory: Option<f64>,
    memory_available_bytes: Option<f64>,
    /// Processors in use.
    cpus: Option<f64>,
    uptime_seconds: Option<f64>,
}

/// The headers of its columns.
pub(super) const HEADERS: [&str; 12] =
    ["node", "state", "req/s", "5xx/s", "p99 ms", "busy", "scripts", "waiting", "script mem", "mem left", "CPUs", "up"];

impl Node {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), before: None, now: None, problem: None }
    }

    /// Takes an answer, or the reason why there is none.
    pub(super) fn see(&mut self, at: Instant, reading: Result<Reading, String>) {
        match reading {
            Ok(reading) => {
                self.before = self.now.replace((at, reading));
                self.problem = None;
            }
            // What it said before is old: rates begin anew when it is back.
            Err(problem) => *self = Self { problem: Some(problem), ..Self::new(&self.name) },
        }
    }

    /// Whether it has a row: two answers, or a problem.
    pub(super) fn is_known(&self) -> bool {
        self.problem.is_some() || self.before.is_some()
    }

    pub(super) fn row(&self) -> Row {
        let named = Row { node: self.name.clone(), problem: self.problem.clone(), ..Row::default() };
        let Some((at, now)) = &self.now else { return named };
        let row = Row {
            ready: now.is_ready,
            busy: Some(now.busy),
            scripts_running: Some(now.scripts),
            scripts_waiting: Some(now.waiting),
            script_memory: now.script_memory_limit.filter(|limit| *limit > 0.0).map(|limit| now.script_memory / limit),
            memory_available_bytes: now.memory,
            uptime_seconds: Some(now.uptime),
            ..named
        };
        let Some((since, before)) = &self.before else { return row };
        let seconds = at.duration_since(*since).as_secs_f64().max(f64::EPSILON);
        // Counters begin anew when a server does.
        let rate = |of: fn(&Reading) -> f64| Some((of(now) - of(before)).max(0.0) / seconds);
        Row {
            requests: rate(|reading| reading.requests),
            errors: rate(|reading| reading.errors),
            p99_ms: quantile(before, now, 0.99).map(|seconds| seconds * 1000.0),
            cpus: rate(|reading| reading.cpu),
            ..row
        }
    }
}

impl Row {
    /// Why its server does not answer.
    pub(super) fn problem(&self) -> Option<String> {
        let why = self.problem.as_ref()?.lines().next().unwrap_or_default();
        Some(format!("{}: {why}", self.node))
    }

    /// Its texts, one for each of the [`HEADERS`].
    pub(super) fn cells(&self) -> Vec<String> {
        let shown = |value: Option<f64>, form: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), form);
        let state = match (&self.problem, self.busy, self.ready) {
            (Some(_), ..) => "no answer",
            (None, None, _) => "asked",
            (None, _, Some(false)) => "not ready",
            (None, _, _) => "up",
        };
        vec![
            self.node.clone(),
            state.to_owned(),
            shown(self.requests, count),
            shown(self.errors, count),
            shown(self.p99_ms, milliseconds),
            shown(self.busy, count),
            shown(self.scripts_running, count),
            shown(self.scripts_waiting, count),
            shown(self.script_memory, |share| format!("{:.0} %", 100.0 * share)),
            shown(self.memory_available_bytes, size),
            shown(self.cpus, |cpus| format!("{cpus:.2}")),
            shown(self.uptime_seconds, time),
        ]
    }
}
