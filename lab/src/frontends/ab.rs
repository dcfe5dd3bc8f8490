//! `ab`: the command line and output of ApacheBench 2.3 (Apache 2.4's `ab`,
//! <https://httpd.apache.org/docs/2.4/programs/ab.html>).

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::Args;

use super::request_options::RequestOptions;
use crate::load::record::Failures;
use crate::load::request_builder::RequestBuilder;
use crate::load::tls::{Tls, Versions};
use crate::load::url::Url;
use crate::load::{self, Live, Plan, Record};
use crate::machine::error::{Error, Result, write_file};

mod files;
mod text;

/// ab's options.
#[derive(Args, Clone, Debug)]
#[command(disable_version_flag = true)]
pub(crate) struct AbOptions {
    /// The URL to request
    #[arg(required_unless_present = "version")]
    url: Option<String>,

    /// Number of requests [default: 1, or 50000 with -t]
    #[arg(short = 'n', value_name = "REQUESTS", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,

    /// Requests at a time
    #[arg(short = 'c', value_name = "CONCURRENCY", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,

    /// End after this many seconds at the latest
    #[arg(short = 't', value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    time: Option<u64>,

    /// Seconds to wait for a response
    #[arg(short = 's', value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,

    /// Accepted, and left to the kernel: the size of socket buffers
    #[arg(short = 'b', value_name = "BYTES")]
    window: Option<u32>,

    /// The address to come from
    #[arg(short = 'B', value_name = "ADDRESS")]
    source: Option<IpAddr>,

    /// Verbosity: 1 shows failures that -r forgives, 2 the request, heads of responses and warnings, 3 also the status of good responses
    #[arg(short = 'v', value_name = "LEVEL", default_value_t = 0)]
    verbosity: u32,

    /// Print HTML tables
    #[arg(short = 'w')]
    html: bool,

    /// Attributes of the table
    #[arg(short = 'x', value_name = "ATTRIBUTES", default_value = "")]
    table_attributes: String,

    /// Attributes of table rows
    #[arg(short = 'y', value_name = "ATTRIBUTES", default_value = "")]
    row_attributes: String,

    /// Attributes of table cells
    #[arg(short = 'z', value_name = "ATTRIBUTES", default_value = "bgcolor=white")]
    cell_attributes: String,

    /// Print the version
    #[arg(short = 'V')]
    version: bool,

    /// Whether -t comes after -n.
    #[arg(skip)]
    time_is_last: bool,

    /// Keep connections (KeepAlive)
    #[arg(short = 'k')]
    keep: bool,

    /// Leave out the table of percentiles
    #[arg(short = 'd')]
    no_percentiles: bool,

    /// Leave out deviations, medians and warnings about them
    #[arg(short = 'S')]
    no_deviations: bool,

    /// Do not show progress
    #[arg(short = 'q')]
    quiet: bool,

    /// Responses may differ in length
    #[arg(short = 'l')]
    any_length: bool,

    /// Write the times of all requests to a file for gnuplot
    #[arg(short = 'g', value_name = "FILE")]
    gnuplot: Option<PathBuf>,

    /// Write the percentiles to a CSV file
    #[arg(short = 'e', value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Continue after a connection fails
    #[arg(short = 'r')]
    go_on: bool,

    /// The version of TLS: TLS1.2, TLS1.3 or ALL
    #[arg(short = 'f', value_name = "PROTOCOL", value_parser = versions)]
    versions: Option<Versions>,

    /// The cipher suites of TLS 1.2, in OpenSSL's words
    #[arg(short = 'Z', value_name = "CIPHERSUITE")]
    suites: Option<String>,

    /// A file with our own certificate, its chain, and its key
    #[arg(short = 'E', value_name = "FILE")]
    identity: Option<PathBuf>,

    /// Do not tell the server its name (SNI)
    #[arg(short = 'I')]
    no_sni: bool,

    #[command(flatten)]
    request_options: RequestOptions,
}

fn versions(text: &str) -> std::result::Result<Versions, String> {
    match text.to_ascii_uppercase().as_str() {
        "ALL" => Ok(Versions::Both),
        "TLS1.2" => Ok(Versions::Only12),
        "TLS1.3" => Ok(Versions::Only13),
        _ => Err("TLS1.2, TLS1.3 and ALL are supported".into()),
    }
}

