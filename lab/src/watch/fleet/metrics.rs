//! What `top --fleet` reads of Tsubame's metrics.

/// The metrics of a server at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Whether load balancers may send new clients; `None`: an earlier version does not tell.
    pub(super) is_ready: Option<bool>,
    pub(super) requests: f64,
    /// Responses with the statuses from 500 on.
    pub(super) errors: f64,
    /// Bounds in seconds, and how many requests took no longer; the last bound is infinite.
    pub(super) durations: Vec<(f64, f64)>,
    /// Workers that serve a request.
    pub(super) busy: f64,
    pub(super) scripts: f64,
    pub(super) waiting: f64,
    /// The bytes that scripts have, and may have.
    pub(super) script_memory: f64,
    pub(super) script_memory_limit: Option<f64>,
    /// The bytes that the machine has left.
    pub(super) memory: Option<f64>,
    /// CPU seconds of all children and scripts.
    pub(super) cpu: f64,
    /// Seconds since the last start or restart.
    pub(super) uptime: f64,
}

/// States of workers that serve nobody.
const IDLE: [&str; 4] = ["dead", "starting", "ready", "idle_cleanup"];

/// Reads the page.
///
/// # Errors
/// It is not that of Tsubame.
pub(super) fn parse(text: &str) -> Result<Reading, String> {
    let mut reading = Reading::default();
    let mut is_ours = false;
    for (name, value) in text.lines().filter_map(line) {
        let (name, labels) = name.split_once('{').unwrap_or((name, ""));
        let label = |key: &str| {
            labels.split(',').find_map(|one| one.trim_matches(['{', '}']).strip_prefix(key)?.strip_prefix("=\""))
        };
        let is = |key: &str, wanted: &str| label(key).and_then(|text| text.split('"').next()) == Some(wanted);
        match name.strip_prefix("tsubame_").unwrap_or_default() {
            "ready" => reading.is_ready = Some(value > 0.0),
            "requests_total" => (is_ours, reading.requests) = (true, value),
            "responses_total" if is("class", "5xx") => reading.errors = value,
            "request_duration_seconds_bucket" => {
                let bound = label("le").and_then(|text| text.split('"').next()).unwrap_or_default();
                let bound = if bound == "+Inf" { Ok(f64::INFINITY) } else { bound.parse() };
                reading.durations.extend(bound.ok().map(|bound| (bound, value)));
            }
            "workers" if !IDLE.iter().any(|state| is("state", state)) => reading.busy += value,
            "scripts_running" => reading.scripts = value,
            "scripts_waiting" => reading.waiting = value,
            "script_memory_reserved_bytes" => reading.script_memory = value,
            "script_memory_limit_bytes" => reading.script_memory_limit = Some(value),
            "memory_available_bytes" => reading.memory = Some(value),
            "cpu_seconds_total" => reading.cpu += value,
            "uptime_seconds" => reading.uptime = value,
            _ => {}
        }
    }
    is_ours.then_some(reading).ok_or_else(|| "its page has no metrics of Tsubame".to_owned())
}

/// A name with its labels, and a value.
fn line(text: &str) -> Option<(&str, f64)> {
    let (name, value) = text.rsplit_once(' ').filter(|_| !text.starts_with('#'))?;
    Some((name, value.parse().ok()?))
}

/// The time that so large a share of the requests between two readings took at most, in seconds; between two bounds they are
/// assumed to be evenly spread. `None`: there were no requests.
pub(super) fn quantile(before: &Reading, now: &Reading, share: f64) -> Option<f64> {
    let earlier =
        |bound: f64| before.durations.iter().find(|(have, _)| *have == bound).map_or(0.0, |(_, count)| *count);
    let below: Vec<(f64, f64)> = now.durations.iter().map(|(bound, count)| (*bound, count - earlier(*bound))).collect();
    let wanted = below.last().map(|(_, all)| all * share).filter(|wanted| *wanted > 0.0)?;
    let at = below.iter().position(|(_, count)| *count >= wanted)?;
    let (low, fewer) = at.checked_sub(1).map_or((0.0, 0.0), |before| below[before]);
    let (high, count) = below[at];
    Some(if high.is_finite() { low + (high - low) * (wanted - fewer) / (count - fewer) } else { low })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_read() {
        let page = "# TYPE tsubame_requests counter\ntsubame_ready 1\ntsubame_requests_total 12\ntsubame_responses_total{class=\"2xx\"} 10\n\
            tsubame_responses_total{class=\"5xx\"} 2\ntsubame_request_duration_seconds_bucket{le=\"0.1\"} 5\n\
            tsubame_request_duration_seconds_bucket{le=\"+Inf\"} 12\ntsubame_workers{state=\"ready\"} 3\ntsubame_workers{state=\"writing\"} 2\n\
            tsubame_workers{state=\"unlisted\"} 4\ntsubame_cpu_seconds_total{mode=\"user\"} 1.5\ntsubame_cpu_seconds_total{mode=\"system\"} 0.5\n\
            tsubame_script_memory_limit_bytes 100\n# EOF\n";
        let read = parse(page).unwrap();
        assert_eq!((read.is_ready, read.requests, read.errors, read.busy, read.cpu), (Some(true), 12.0, 2.0, 6.0, 2.0));
        assert_eq!(read.durations, [(0.1, 5.0), (f64::INFINITY, 12.0)]);
        assert_eq!(read.script_memory_limit, Some(100.0));
        assert!(parse("<html>it works\n").is_err());
    }

    #[test]
    fn quantiles_are_those_of_what_came_since() {
        let reading = |counts: [f64; 3]| Reading {
            durations: [0.1, 0.2, f64::INFINITY].into_iter().zip(counts).collect(),
            ..Reading::default()
        };
        let before = reading([100.0, 100.0, 100.0]);
        for (now, share, expected) in [
            ([110.0, 110.0, 110.0], 0.5, Some(0.05)),
            ([100.0, 110.0, 110.0], 0.5, Some(0.15)),
            ([100.0, 105.0, 110.0], 0.99, Some(0.2)),
            ([100.0, 100.0, 100.0], 0.99, None),
        ] {
            let found = quantile(&before, &reading(now), share);
            let is_near = found.zip(expected).map_or(found == expected, |(one, other)| (one - other).abs() < 1e-9);
            assert!(is_near, "{now:?}: {found:?}");
        }
    }
}
