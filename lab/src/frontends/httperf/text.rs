//! The output of httperf.

use std::fmt::Write as _;
use std::time::Duration;

use super::HttperfOptions;
use super::sessions::{SessionLog, UniformSessions};
use super::values::Part;
use crate::load::distribution::Distribution;
use crate::load::scenario::tally::{SAMPLE, Tally};
use crate::load::{Pace, Record};

/// The options as understood.
pub(super) fn command_line(options: &HttperfOptions) -> String {
    let mut out = "httperf".to_owned();
    let mut add = |is_there: bool, text: String| {
        if is_there {
            out.push(' ');
            out.push_str(&text);
        }
    };
    let part = |part: Option<Part>| match part {
        None => "",
        Some(Part::Header) => "=header",
        Some(Part::Body) => "=body",
    };
    add(options.verbose, "--verbose".into());
    for (name, printed) in [("reply", options.print_reply), ("request", options.print_request)] {
        add(printed.is_some(), format!("--print-{name}{}", printed.map_or("", part)));
    }
    add(options.hog, "--hog".into());
    add(options.think_timeout > 0.0, format!("--think-timeout={}", options.think_timeout));
    add(options.timeout > 0.0, format!("--timeout={}", options.timeout));
    add(true, format!("--client={}", options.client));
    add(true, format!("--server={}", options.server));
    if let Some(name) = &options.server_name {
        add(true, format!("--server_name={name}"));
    }
    add(true, format!("--port={}", options.port));
    add(true, format!("--uri={}", options.uri));
    if let Some(status) = options.failure_status {
        add(true, format!("--failure-status={status}"));
    }
    add(options.http_version == "1.0", "--http-version=1.0".into());
    if let Some(most) = options.max_connections {
        add(true, format!("--max-connections={most}"));
    }
    if let Some(most) = options.max_piped_calls {
        add(true, format!("--max-piped-calls={most}"));
    }
    match options.period {
        None => add(options.rate > 0.0, format!("--rate={}", options.rate)),
        Some(Pace::Constant(time)) => add(!time.is_zero(), format!("--rate={}", 1.0 / time.as_secs_f64())),
        Some(Pace::Uniform(least, most)) => {
            add(true, format!("--period=u{},{}", least.as_secs_f64(), most.as_secs_f64()));
        }
        Some(Pace::Exponential(mean)) => add(true, format!("--period=e{}", mean.as_secs_f64())),
    }
    add(true, format!("--send-buffer={}", options.send_buffer));
    add(true, format!("--recv-buffer={}", options.recv_buffer));
    add(options.session_cookies, "--session-cookies".into());
    add(options.ssl, "--ssl".into());
    if let Some(suites) = &options.ssl_ciphers {
        add(true, format!("--ssl-ciphers={suites}"));
    }
    add(options.ssl_no_reuse, "--ssl-no-reuse".into());
    if let Some(fields) = &options.add_header {
        add(true, format!("--add-header='{fields}'"));
    }
    if let Some(method) = &options.method {
        add(true, format!("--method={method}"));
    }
    if let Some((again, file)) = &options.wlog {
        add(true, format!("--wlog={},{}", if *again { "y" } else { "n" }, file.display()));
    }
    match (&options.wsess, &options.wsesslog) {
        (Some(UniformSessions { count, calls, think }), _) => {
            add(true, format!("--wsess={count},{calls},{:.3}", think.as_secs_f64()));
        }
        (_, Some(SessionLog { count, think, file })) => {
            add(true, format!("--wsesslog={count},{:.3},{}", think.as_secs_f64(), file.display()));
        }
        _ => add(true, format!("--num-conns={} --num-calls={}", options.num_conns, options.num_calls)),
    }
    add(options.burst_length != 1, format!("--burst-length={}", options.burst_length));
    out
}

/// The report; `used` is the CPU time of the generator, user and system.
pub(super) fn results(options: &HttperfOptions, record: &Record, used: [Duration; 2]) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut out, options, record, used);
    out
}

