//! `weighttp`: the command line and the text of weighttp 0.4 (<https://redmine.lighttpd.net/projects/weighttp/wiki>), which the
//! first seed shows.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::Args;

use crate::error::{Error, Result};
use crate::load::build::Build;
use crate::load::url::Url;
use crate::load::{self, Live, Plan, Record, target};

/// weighttp's options.
#[derive(Args, Clone, Debug)]
#[command(version, disable_version_flag = true, disable_help_flag = true)]
pub(crate) struct WeighttpOptions {
    /// What to ask for
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

    /// A field of the request, as `Name: value`; may be given more than once
    #[arg(short = 'H', value_name = "FIELD")]
    fields: Vec<String>,

    /// Print the version
    #[arg(short = 'v', action = clap::ArgAction::Version)]
    version: Option<bool>,

    /// Print this help
    #[arg(short = 'h', long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    /// The host is not on this machine, and may be loaded all the same
    #[arg(long, value_name = "HOST")]
    i_own_this_target: Option<String>,
}

/// Runs `tsubame-lab weighttp`.
pub(crate) fn run(options: &WeighttpOptions) -> Result<()> {
    let plan = options.plan()?;
    say_line!("weighttp - a lightweight and simple webserver benchmarking tool\n");
    say_line!("starting benchmark...");
    for share in plan.shares() {
        let (number, requests) = (share.thread + 1, share.count.unwrap_or_default());
        say_line!("spawning thread #{number}: {} concurrent requests, {requests} total requests", share.clients);
    }
    let mut told = 0;
    let mut tell = |done: u64| {
        while told < 10 && u128::from(done) * 10 >= u128::from(options.requests) * (told + 1) {
            told += 1;
            say_line!("progress: {:>3}% done", told * 10);
        }
    };
    let record = load::run(&plan, &Live::default(), |live| {
        tell(live.answers.load(Relaxed) + live.failures.load(Relaxed));
    })?;
    tell(record.asked());
    say!("{}", text(options.requests, &record));
    Ok(())
}

/// The four lines of the results.
fn text(requests: u64, record: &Record) -> String {
    let micros = record.elapsed.as_micros().max(1);
    let seconds = record.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let (good, [_, _, two, three, four, five]) = (record.classes[2], record.classes);
    format!(
        "\nfinished in {} sec, {} millisec and {} microsec, {} req/s, {} kbyte/s\n\
         requests: {requests} total, {} started, {} done, {good} succeeded, {} failed, {} errored\n\
         status codes: {two} 2xx, {three} 3xx, {four} 4xx, {five} 5xx\n\
         traffic: {} bytes total, {} bytes http, {} bytes data\n",
        micros / 1_000_000,
        micros / 1000 % 1000,
        micros % 1000,
        (record.answers as f64 / seconds) as u64,
        (record.received() as f64 / 1024.0 / seconds) as u64,
        record.asked(),
        record.asked(),
        record.answers - good,
        record.failures.total(),
        record.received(),
        record.head + record.framing,
        record.body,
    )
}

impl WeighttpOptions {
    fn plan(&self) -> Result<Plan> {
        let url = Url::parse(&self.url)?;
        if u64::from(self.clients) > self.requests {
            return Err(Error::new("there are more clients than requests").advise("a larger -n or a smaller -c"));
        }
        let build = Build {
            method: "GET",
            minor: 1,
            fields: &self.fields,
            body: &[],
            content_type: "",
            agent: Some("weighttp/0.4"),
            accepts_all: false,
            connection: Some(if self.keep { "keep-alive" } else { "close" }),
        };
        let server = target::server(&url, self.six, self.i_own_this_target.as_deref())?;
        Ok(Plan {
            clients: self.clients as usize,
            calls: (!self.keep).then_some(1),
            threads: self.threads as usize,
            count: Some(self.requests),
            timeout: Duration::from_secs(3600),
            ..Plan::of(server, vec![build.of(&url)])
        })
    }
}