/// Runs `tsubame-lab ab`.
pub(crate) fn run(options: &AbOptions) -> Result<()> {
    if options.version {
        say_line!("{}\n", WHO.join("\n"));
        return Ok(());
    }
    let text = options.url.as_deref().unwrap_or_default();
    if !text.split_once("://").map_or(text, |(_, rest)| rest).contains('/') {
        return Err(Error::new(format!("{text:?} is an invalid URL to ab: it has no path"))
            .advise(format!("{text}/"))
            .ending_with(MISUSED));
    }
    let url = Url::parse(text)?;
    let plan = options.plan(&url)?;
    let shows = !options.quiet && plan.count.is_some_and(|count| count > QUIET);
    say!("{}", options.banner(&url, shows));
    if options.verbosity >= SHOWING {
        let request = plan.requests.first().map(|request| String::from_utf8_lossy(&request.bytes)).unwrap_or_default();
        let (head, _) = request.split_once("\r\n\r\n").unwrap_or_default();
        let method = head.split(' ').next().unwrap_or_default();
        say_line!("INFO: {method} header == \n---\n{head}\r\n\r\n\n---");
    }
    let step = plan.count.map_or(1, |count| (count / 10).max(100));
    let mut shown = 0;
    let live = Live::default();
    let record = load::run(&plan, &live, |live| {
        if !options.go_on && live.failures.load(Relaxed) > 0 {
            live.stop();
        }
        let responses = live.responses.load(Relaxed);
        while shows && responses >= shown + step {
            shown += step;
            warn_line!("Completed {shown} requests");
        }
    })?;
    let mut broken = broken(&record.failures);
    if options.go_on && options.verbosity > 0 {
        broken.for_each(|(count, why, _)| (0..count).for_each(|_| warn_line!("{why}")));
    } else if let (false, Some((_, why, status))) = (options.go_on, broken.next()) {
        if let done @ 1.. = completed(&record) - forgiven(&record.failures) {
            say_line!("Total of {done} requests completed");
        }
        let complaint = record.complaint.as_ref().map(|complaint| format!("\n{complaint}")).unwrap_or_default();
        return Err(Error::new(format!("{why}{complaint}")).advise("-r to go on anyway").ending_with(status));
    }
    match shows {
        true => {
            (shown / step + 1..=record.responses / step).for_each(|at| warn_line!("Completed {} requests", at * step));
            warn_line!("Finished {} requests", record.responses);
        }
        false => say!("..done"),
    }
    say!(
        "{}",
        if options.html {
            text::html(options, &url, &plan, &record)
        } else {
            text::plain(options, &url, &plan, &record)
        }
    );
    if let Some(path) = &options.csv {
        write_file(path, files::csv(&record))?;
    }
    if let Some(path) = &options.gnuplot {
        write_file(path, files::gnuplot(&record))?;
    }
    Ok(())
}

/// Up to this many requests, progress is not shown.
const QUIET: u64 = 150;

/// ab's exit status for a nonsensical command line.
pub(crate) const MISUSED: u8 = 22;

/// ab's exit status if a host has no address.
const UNRESOLVED: u8 = 50;

/// From this level of -v on, requests and responses are shown.
const SHOWING: u32 = 2;

/// How often each failure happened that ends ab, ab's message about it, and its status; to ab, a connection that ends too
/// early is a response.
fn broken(failures: &Failures) -> impl Iterator<Item = (u64, &'static str, u8)> {
    let kinds = [
        (failures.refused, "apr_socket_recv: Connection refused (111)", 111),
        (failures.reset, "apr_socket_recv: Connection reset by peer (104)", 104),
        (failures.tls, "SSL handshake failed (1).", 1),
        (failures.timeout, "apr_pollset_poll: The timeout specified has expired (70007)", 119),
        (failures.no_descriptor, "socket: Too many open files (24)", 24),
        (failures.no_port, "apr_socket_connect(): Cannot assign requested address (99)", 99),
        (failures.connect, "apr_socket_connect(): No route to host (113)", 113),
        (failures.write, "apr_socket_send: Broken pipe (32)", 32),
        (failures.malformed, "apr_socket_recv: the server did not send an HTTP response", 1),
    ];
    kinds.into_iter().filter(|(count, ..)| *count > 0)
}