fn write(out: &mut String, options: &HttperfOptions, record: &Record, used: [Duration; 2]) -> std::fmt::Result {
    let totals = Totals::of(record);
    write_totals(out, record, &totals)?;
    write_connections(out, record, &totals)?;
    write_requests(out, record, &totals)?;
    write_replies(out, record)?;
    write_use(out, record, &totals, used)?;
    write_errors(out, record, &totals)?;
    match record.tally.as_deref().filter(|_| options.has_sessions()) {
        Some(tally) => write_sessions(out, tally, totals.seconds),
        None => Ok(()),
    }
}

/// What several parts of the report count in the same way.
struct Totals {
    seconds: f64,
    connections: u64,
    requests: u64,
    /// Connections that the server ended too early: a session goes on over another one.
    cut: u64,
}

impl Totals {
    fn of(record: &Record) -> Self {
        let failures = &record.failures;
        let cut = record.tally.as_ref().map_or(0, |_| record.reopened);
        let never_there = failures.refused + failures.connect + failures.no_descriptor + failures.no_port;
        Self {
            seconds: record.elapsed.as_secs_f64().max(f64::MIN_POSITIVE),
            connections: record.connections + never_there,
            requests: record.responses + failures.total() + cut - never_there,
            cut,
        }
    }

    /// How many of these there were in a second, and how many milliseconds each took.
    fn rate(&self, count: u64) -> (f64, f64) {
        (ratio(count as f64, self.seconds), ratio(1000.0 * self.seconds, count as f64))
    }
}

/// A quotient; 0 of nothing.
fn ratio(one: f64, other: f64) -> f64 {
    if other > 0.0 { one / other } else { 0.0 }
}

fn write_totals(out: &mut String, record: &Record, totals: &Totals) -> std::fmt::Result {
    let Totals { seconds, connections, requests, .. } = totals;
    let replies = record.responses;
    writeln!(out, "Maximum connect burst length: {}", record.burst)?;
    writeln!(
        out,
        "\nTotal: connections {connections} requests {requests} replies {replies} test-duration {seconds:.3} s"
    )
}

fn write_connections(out: &mut String, record: &Record, totals: &Totals) -> std::fmt::Result {
    let (rate, each) = totals.rate(totals.connections);
    let most = record.concurrent;
    writeln!(out, "\nConnection rate: {rate:.1} conn/s ({each:.1} ms/conn, <={most} concurrent connections)")?;
    let [least, mean, deviation, median, longest] = record.lives.figures().map(|time| time / 1000.0);
    writeln!(
        out,
        "Connection time [ms]: min {least:.1} avg {mean:.1} max {longest:.1} median {median:.1} stddev {deviation:.1}"
    )?;
    writeln!(out, "Connection time [ms]: connect {:.1}", record.setup.figures()[1] / 1000.0)?;
    let answering = if record.tally.is_some() { record.lives.0.len() } else { record.connections };
    writeln!(out, "Connection length [replies/conn]: {:.3}", ratio(record.responses as f64, answering as f64))
}

fn write_requests(out: &mut String, record: &Record, totals: &Totals) -> std::fmt::Result {
    let (rate, each) = totals.rate(totals.requests);
    writeln!(out, "\nRequest rate: {rate:.1} req/s ({each:.1} ms/req)")?;
    writeln!(out, "Request size [B]: {:.1}", ratio(record.sent_bytes as f64, totals.requests as f64))
}

fn write_replies(out: &mut String, record: &Record) -> std::fmt::Result {
    let samples = samples(record);
    let [least, mean, longest, deviation] = of_samples(&samples);
    writeln!(
        out,
        "\nReply rate [replies/s]: min {least:.1} avg {mean:.1} max {longest:.1} stddev {deviation:.1} ({} samples)",
        samples.len()
    )?;
    let replies = record.responses as f64;
    let transfer = ratio(record.transfer.as_secs_f64() * 1000.0, replies);
    writeln!(out, "Reply time [ms]: response {:.1} transfer {transfer:.1}", record.wait.figures()[1] / 1000.0)?;
    let size = |bytes: u64| ratio(bytes as f64, replies);
    writeln!(
        out,
        "Reply size [B]: header {:.1} content {:.1} footer {:.1} (total {:.1})",
        size(record.head),
        size(record.body),
        size(record.framing),
        size(record.received())
    )?;
    let [_, one, two, three, four, five] = record.classes;
    writeln!(out, "Reply status: 1xx={one} 2xx={two} 3xx={three} 4xx={four} 5xx={five}")
}

