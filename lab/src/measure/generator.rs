//! The generator for a measurement: `tsubame-lab load` as a separate process, on its own core, which is started,
//! watched, and waited for with a limit.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::experiments::workload::Protocol;
use crate::frontends::load::json;
use crate::load::Handshakes;
use crate::load::rates::Rates;
use crate::load::status_file;
use crate::machine::error::{Context as _, Error, Result};
use crate::machine::identity;
use crate::machine::launch;
use crate::machine::stats::percentile;
use crate::measure::results::Errors;

/// A generator stops by itself; if it has not after this much extra time, it hangs.
const OVERTIME: Duration = Duration::from_secs(20);

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(10);

/// A response that takes longer counts as an error.
pub(crate) const TIMEOUT_SECONDS: u32 = 5;

/// The counts of a generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// The time in which the requests were completed, in seconds.
    pub(crate) seconds: f64,
    /// Requests that were answered well.
    pub(crate) requests: u64,
    /// Bytes received.
    pub(crate) bytes: u64,
    /// The shortest time from request to response, in microseconds.
    pub(crate) min_us: u64,
    /// The mean of these times, in microseconds.
    pub(crate) mean_us: f64,
    /// Their median, in microseconds.
    pub(crate) p50_us: u64,
    /// The time that one of a hundred exceeds, in microseconds.
    pub(crate) p99_us: u64,
    /// The longest, in microseconds.
    pub(crate) max_us: u64,
    /// What failed.
    pub(crate) errors: Errors,
    /// The delay that one of a hundred requests exceeds when it is sent, through the generator's fault, in
    /// microseconds; 0 where there is no schedule.
    pub(crate) late_p99_us: u64,
    /// Connections that the server closed instead of answering; their requests were sent again, as a browser does.
    pub(crate) reopened: u64,
    /// Handshakes that were complete.
    pub(crate) handshakes: Handshakes,
    /// For various percentages of the requests, the most microseconds they took, in order.
    pub(crate) latencies: Vec<(f64, u64)>,
    /// The counts over time.
    pub(crate) intervals: Vec<Rates>,
}

/// A load on a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadRun<'a> {
    /// The addresses, used in turn: one does not have enough ports for 20 000 connections.
    pub(crate) addresses: &'a [SocketAddr],
    /// The document, without the leading slash.
    pub(crate) name: &'a str,
    /// The number of connections.
    pub(crate) connections: u32,
    /// Requests after which a connection is closed; 0 keeps it.
    pub(crate) per_connection: u32,
    /// The host of the URL and of TLS; `None`: the address.
    pub(crate) host: Option<&'a str>,
    /// A file with further URLs, sent in turn.
    pub(crate) urls: Option<&'a Path>,
    /// How many requests, if not as many as there is time for.
    pub(crate) requests: Option<u32>,
    /// A fixed rate per second, regardless of earlier requests; otherwise as many as are answered.
    pub(crate) per_second: Option<u32>,
    /// Whether a fixed rate is kept without sleeping, which takes all of the core.
    pub(crate) spins: bool,
    /// The duration.
    pub(crate) seconds: u32,
    /// The protocol.
    pub(crate) protocol: Protocol,
    /// A file with the expected body of every response, if nothing else has checked it.
    pub(crate) expect: Option<&'a Path>,
}

impl LoadRun<'_> {
    /// Fires from `core` and waits for the counts. Calls `watch` repeatedly meanwhile; if that fails, the shot is over.
    pub(crate) fn run(&self, core: usize, watch: &mut dyn FnMut() -> Result<()>) -> Result<Counts> {
        let lab = std::env::current_exe().context(|| "find the laboratory's own program".to_owned())?;
        let mut command = launch::command(&[], &[core], &lab)?;
        command.args(self.arguments());
        let output = run(command, self.seconds + TIMEOUT_SECONDS, watch)?;
        let results = serde_json::from_slice(&output.stdout).map_err(|_| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            Error::new(format!("the load generator did not report ({}): {}", output.status, complaint.trim()))
        })?;
        Ok(Counts::of(&results))
    }

    fn arguments(&self) -> Vec<String> {
        let Some(first) = self.addresses.first() else { return Vec::new() };
        let addresses: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        let scheme = if self.protocol == Protocol::Clear { "http" } else { "https" };
        let authority = self.host.map_or(first.to_string(), |host| format!("{host}:{}", first.port()));
        let url = format!("{scheme}://{authority}/{}", self.name);
        let mut all = vec!["load".to_owned(), "--json".to_owned(), "--bare".to_owned(), url];
        let mut add = |name: &str, value: String| all.extend([name.to_owned(), value]);
        add("--connect", addresses.join(","));
        add("--connections", self.connections.to_string());
        add("--duration", format!("{}s", self.seconds));
        add("--timeout", format!("{TIMEOUT_SECONDS}s"));
        if self.per_connection > 1 {
            add("--per-connection", self.per_connection.to_string());
        }
        if let Some(rate) = self.per_second {
            add("--rate", rate.to_string());
        }
        if let Some(count) = self.requests {
            add("--requests", count.to_string());
        }
        if let Some(path) = self.urls {
            add("--url-file", path.display().to_string());
        }
        if let Some(path) = self.expect {
            add("--expect", path.display().to_string());
        }
        all.extend(self.protocol.options(self.host.unwrap_or(identity::NAME)));
        let flags = [("--close", self.per_connection == 1), ("--spin", self.spins && self.per_second.is_some())];
        all.extend(flags.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(flag, _)| flag.to_owned()));
        all
    }
}