impl AbOptions {
    /// Records which of -n and -t came last: for ab, -t implies -n 50000, which applies unless -n follows.
    pub(crate) fn note_order(&mut self, given: &clap::ArgMatches) {
        let last = |id: &str| given.indices_of(id).and_then(Iterator::last);
        self.time_is_last = last("time") > last("requests");
    }

    fn plan(&self, url: &Url) -> Result<Plan> {
        let usual = if self.time.is_some() { 50_000 } else { 1 };
        let count = self.requests.filter(|_| !self.time_is_last).unwrap_or(usual);
        if u64::from(self.concurrency) > count {
            return Err(Error::new("Cannot use concurrency level greater than total number of requests")
                .advise("a larger -n or a smaller -c")
                .ending_with(MISUSED));
        }
        let manner = RequestBuilder {
            method: "GET",
            minor: 0,
            fields: &[],
            body: &[],
            content_type: "",
            tells_host: true,
            agent: Some("ApacheBench/2.3"),
            accepts_all: true,
            connection: self.keep.then_some("Keep-Alive"),
        };
        let (request, server) = self.request_options.request(url, false, UNRESOLVED, manner)?;
        Ok(Plan {
            sources: self.source.into_iter().collect(),
            clients: self.concurrency as usize,
            calls: (!self.keep).then_some(1),
            count: Some(count),
            time: self.time.map(Duration::from_secs),
            timeout: Duration::from_secs(self.timeout),
            takes_broken: true,
            shows: Some(self.verbosity).filter(|level| *level >= SHOWING),
            samples: self.gnuplot.is_some(),
            tls: self.tls(url),
            ..Plan::of(server, vec![request])
        })
    }

    /// ab never resumes an earlier session, and offers no protocols.
    fn tls(&self, url: &Url) -> Option<Tls> {
        url.is_secure.then(|| Tls {
            tells_name: !self.no_sni,
            resumes: false,
            versions: self.versions.unwrap_or(Versions::Both),
            suites: self.suites.clone(),
            identity: self.identity.clone(),
            ..Tls::to(&url.host)
        })
    }

    /// The text above everything else.
    fn banner(&self, url: &Url, tells: bool) -> String {
        if self.html {
            let lines = WHO.map(|line| format!(" {}<br>\n", text::escaped(line))).concat();
            return format!("<p>\n{lines}</p>\n<p>\n");
        }
        let proxy = self.request_options.proxy.as_ref().map(|proxy| format!("[through {proxy}] ")).unwrap_or_default();
        let end = if tells { "" } else { "..." };
        format!("{}\n\nBenchmarking {} {proxy}(be patient){end}", WHO.join("\n"), url.host)
    }
}

/// The name and version.
const WHO: [&str; 3] = [
    concat!("This is ApacheBench, Version 2.3 <tsubame-lab ", env!("CARGO_PKG_VERSION"), ">"),
    "The load generator of Tsubame, with the options and the text of ab",
    "https://httpd.apache.org/docs/2.4/programs/ab.html",
];

/// Completed requests: if the server only closes the connection, ab counts that as a response, and also what -r forgives.
fn completed(record: &Record) -> u64 {
    record.responses + record.failures.read + forgiven(&record.failures)
}

/// Connections that could not be made or were reset: to ab, they are responses that could not be received.
fn forgiven(failures: &Failures) -> u64 {
    failures.refused + failures.connect + failures.reset
}

/// Bad responses: connections that failed, truncated responses, other lengths, the rest.
fn failures(options: &AbOptions, record: &Record) -> [u64; 4] {
    let failures = &record.failures;
    let connect = failures.no_descriptor + failures.no_port + failures.tls;
    let length = if options.any_length { 0 } else { record.other_length };
    [connect, forgiven(failures) + failures.malformed, length, failures.write + failures.timeout]
}