/// The use of the processor and of the network.
fn write_use(out: &mut String, record: &Record, totals: &Totals, used: [Duration; 2]) -> std::fmt::Result {
    let [user, system] = used.map(|time| time.as_secs_f64());
    let share = |time: f64| 100.0 * time / totals.seconds;
    writeln!(
        out,
        "\nCPU time [s]: user {user:.2} system {system:.2} (user {:.1}% system {:.1}% total {:.1}%)",
        share(user),
        share(system),
        share(user + system)
    )?;
    let bytes = (record.received() + record.sent_bytes) as f64 / totals.seconds;
    writeln!(out, "Net I/O: {:.1} KB/s ({:.1}*10^6 bps)", bytes / 1024.0, bytes * 8.0 / 1e6)
}

fn write_errors(out: &mut String, record: &Record, totals: &Totals) -> std::fmt::Result {
    let failures = &record.failures;
    let other = failures.malformed + failures.write + failures.connect + failures.tls;
    writeln!(
        out,
        "\nErrors: total {} client-timo {} socket-timo 0 connrefused {} connreset {}",
        failures.total() + totals.cut,
        failures.timeout,
        failures.refused,
        failures.reset + failures.read + totals.cut
    )?;
    writeln!(
        out,
        "Errors: fd-unavail {} addrunavail {} ftab-full 0 other {other}",
        failures.no_descriptor, failures.no_port
    )
}

fn write_sessions(out: &mut String, tally: &Tally, seconds: f64) -> std::fmt::Result {
    let (good, bad) = (tally.complete.0.len(), tally.failed.0.len());
    let length = SAMPLE.as_secs_f64();
    let counts = tally.samples.iter().copied().chain(std::iter::repeat(0));
    let samples: Vec<f64> = counts.take((seconds / length) as usize).map(|count| count as f64 / length).collect();
    let [least, _, most, deviation] = of_samples(&samples);
    let rate = good as f64 / seconds;
    writeln!(
        out,
        "\nSession rate [sess/s]: min {least:.2} avg {rate:.2} max {most:.2} stddev {deviation:.2} ({good}/{})",
        good + bad
    )?;
    let each = if good > 0 { tally.connections as f64 / good as f64 } else { 0.0 };
    writeln!(out, "Session: avg {each:.2} connections/session")?;
    let mean = |distribution: &Distribution| distribution.figures()[1] / 1e6;
    writeln!(out, "Session lifetime [s]: {:.1}", mean(&tally.complete))?;
    writeln!(out, "Session failtime [s]: {:.1}", mean(&tally.failed))?;
    // Up to the longest session there was.
    let longest = tally.lengths.iter().rposition(|count| *count > 0).unwrap_or(0);
    let histogram = tally.lengths.iter().take(longest + 1).map(u64::to_string);
    writeln!(out, "Session length histogram: {}", histogram.collect::<Vec<_>>().join(" "))
}

/// Replies per second, in each whole sample.
fn samples(record: &Record) -> Vec<f64> {
    let length = record.timeline.length.as_secs_f64();
    let each = (SAMPLE.as_secs_f64() / length).ceil().max(1.0) as usize;
    let whole = (record.elapsed.as_secs_f64() / length) as usize;
    let intervals = &record.timeline.intervals[..whole.min(record.timeline.intervals.len())];
    let sum = |part: &[_]| part.iter().map(|one: &crate::load::timeline::Interval| one.responses).sum::<u64>();
    intervals.chunks_exact(each).map(|part| sum(part) as f64 / (each as f64 * length)).collect()
}

/// The least, the mean, the most, and the deviation.
fn of_samples(samples: &[f64]) -> [f64; 4] {
    if samples.is_empty() {
        return [0.0; 4];
    }
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let deviation = if samples.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    [least, mean, samples.iter().copied().fold(0.0, f64::max), deviation]
}
