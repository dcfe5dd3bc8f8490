//! The scripts on the status page, if any was requested. Apache's page has nothing like it.

use std::fmt::Write;

use gateway::gate::{GateStatus, ScriptStats};
use http::uri::escape_html;

/// `?auto`: sums, for monitoring.
pub(super) fn lines(out: &mut String, gate: &GateStatus) {
    if gate.scripts.is_empty() {
        return;
    }
    let GateStatus { runs, failures, refused, running, waiting, .. } = gate;
    let memory = gate.scripts.iter().map(|script| script.running * script.expected).sum::<u64>() / 1024;
    let _ = write!(
        out,
        "ScriptRuns: {runs}\nScriptFailures: {failures}\nScriptsRefused: {refused}\nScriptsRunning: {running}\n\
         ScriptsWaiting: {waiting}\nScriptsExpectedKBytes: {memory}\n",
    );
}

/// The page for people: a line for each script, those with the most time first.
pub(super) fn table(out: &mut String, scripts: &[ScriptStats]) {
    if scripts.is_empty() {
        return;
    }
    let mut scripts: Vec<&ScriptStats> = scripts.iter().collect();
    scripts.sort_by_key(|script| std::cmp::Reverse(script.cpu));
    out.push_str(
        "<hr />\n<h2>Scripts</h2>\n<table rules=\"all\" cellpadding=\"1%\">\n<tr><th>Script</th><th>Running</th>\
         <th>Waiting</th><th>Runs</th><th>Failed</th><th>Refused</th><th>Memory, expected (MB)</th>\
         <th>most (MB)</th><th>CPU of a run (ms)</th><th>p50 (ms)</th><th>p99 (ms)</th><th>Waited (ms)</th></tr>\n",
    );
    for script in scripts {
        let each = |total: std::time::Duration| total.as_secs_f64() * 1000.0 / script.runs.max(1) as f64;
        let mb = |bytes: u64| match bytes {
            0 => "-".into(),
            _ => format!("{:.1}", bytes as f64 / f64::from(1 << 20)),
        };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{:.1}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td></tr>",
            escape_html(&script.name),
            script.running,
            script.waiting,
            script.runs,
            script.failures,
            script.refused,
            mb(script.expected),
            mb(script.peak),
            each(script.cpu),
            script.median.as_secs_f64() * 1000.0,
            script.p99.as_secs_f64() * 1000.0,
            each(script.queued),
        );
    }
    out.push_str("</table>\n");
}
