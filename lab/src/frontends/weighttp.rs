//! `weighttp`: the command line and output of weighttp 0.4 (<https://redmine.lighttpd.net/projects/weighttp/wiki>), as
//! shown in the article that `run cgi-mpm` repeats, and the options and the JSON of 0.5.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::Args;

use super::request_options::RequestOptions;
use crate::load::request_builder::RequestBuilder;
use crate::load::tls::Tls;
use crate::load::url::Url;
use crate::load::{self, Live, Plan, Record};
use crate::machine::error::{Error, Result};

mod json;

/// weighttp's options.
#[derive(Args, Clone, Debug)]
#[command(version, display_name = "weighttp", disable_version_flag = true, disable_help_flag = true, after_help = VERSIONS)]
pub(crate) struct WeighttpOptions {
    /// The URL to request
    url: String,

    /// Number of requests
    #[arg(short = 'n', value_name = "NUM", value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,

    /// Threads that share the requests
    #[arg(short = 't', value_name = "NUM", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,

    /// Clients at a time
    #[arg(short = 'c', value_name = "NUM", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,

    /// Keep connections (keep-alive)
    #[arg(short = 'k')]
    keep: bool,

    /// Use IPv6
    #[arg(short = '6')]
    six: bool,

    #[command(flatten)]
    request_options: RequestOptions,

    #[command(flatten)]
    new_options: NewOptions,

    /// Print the version
    #[arg(short = 'v', visible_short_alias = 'V', action = clap::ArgAction::Version)]
    version: Option<bool>,

    /// Print this help
    #[arg(short = 'h', long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

const VERSIONS: &str = "\
The text is that of weighttp 0.4. With --json, or any option that only 0.5 has (-K -i -m -p -u -T -C -A -P -X -B -b -q -d -l -r -S),
the results are the JSON of 0.5; -q or --json leaves out everything else.

Examples:
  weighttp -n 100000 -c 100 -t 2 -k localhost:8080/
  weighttp -n 100000 -c 100 -K 16 --json localhost:8080/ | jq .response_times";

/// Options that weighttp has had since 0.5.
#[derive(Args, Clone, Debug, Default, PartialEq)]
struct NewOptions {
    /// Print the results as JSON, and nothing else
    #[arg(long)]
    json: bool,

    /// Requests in progress at a time on each connection; from 2 on connections are kept
    #[arg(short = 'K', value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..))]
    pipeline: Option<u32>,

    /// The local addresses to use, in turn
    #[arg(short = 'B', value_name = "IP,IP", value_delimiter = ',')]
    sources: Vec<IpAddr>,

    /// Accepted, and left to the kernel: the size of socket buffers
    #[arg(short = 'b', value_name = "BYTES")]
    window: Option<u32>,

    /// Do not show progress
    #[arg(short = 'q')]
    quiet: bool,

    // These are ab's, and weighttp ignores them too.
    #[arg(short = 'd', hide = true)]
    d: bool,
    #[arg(short = 'l', hide = true)]
    l: bool,
    #[arg(short = 'r', hide = true)]
    r: bool,
    #[arg(short = 'S', hide = true)]
    s: bool,

    // These are not supported.
    #[arg(short = 'F', hide = true)]
    fast_open: bool,
    #[arg(short = 'a', hide = true, value_name = "SECONDS")]
    seconds: Option<String>,
    #[arg(short = 's', hide = true, value_name = "SECONDS")]
    cutoff: Option<String>,
    #[arg(short = 'e', hide = true, value_name = "FILE")]
    csv: Option<String>,
}

impl NewOptions {
    /// The first option that weighttp has and this does not.
    fn absent(&self) -> Option<&'static str> {
        let options = [
            ("-F", self.fast_open),
            ("-a", self.seconds.is_some()),
            ("-s", self.cutoff.is_some()),
            ("-e", self.csv.is_some()),
        ];
        options.into_iter().find(|(_, is_there)| *is_there).map(|(name, _)| name)
    }
}

