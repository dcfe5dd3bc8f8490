//! `tsubame-lab load`: the generator's own command line and output.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::machine::duration::duration;
use crate::machine::error::{Error, Result, write_file};

mod csv;
mod doubt;
pub(crate) mod json;
mod knee;
mod limit;
pub(crate) mod options;
mod page;
mod picture;
pub(crate) mod scenario;
mod text;
mod tls_options;
mod values;
mod verdict;
mod view;

pub(crate) use doubt::doubts;
pub(crate) use options::LoadOptions;

/// The options of `load`.
#[derive(Args, Clone, Debug)]
#[command(after_help = after_help())]
pub(crate) struct LoadCommand {
    #[command(flatten)]
    load: LoadOptions,

    /// Find the highest rate at which the server answers in time: several open loops of 3 s, or of --duration
    #[arg(long, conflicts_with_all = ["rate", "requests", "think", "csv", "scenario"])]
    find_rate: bool,

    /// "In time" means that 99 of 100 responses take at most this long
    #[arg(long, value_name = "TIME", requires = "find_rate", default_value = "100ms", value_parser = duration)]
    p99: Duration,

    /// Fail, with exit status 99, if a figure is beyond a limit; may be given more than once. Figures: p50, p99.9, mean, max, rps,
    /// errors, 5xx; errors and 5xx also as a share (`errors > 0.1%`)
    #[arg(long, value_name = "CONDITION", conflicts_with = "find_rate", value_parser = limit::Limit::parse)]
    fail_if: Vec<limit::Limit>,

    /// Write a report for a browser to a file: the verdict in a sentence, then figures, plots, doubts and the command line
    #[arg(long, value_name = "FILE", conflicts_with = "find_rate")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tsubame-lab load http://localhost:8080/ -c 100 -d 30s          a closed loop: as many as are answered
  tsubame-lab load http://localhost:8080/ -c 100 -d 30s -r 5000  an open loop: 5 000 a second
  tsubame-lab load http://localhost:8080/ -c 100 --find-rate --p99 20ms
  tsubame-lab load http://localhost:8080/ -n 100000 --close --json | jq .latency.percentiles_us
  tsubame-lab load http://localhost:8080/ -c 50 --fail-if 'p99 > 50ms' --fail-if 'errors > 0' --html load.html
  tsubame-lab load http://localhost:8080/ -c 50 -d 30s --scenario shop.txt
  tsubame-lab load https://localhost:8443/ --close --no-resume   full handshakes of TLS
  tsubame-lab load https://localhost:8443/ -c 10 --http2 -m 100  HTTP/2, 100 streams over each connection

Letters of other generators: -c and -H are those of hey, oha, wrk and h2load; -n is that of hey, oha and h2load; -t and -d those of wrk,
-R that of wrk2; -z, -m and -T those of hey and oha; -q is that of oha (hey's is for each connection, here it is for all); -m with a
number is that of h2load. To hey and oha -d is a body and -t a time limit: here these are --body and --timeout.";

/// The lines of a scenario, and examples.
fn after_help() -> String {
    let lines = scenario::LINES.map(|(line, meaning)| format!("  {line:<33} {meaning}\n")).concat();
    format!("Lines of a scenario:\n{lines}\n{}\n\n{EXAMPLES}", scenario::RULES)
}

/// Runs `tsubame-lab load`.
pub(crate) fn run(command: &LoadCommand) -> Result<()> {
    let options = &command.load;
    if command.find_rate {
        return knee::find(options, command.p99);
    }
    let plan = options.plan(&options.urls)?;
    options.warm_up(&plan)?;
    let record = view::run(&plan)?;
    match options.json {
        true => say_line!("{}", json::written(&plan, &record)?),
        false if std::io::stdout().is_terminal() => say!("{}", text::drawn(&options.urls, &plan, &record)),
        false => say!("{}", text::written(&options.urls, &plan, &record)),
    }
    if let Some(path) = &options.csv {
        write_file(path, csv::written(&record)?)?;
    }
    if let Some(path) = &command.html {
        write_file(path, page::written(&options.urls, &plan, &record, &command.fail_if))?;
    }
    match record.responses {
        0 => Err(Error::new("no request was answered")),
        _ => limit::check(&command.fail_if, &record),
    }
}
