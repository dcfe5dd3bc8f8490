//! `tsubame ctl proxy`: what backends do.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};
use server::Server;
use upstream::{Count, Fault};

use super::backends::{Counted, counted};

/// The command: a line for each backend, or JSON.
pub(super) fn report(server: &Server, json: bool) -> Result<String, String> {
    let all = counted(server);
    if json {
        let all: Vec<Value> = all.iter().map(for_programs).collect();
        return Ok(format!("{:#}\n", json!({ "servers": all })));
    }
    let mut out = String::from("busy  idle  requests  opened  reused   connect     first     total  state  server\n");
    for one in &all {
        // Writing into a string never fails.
        let _ = writeln!(
            out,
            "{:>4}  {:>4}  {:>8}  {:>6}  {:>6}  {:>8}  {:>8}  {:>8}  {:>5}  {}",
            one.tally.busy(),
            one.idle(),
            one.tally.get(Count::Requests),
            one.tally.get(Count::Opened),
            one.share_reused().map_or_else(|| "-".into(), |share| format!("{share} %")),
            time(one.mean(Count::Opened, Count::Connecting)),
            time(one.mean(Count::Begun, Count::Beginning)),
            time(one.mean(Count::Ended, Count::Serving)),
            if one.status.is_usable() { "ok" } else { "out" },
            one.title(),
        );
        let faults = one.faults_text();
        if !faults.is_empty() {
            let _ = writeln!(out, "      faults: {faults}");
        }
    }
    Ok(out)
}

impl Counted {
    /// Its name, with that of its balancer.
    pub(crate) fn title(&self) -> String {
        match &self.balancer {
            Some(balancer) => format!("{} of balancer://{balancer} ({})", self.name, self.words()),
            None if self.status.is_usable() => self.name.clone(),
            None => format!("{} ({})", self.name, self.words()),
        }
    }

    fn words(&self) -> String {
        self.status.words().trim_end().to_string()
    }

    /// The share of the requests that went over connections that were there, in percent. `None`: there were none.
    pub(crate) fn share_reused(&self) -> Option<u64> {
        let (reused, opened) = (self.tally.get(Count::Reused), self.tally.get(Count::Opened));
        (100 * reused).checked_div(reused + opened)
    }

    /// The mean of these times.
    pub(crate) fn mean(&self, count: Count, times: Count) -> Option<Duration> {
        self.tally.get(times).checked_div(self.tally.get(count)).map(Duration::from_micros)
    }

    /// How often what went wrong.
    pub(crate) fn faults_text(&self) -> String {
        let numbers = Fault::ALL.into_iter().map(|(fault, word)| (self.tally.faults(fault), word));
        let all: Vec<String> =
            numbers.filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}")).collect();
        all.join(", ")
    }
}

fn for_programs(one: &Counted) -> Value {
    let faults: Map<String, Value> =
        Fault::ALL.into_iter().map(|(fault, word)| (word.to_string(), one.tally.faults(fault).into())).collect();
    let seconds = |count| one.tally.get(count) as f64 / 1e6;
    json!({
        "balancer": one.balancer,
        "server": one.name,
        "usable": one.status.is_usable(),
        "status": one.words(),
        "busy": one.tally.busy(),
        "idle": one.idle(),
        "requests": one.tally.get(Count::Requests),
        "opened": one.tally.get(Count::Opened),
        "reused": one.tally.get(Count::Reused),
        "connect_seconds": seconds(Count::Connecting),
        "responses": one.tally.get(Count::Begun),
        "first_byte_seconds": seconds(Count::Beginning),
        "ended": one.tally.get(Count::Ended),
        "total_seconds": seconds(Count::Serving),
        "faults": faults,
    })
}

/// Milliseconds, or seconds from ten on.
fn time(time: Option<Duration>) -> String {
    match time {
        None => "-".into(),
        Some(time) if time.as_secs() < 10 => format!("{:.1}ms", time.as_secs_f64() * 1000.0),
        Some(time) => format!("{:.0}s", time.as_secs_f64()),
    }
}