/// Runs `tsubame-lab weighttp`.
pub(crate) fn run(options: &WeighttpOptions) -> Result<()> {
    let is_new = options.is_new();
    let plan = options.plan()?;
    let says = !options.new_options.json && !options.new_options.quiet;
    if says {
        say!("{}", options.banner(&plan));
    }
    let mut told = 0;
    let mut tell = |done: u64| {
        while told < 10 && u128::from(done) * 10 >= u128::from(options.requests) * (told + 1) {
            told += 1;
            if says {
                say_line!("progress: {:>3}% done", told * 10);
            }
        }
    };
    let record = load::run(&plan, &Live::default(), |live| {
        tell(live.responses.load(Relaxed) + live.failures.load(Relaxed));
    })?;
    tell(record.asked());
    match is_new {
        true => say_line!("{}", json::written(options.requests, &record)?),
        false => say!("{}", text(options.requests, &record)),
    }
    Ok(())
}

/// The four lines of the results.
fn text(requests: u64, record: &Record) -> String {
    let micros = record.elapsed.as_micros().max(1);
    let (good, [_, _, two, three, four, five]) = (record.classes[2], record.classes);
    let [per_second, kilobytes] = rates(record);
    format!(
        "\nfinished in {} sec, {} millisec and {} microsec, {per_second} req/s, {kilobytes} kbyte/s\n\
         requests: {requests} total, {} started, {} done, {good} succeeded, {} failed, {} errored\n\
         status codes: {two} 2xx, {three} 3xx, {four} 4xx, {five} 5xx\n\
         traffic: {} bytes total, {} bytes http, {} bytes data\n",
        micros / 1_000_000,
        micros / 1000 % 1000,
        micros % 1000,
        record.asked(),
        record.asked(),
        record.responses - good,
        record.failures.total(),
        record.received(),
        record.head + record.framing,
        record.body,
    )
}

/// Responses, and kilobytes of them, per second.
fn rates(record: &Record) -> [u64; 2] {
    let seconds = record.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    [record.responses as f64, record.received() as f64 / 1024.0].map(|all| (all / seconds) as u64)
}

impl WeighttpOptions {
    /// Whether this is for 0.5: 0.4 lacks some of these options.
    fn is_new(&self) -> bool {
        self.new_options != NewOptions::default() || self.request_options.is_more_than_fields()
    }

    /// The text above everything else.
    fn banner(&self, plan: &Plan) -> String {
        let threads: String = plan
            .shares()
            .iter()
            .map(|share| {
                let (number, requests) = (share.thread + 1, share.count.unwrap_or_default());
                let clients = share.clients;
                format!("spawning thread #{number}: {clients} concurrent requests, {requests} total requests\n")
            })
            .collect();
        const WHAT: &str = "a lightweight and simple webserver benchmarking tool";
        match self.is_new() {
            true => format!("\nweighttp 0.5 - {WHAT}\n\n{threads}starting benchmark...\n"),
            false => format!("weighttp - {WHAT}\n\nstarting benchmark...\n{threads}"),
        }
    }

    fn plan(&self) -> Result<Plan> {
        if let Some(absent) = self.new_options.absent() {
            return Err(Error::new(format!("{absent} is not supported"))
                .advise("use weighttp itself, or `tsubame-lab load`, which has other options"));
        }
        let url = Url::parse(&self.url)?;
        if u64::from(self.clients) > self.requests {
            return Err(Error::new("there are more clients than requests").advise("a larger -n or a smaller -c"));
        }
        let pipeline = self.new_options.pipeline.unwrap_or(1) as usize;
        let keeps = self.keep || pipeline > 1;
        let manner = RequestBuilder {
            method: "GET",
            minor: 1,
            fields: &[],
            body: &[],
            content_type: "",
            tells_host: true,
            agent: Some(if self.is_new() { "weighttp/0.5" } else { "weighttp/0.4" }),
            accepts_all: false,
            connection: Some(if keeps { "keep-alive" } else { "close" }),
        };
        let (request, server) = self.request_options.request(&url, self.six, 1, manner)?;
        Ok(Plan {
            sources: self.new_options.sources.clone(),
            clients: self.clients as usize,
            calls: (!keeps).then_some(1),
            pipeline,
            threads: self.threads as usize,
            count: Some(self.requests),
            tls: url.is_secure.then(|| Tls::to(&url.host)),
            timeout: Duration::from_secs(3600),
            ..Plan::of(server, vec![request])
        })
    }
}