impl Counts {
    /// The counts of requests that were made in so many seconds without a generator.
    pub(crate) fn of_latencies(seconds: f64, mut latencies_us: Vec<u64>, errors: Errors) -> Self {
        latencies_us.sort_unstable();
        Self {
            seconds,
            requests: latencies_us.len() as u64,
            min_us: percentile(&latencies_us, 0.0),
            mean_us: latencies_us.iter().sum::<u64>() as f64 / (latencies_us.len() as f64).max(1.0),
            p50_us: percentile(&latencies_us, 0.5),
            p99_us: percentile(&latencies_us, 0.99),
            max_us: percentile(&latencies_us, 1.0),
            errors,
            ..Self::default()
        }
    }

    fn of(results: &json::Results) -> Self {
        let failed = |kinds: &[&str]| kinds.iter().filter_map(|kind| results.failures.get(*kind)).sum();
        let within = |times: &json::Times, name: &str| times.percentiles_us.get(name).copied().unwrap_or_default();
        let least = std::iter::once((0.0, results.latency.min_us));
        let points = results.latency.percentiles_us.iter();
        let points = points.filter_map(|(name, value)| Some((name.parse::<f64>().ok()?, *value)));
        let mut latencies: Vec<(f64, u64)> = least.chain(points).collect();
        latencies.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Self {
            seconds: results.seconds,
            requests: results.good,
            bytes: results.bytes.head + results.bytes.body + results.bytes.framing,
            min_us: results.latency.min_us,
            mean_us: results.latency.mean_us,
            p50_us: within(&results.latency, "50"),
            p99_us: within(&results.latency, "99"),
            max_us: results.latency.max_us,
            errors: Errors {
                connect: failed(&["refused", "connect", "no_descriptor", "no_port", "tls"]),
                read: failed(&["read", "reset", "malformed", "stream"]),
                write: failed(&["write"]),
                timeout: failed(&["timeout"]),
                status: results.responses - results.good,
            },
            late_p99_us: within(&results.lag, "99"),
            reopened: results.reopened,
            handshakes: results.handshakes,
            latencies,
            intervals: json::intervals(&results.timeline, results.interval, results.seconds),
        }
    }
}

/// Runs `command`, which should take `seconds`, and calls `watch` repeatedly meanwhile; if that fails, the run is over.
/// A generator's output is far smaller than a pipe.
fn run(mut command: Command, seconds: u32, watch: &mut dyn FnMut() -> Result<()>) -> Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context(|| "start the load generator".to_owned())?;
    let deadline = Instant::now() + Duration::from_secs(seconds.into()) + OVERTIME;
    while child.try_wait().context(|| "wait for the load generator".to_owned())?.is_none() {
        let watched = match Instant::now() > deadline {
            true => Err(Error::new("the load generator did not end in time and was killed")),
            false => watch(),
        };
        if let Err(error) = watched {
            let _ = child.kill();
            let _ = child.wait();
            status_file::clear();
            return Err(error);
        }
        std::thread::sleep(INTERVAL);
    }
    child.wait_with_output().context(|| "read what the load generator says".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shot_is_a_load_that_can_be_asked_for() {
        use clap::Parser as _;
        let addresses = [1, 2].map(|host| SocketAddr::from(([127, 88, 0, host], 8080)));
        let load_run = LoadRun {
            addresses: &addresses,
            name: "small.txt",
            connections: 100,
            per_connection: 0,
            host: None,
            urls: None,
            requests: None,
            per_second: None,
            spins: true,
            seconds: 4,
            protocol: Protocol::Clear,
            expect: None,
        };
        let said = |load_run: LoadRun<'_>| {
            let arguments = load_run.arguments();
            assert!(crate::cli::Cli::try_parse_from([vec!["lab".to_owned()], arguments.clone()].concat()).is_ok());
            arguments[3..].join(" ")
        };
        let always = "http://127.88.0.1:8080/small.txt --connect 127.88.0.1:8080,127.88.0.2:8080 \
                      --connections 100 --duration 4s --timeout 5s";
        assert_eq!(said(load_run), always);
        assert_eq!(said(LoadRun { per_connection: 1, ..load_run }), format!("{always} --close"));
        let paced = LoadRun { per_connection: 10, per_second: Some(1000), ..load_run };
        assert_eq!(said(paced), format!("{always} --per-connection 10 --rate 1000 --spin"));
        let many = LoadRun { host: Some("h0.test"), urls: Some(Path::new("/urls")), requests: Some(7), ..load_run };
        let told = always.replacen("127.88.0.1", "h0.test", 1);
        assert_eq!(said(many), format!("{told} --requests 7 --url-file /urls"));
        let protocol = "--tls 1.3 --ciphers TLS_AES_128_GCM_SHA256 --groups X25519 --sni localhost --no-resume --http2 --streams 100";
        let told = said(LoadRun {
            protocol: Protocol::Http2 { streams: 100 },
            expect: Some(Path::new("/small.txt")),
            ..load_run
        });
        assert_eq!(told, format!("{} --expect /small.txt {protocol}", always.replace("http:", "https:")));
    }

    #[test]
    fn a_generator_that_is_not_wanted_any_more_is_ended() {
        let began = Instant::now();
        let mut command = Command::new("sleep");
        command.arg("60");
        let error = run(command, 60, &mut || Err(Error::new("enough"))).unwrap_err();
        assert_eq!(error.to_string(), "enough");
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
