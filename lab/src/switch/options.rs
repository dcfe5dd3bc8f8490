//! The command line of `switch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::since::Since;

/// The exit status if there are findings that `--fail-on` names.
pub(crate) const DIFFERENT: u8 = 3;

/// The options of `switch`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SwitchOptions {
    /// The configuration of the live server
    #[arg(short = 'f', long = "file", value_name = "FILE", default_value = "/etc/apache2/apache2.conf")]
    pub(crate) file: PathBuf,

    /// A name for <IfDefine>, as the live server has it
    #[arg(short = 'D', value_name = "NAME")]
    pub(crate) defines: Vec<String>,

    /// Where requests come from
    #[arg(long = "from", value_name = "SOURCE", value_delimiter = ',', default_values = ["logs", "configuration", "files"])]
    pub(crate) sources: Vec<Source>,

    /// An access log, instead of those that the configuration names; its rotated and compressed siblings belong to it
    #[arg(long = "log", value_name = "FILE")]
    pub(crate) logs: Vec<PathBuf>,

    /// The host that the logs of --log are about, where their lines name none [default: the first host at port 80]
    #[arg(long, value_name = "NAME", requires = "logs")]
    pub(crate) host: Option<String>,

    /// Also the requests in a file: HAR, as browsers save it, or lines of curl
    #[arg(long, value_name = "FILE")]
    pub(crate) requests: Vec<PathBuf>,

    /// A user for pages that want one; without any, they are asked only as a stranger
    #[arg(long, value_name = "NAME:PASSWORD", value_parser = user)]
    pub(crate) user: Option<String>,

    /// Ask this many different requests at most, the most frequent ones first
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,

    /// Send every line of the logs, in their order, so many times as fast as they came: 1 is their own pace
    #[arg(long, value_name = "TIMES", value_parser = speed)]
    pub(crate) speed: Option<f64>,

    /// Run scripts and ask backends, too: each request runs them twice, or more often where answers differ. As root each server has
    /// a copy of all files, in memory; databases and backends are the real ones
    #[arg(long)]
    pub(crate) scripts: bool,

    /// Send methods that can change something, too: only as root, because each server needs a copy of all files
    #[arg(long = "unsafe", conflicts_with = "in_place")]
    pub(crate) allows_unsafe: bool,

    /// Let scripts write where they are, without copies
    #[arg(long)]
    pub(crate) in_place: bool,

    /// How long a server may take to answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,

    /// Measure the cost of the logs' requests in this many rounds; 0 leaves that out
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) rounds: u32,

    /// Which differences make the exit status 3
    #[arg(long, value_name = "WHICH", default_value = "unexplained")]
    pub(crate) fail_on: FailOn,

    /// The Apache to compare with [default: apache2 or httpd, as installed]
    #[arg(long, value_name = "PATH")]
    pub(crate) apache: Option<PathBuf>,

    /// The tsubame to compare [default: as in `run http`, or the installed one]
    #[arg(long, value_name = "PATH")]
    pub(crate) tsubame: Option<PathBuf>,

    /// After the switch: compare the access logs since then with those before, and name what changed beyond chance
    #[arg(long, conflicts_with_all = [
        "sources", "requests", "user", "limit", "speed", "scripts", "allows_unsafe", "in_place", "timeout", "rounds", "fail_on", "tsubame"
    ])]
    pub(crate) watch: bool,

    /// When Tsubame took over: 2026-11-30T22:15, 22:15 (today) or 2h (ago) [default: the start of the running tsubame]
    #[arg(long, value_name = "TIME", requires = "watch")]
    pub(crate) since: Option<Since>,

    /// Compare this many hours since the switch, or what has passed of them
    #[arg(long, value_name = "N", default_value_t = 1, requires = "watch", value_parser = clap::value_parser!(u32).range(1..=24))]
    pub(crate) hours: u32,

    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report for a browser to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

impl SwitchOptions {
    /// Whether the servers write to copies of the files. A plain user's scripts write where that user may, unless something is
    /// sent that is meant to change files.
    pub(crate) fn has_copies(&self) -> bool {
        let is_root = rustix::process::geteuid().is_root();
        self.allows_unsafe || (self.scripts && !self.in_place && is_root)
    }
}

/// Which findings make a run fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Those that the list of differences does not name
    Unexplained,
    /// All
    Any,
    /// None
    Never,
}

/// Where requests come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// What clients asked, from access logs
    Logs,
    /// What each line of the configuration is about, and what just misses that line
    Configuration,
    /// One file of each kind, in all forms
    Files,
}

fn speed(text: &str) -> std::result::Result<f64, String> {
    text.parse()
        .ok()
        .filter(|times| (0.001..=1e6).contains(times))
        .ok_or_else(|| "a number from 0.001 to 1000000".to_owned())
}

fn user(text: &str) -> std::result::Result<String, String> {
    let has_both = text.split_once(':').is_some_and(|(name, _)| !name.is_empty());
    has_both.then(|| text.to_owned()).ok_or_else(|| "a name, a colon, and a password".to_owned())
}
