//! The pools of backends on the status page, if there are any. Apache's page has nothing like it.

use std::fmt::Write;

use gateway::backend::stats::PoolStats;
use http::uri::escape_html;

/// `?auto`: sums, for monitoring.
pub(super) fn lines(out: &mut String, pools: &[PoolStats]) {
    if pools.is_empty() {
        return;
    }
    let sum = |of: fn(&PoolStats) -> u64| pools.iter().map(of).sum::<u64>();
    let _ = write!(
        out,
        "BackendPools: {}\nBackends: {}\nBackendsBusy: {}\nBackendRequestsWaiting: {}\nBackendsStarted: {}\n\
         BackendRequests: {}\nBackendRequestsRefused: {}\n",
        pools.len(),
        sum(|pool| pool.size),
        sum(|pool| pool.busy),
        sum(|pool| pool.waiting),
        sum(|pool| pool.started),
        sum(|pool| pool.served),
        sum(|pool| pool.refused),
    );
}

/// The page for people: a line for each pool.
pub(super) fn table(out: &mut String, pools: &[PoolStats]) {
    if pools.is_empty() {
        return;
    }
    out.push_str(
        "<hr />\n<h2>Backends</h2>\n<table rules=\"all\" cellpadding=\"1%\">\n<tr><th>Pool</th><th>Size</th>\
         <th>Busy</th><th>Most</th><th>Waiting</th><th>Requests</th><th>Refused</th><th>Waited (ms)</th>\
         <th>Served in (ms)</th><th>Memory (MB)</th><th>Started</th><th>Ended</th></tr>\n",
    );
    for pool in pools {
        let (waited, worked) = pool.averages();
        let ended: Vec<String> = pool.reasons().map(|(reason, number)| format!("{number} {reason}")).collect();
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td>\
             <td>{:.1}</td><td>{:.1}</td><td>{}</td><td>{}</td></tr>",
            escape_html(&pool.name),
            pool.size,
            pool.busy,
            pool.max,
            pool.waiting,
            pool.served,
            pool.refused,
            waited * 1000.0,
            worked * 1000.0,
            pool.memory as f64 / f64::from(1 << 20),
            pool.started,
            if ended.is_empty() { "-".into() } else { ended.join(", ") },
        );
    }
    out.push_str("</table>\n");
}
