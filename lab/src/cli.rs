//! The command line: the commands, and the help that teaches them.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::compare::CompareOptions;
use crate::count::CountOptions;
use crate::doctor::DoctorOptions;
use crate::experiments::experiment::{self, Experiment};
use crate::fleet::FleetOptions;
use crate::frontends::ab::{self, AbOptions};
use crate::frontends::httperf::HttperfOptions;
use crate::frontends::load::LoadCommand;
use crate::frontends::weighttp::WeighttpOptions;
use crate::machine::launch::LaunchOptions;
use crate::measure::floor::options::FloorOptions;
use crate::report::ReportOptions;
use crate::run::RunOptions;
use crate::simulate::SimulateOptions;
use crate::switch::SwitchOptions;
use crate::tune::TuneOptions;
use crate::tune::advise::AdviseOptions;
use crate::watch::stat::StatOptions;
use crate::watch::top::TopOptions;

/// The laboratory of Tsubame: measures web servers side by side, on your machine.
///
/// Every figure is a ratio between servers that were measured in turn in the same run; the unit is requests per
/// CPU-second of the server, which a noisy machine disturbs least. Every table has a floor (a bare epoll loop that
/// answers without reading): what the kernel alone costs one such loop.
#[derive(Parser)]
#[command(name = "tsubame-lab", version, after_help = FIRST_STEPS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The tools whose command lines we understand, also under their own names.
const FRONTENDS: [&str; 4] = ["ab", "weighttp", "httperf", "dstat"];

/// Reads the command line of a program that may have been called by the name of such a tool: `ab -n 10 URL` is
/// `tsubame-lab ab -n 10 URL`.
///
/// # Errors
/// The command line is wrong, or only asks for help; together with the exit status.
pub(crate) fn read(arguments: impl Iterator<Item = OsString>) -> Result<Cli, (clap::Error, u8)> {
    let all: Vec<OsString> = arguments.collect();
    let name = all.first().and_then(|program| Path::new(program).file_name()).and_then(OsStr::to_str);
    let is_frontend = FRONTENDS.into_iter().any(|frontend| Some(frontend) == name);
    let is_ab = if is_frontend { name == Some("ab") } else { all.get(1).is_some_and(|first| first == "ab") };
    let read = || {
        let matches = Cli::command().multicall(is_frontend).try_get_matches_from(&all)?;
        let mut cli = Cli::from_arg_matches(&matches)?;
        if let (Command::Ab(options), Some((_, given))) = (&mut cli.command, matches.subcommand()) {
            options.note_order(given);
        }
        Ok(cli)
    };
    read().map_err(|error: clap::Error| {
        let status =
            if is_ab && error.use_stderr() { ab::MISUSED } else { u8::try_from(error.exit_code()).unwrap_or(2) };
        (error, status)
    })
}

const FIRST_STEPS: &str = "\
First steps:
  tsubame-lab switch                       does Tsubame answer as your Apache does? (docs/switch.md)
  tsubame-lab doctor                       what is installed here, what is missing
  tsubame-lab run http --quick             one short round of everything: a look, not a result
  tsubame-lab run http --out bench         the real thing, with raw data and bench/report.md
  tsubame-lab run mpm --out bench-mpm      the same for the multi-processing modules
  tsubame-lab run tls --out bench-tls      the same for TLS and HTTP/2
  tsubame-lab run proxies --out bench-proxies  requests that are passed on, stored and balanced
  tsubame-lab run many-hosts --out bench-many  hosts, maps, redirects and certificates by the thousand
  tsubame-lab run cgi --out bench-cgi      the same for CGI scripts
  tsubame-lab run perl --out bench-perl    the same for Perl that stays in memory
  tsubame-lab run memory --out bench-mem   scripts that need more memory than there is (as root)
  tsubame-lab run fleet --out bench-fleet  three machines behind HAProxy, and their failures (as root)
  tsubame-lab run seeds --out bench-seeds  the published experiments that Tsubame began with
  tsubame-lab list                         the subjects and workloads by name";

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run an experiment
    #[command(subcommand)]
    Run(ExperimentCommand),
    /// Send requests to a URL, and show how it answers
    Load(Box<LoadCommand>),
    /// Load two URLs, or servers with two configurations, in turn, and show which answers better, and by how much
    Compare(Box<CompareOptions>),
    /// Prove, before the switch, that Tsubame answers as Apache does: on your configuration, files and logs
    Switch(Box<SwitchOptions>),
    /// Count the instructions, allocations and system calls of a request, under valgrind
    Count(CountOptions),
    /// Recommend how many workers a running server should have, from its status page and its memory, without any load
    Advise(Box<AdviseOptions>),
    /// Search for the process and thread settings that answer a load best, and prove that they do
    Tune(Box<TuneOptions>),
    /// Simulate a fleet of nodes behind a balancer: how many machines a load needs, and what happens when one fails
    Simulate(Box<SimulateOptions>),
    /// `load` with ApacheBench's options and output
    Ab(Box<AbOptions>),
    /// `load` with weighttp's options, the text of 0.4 and the JSON of 0.5
    Weighttp(Box<WeighttpOptions>),
    /// `load` with the options and output of httperf 0.9
    Httperf(Box<HttperfOptions>),
    /// Watch the machine: processors, memory, swap, disks, networks, in the columns of dstat
    #[command(visible_alias = "dstat")]
    Stat(Box<StatOptions>),
    /// Watch a server and its machine: cores, memory, pressure, workers, processes, and the latency of a running load
    Top(Box<TopOptions>),
    /// Write report.html, report.md and setup.txt again from the results.json of an earlier run
    Report(ReportOptions),
    /// Show which servers, tools and kernel controllers are available, and how to get those that are missing
    Doctor(DoctorOptions),
    /// List subjects, workloads and targets
    List,
    /// Print the manual page
    #[command(hide = true)]
    Man,
    /// Write completion of this command line for a shell: bash, zsh, fish
    Completions(CompletionsOptions),
    /// Serve the floor: a fixed response to any request
    #[command(hide = true)]
    Floor(FloorOptions),
    /// Do a part of a load that is too large for one process
    #[command(hide = true)]
    LoadCopy,
    /// Hold a part of the connections that are too many for one process
    #[command(hide = true)]
    IdleCopy,
    /// Enter a control group, a core and limits, then become another program
    #[command(hide = true)]
    Launch(LaunchOptions),
}

/// The options of `completions`.
#[derive(Args)]
pub(crate) struct CompletionsOptions {
    /// The shell
    shell: clap_complete::Shell,
}

impl CompletionsOptions {
    /// The completion, for standard output.
    pub(crate) fn text(&self) -> String {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tsubame-lab", &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// The experiments of `run`.
#[derive(Subcommand)]
pub(crate) enum ExperimentCommand {
    /// Static files over HTTP/1.1: speed, memory and behaviour under many connections
    ///
    /// Each server gets one core, the load generator another. Rounds alternate: every server is measured
    /// once before the first is measured again, and the median of the rounds counts.
    #[command(after_help = HTTP_EXAMPLES)]
    Http(RunOptions),
    /// Multi-processing modules beside Apache's of the same name: at a fixed rate, while children are replaced, in a crowd
    ///
    /// At a fixed rate the laboratory's own generator sends, on a constant schedule that does not wait for responses;
    /// latencies count from the moment at which a request was due.
    #[command(after_help = MPM_EXAMPLES)]
    Mpm(RunOptions),
    /// TLS and HTTP/2: handshakes, files, streams and idle connections, beside nginx, h2o, lighttpd, caddy and Apache
    ///
    /// Each server gets one core, the load generator another. All show the same certificate, and compute the same: TLS 1.3,
    /// X25519, AES with 128 bits.
    #[command(after_help = TLS_EXAMPLES)]
    Tls(RunOptions),
    /// Proxies: requests passed on, over TLS and HTTP/2, stored, and balanced while origins fail, beside nginx, HAProxy, h2o,
    /// Varnish, caddy and Apache
    ///
    /// Each server gets one core, the load generator and the origins (nginx) another. The origins' CPU time is not the
    /// server's.
    #[command(after_help = PROXIES_EXAMPLES)]
    Proxies(RunOptions),
    /// Large configurations: hosts, rewrite maps, redirects and certificates by the thousand, beside nginx and Apache
    ///
    /// Each server gets one core, the load generator another. For each size: the time to the first response, memory, and requests per
    /// CPU-second.
    #[command(after_help = MANY_HOSTS_EXAMPLES)]
    ManyHosts(RunOptions),
    /// CGI scripts: what it costs to run one, in C and Perl, beside Apache, lighttpd and a bare spawn loop
    ///
    /// Server and scripts have all cores, and their CPU time counts together, including that of every script, however
    /// short its life. Each request has a connection of its own.
    #[command(after_help = CGI_EXAMPLES)]
    Cgi(RunOptions),
    /// Perl that stays in memory: one application as CGI, FastCGI, SpeedyCGI, Registry and more, beside mod_perl2 and mod_fcgid
    ///
    /// Server and interpreters have all cores, and their CPU time counts together. Each request has a connection of
    /// its own.
    #[command(after_help = PERL_EXAMPLES)]
    Perl(RunOptions),
    /// Scripts that need more memory than there is, and requests for files meanwhile
    ///
    /// Server and scripts live in a memory control group of 1 GB, on one core; clients have the other. No configuration
    /// says how many scripts may run, except for one Apache that is tuned by hand.
    #[command(after_help = MEMORY_EXAMPLES)]
    Memory(RunOptions),
    /// Three machines that serve as one: how much they do together, and what clients notice when one of them fails
    ///
    /// Each machine is a tsubame in a network namespace and a control group of its own (1 GB, part of a processor), behind
    /// HAProxy. Scripts of 200 MB limit how much a machine can do.
    #[command(after_help = FLEET_EXAMPLES)]
    Fleet(FleetOptions),
    /// CGI under prefork, worker and event, with 300 and 1 000 clients
    CgiMpm(RunOptions),
    /// event beside nginx, under settings that were once published
    EventVsNginx(RunOptions),
    /// Requests per second against the number of connections, from 1 to 20 000
    Concurrency(RunOptions),
    /// event beside worker, at a fixed rate and at full speed
    EventVsWorker(RunOptions),
    /// The cost of replacing children
    Recycling(RunOptions),
    /// The published experiments that inspired Tsubame, one after the other: cgi-mpm, memory, event-vs-nginx,
    /// concurrency, perl, event-vs-worker, recycling
    #[command(after_help = SEEDS_EXAMPLES)]
    Seeds(RunOptions),
}

/// What `run` has to do.
pub(crate) enum Parts<'a> {
    /// To take the measurements of these experiments' tables.
    Tables(Vec<&'static Experiment>, &'a RunOptions),
    /// To build a fleet.
    Fleet(&'a FleetOptions),
}

impl ExperimentCommand {
    /// The experiments to run, and how.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let (one, options) = match self {
            Self::Http(options) => (&experiment::HTTP, options),
            Self::Mpm(options) => (&experiment::MPM, options),
            Self::Tls(options) => (&experiment::TLS, options),
            Self::Proxies(options) => (&experiment::PROXIES, options),
            Self::ManyHosts(options) => (&experiment::MANY_HOSTS, options),
            Self::Cgi(options) => (&experiment::CGI, options),
            Self::Perl(options) => (&experiment::PERL, options),
            Self::Memory(options) => (&experiment::MEMORY, options),
            Self::CgiMpm(options) => (&experiment::CGI_MPM, options),
            Self::EventVsNginx(options) => (&experiment::EVENT_VS_NGINX, options),
            Self::Concurrency(options) => (&experiment::CONCURRENCY, options),
            Self::EventVsWorker(options) => (&experiment::EVENT_VS_WORKER, options),
            Self::Recycling(options) => (&experiment::RECYCLING, options),
            Self::Seeds(options) => return Parts::Tables(experiment::SEEDS.to_vec(), options),
            Self::Fleet(options) => return Parts::Fleet(options),
        };
        Parts::Tables(vec![one], options)
    }
}

const SEEDS_EXAMPLES: &str = "\
Examples:
  tsubame-lab run seeds --quick
  tsubame-lab run seeds --out DIR            # DIR/cgi-mpm, DIR/memory, ...; again, if it was interrupted
  tsubame-lab run seeds --workloads cgi-mpm,event-small --out DIR

Everything takes several hours, --quick most of one. Let nothing else run meanwhile.";

const HTTP_EXAMPLES: &str = "\
Examples:
  tsubame-lab run http --workloads keepalive,close --subjects tsubame-percore,h2o,nginx
  tsubame-lab run http --rounds 5 --seconds 8 --out docs/benchmarks/raw
  tsubame-lab run http --quick --json | jq '.samples[] | {subject, workload}'

Everything takes about half an hour, --quick about five minutes. Let nothing else run meanwhile.
An interrupted run keeps what it measured (--out); the same command goes on where it ended.";

const MPM_EXAMPLES: &str = "\
Examples:
  tsubame-lab run mpm --workloads rate,recycle --subjects tsubame-event,apache-event
  tsubame-lab run mpm --rounds 3 --seconds 10 --out DIR

Everything takes about three quarters of an hour, --quick about ten minutes, most of it for sweep002.
Let nothing else run meanwhile.";

const TLS_EXAMPLES: &str = "\
Examples:
  tsubame-lab run tls --workloads tls-full,tls-resumed --subjects tsubame-percore,nginx,h2o
  tsubame-lab run tls --rounds 3 --seconds 8 --out DIR

Everything takes about half an hour, --quick about five minutes. Let nothing else run meanwhile.";

const PROXIES_EXAMPLES: &str = "\
Examples:
  tsubame-lab run proxies --workloads proxy-small,proxy-stored --subjects tsubame-percore,nginx,varnish
  tsubame-lab run proxies --workloads proxy-killed,proxy-halted --rounds 3 --seconds 10 --out DIR

Everything takes about 25 minutes, --quick about four. Let nothing else run meanwhile.
It needs nginx, which is the origin. Servers that are not here are listed under \"Not measured\".";

const MANY_HOSTS_EXAMPLES: &str = "\
Examples:
  tsubame-lab run many-hosts --workloads maps,redirects --subjects tsubame-percore,nginx
  tsubame-lab run many-hosts --rounds 3 --seconds 1 --out DIR

Everything takes about 20 minutes, --quick about four. Let nothing else run meanwhile.";

const CGI_EXAMPLES: &str = "\
Examples:
  tsubame-lab run cgi --workloads cgi-static --subjects tsubame-percore,apache-prefork,lighttpd
  tsubame-lab run cgi --rounds 3 --seconds 8 --out DIR

Everything takes about 25 minutes, --quick about six. Let nothing else run meanwhile.
The C scripts are compiled here (gcc); scripts that cannot be compiled are listed under \"Not measured\".";

const PERL_EXAMPLES: &str = "\
Examples:
  tsubame-lab run perl --subjects tsubame-percore,apache-prefork
  tsubame-lab run perl --rounds 3 --seconds 8 --out DIR

Everything takes about a quarter of an hour, --quick about six minutes. Let nothing else run meanwhile.
It needs CGI.pm and, for FastCGI, CGI::Fast (libcgi-pm-perl libcgi-fast-perl); Apache is measured with
libapache2-mod-perl2 and libapache2-mod-fcgid. What is missing is listed under \"Not measured\".";

const MEMORY_EXAMPLES: &str = "\
Examples:
  tsubame-lab run memory --workloads memory-10,memory-100
  tsubame-lab run memory --rounds 3 --seconds 10 --subjects tsubame-event,apache-prefork --out DIR

Everything takes about three quarters of an hour, --quick about five minutes. Run it as root; it needs gcc.
It uses the machine's swap. To add some, as on a small server:
  fallocate -l 4G FILE && chmod 600 FILE && mkswap FILE && swapon FILE       (and swapoff FILE afterwards)";

const FLEET_EXAMPLES: &str = "\
Examples:
  tsubame-lab run fleet --only one,equal-roundrobin,equal-roundrobin-agent
  tsubame-lab run fleet --only killed,frozen,drained --rounds 1 --out DIR

Everything takes about 25 minutes, --quick about three. Let nothing else run meanwhile.
Run it as root; it needs haproxy, iproute2 and gcc. The machine's own network is not touched.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn all_experiments_take_the_same_options() {
        for name in experiment::EXPERIMENTS.map(|experiment| experiment.id).into_iter().chain(["seeds"]) {
            let asked = ["lab", "run", name, "--quick", "--rounds", "2", "--seconds", "3", "--json"];
            let Ok(Cli { command: Command::Run(experiment) }) = Cli::try_parse_from(asked) else { panic!("{name}") };
            let Parts::Tables(experiments, _) = experiment.parts() else { panic!("{name}") };
            assert!(name == "seeds" || matches!(experiments[..], [one] if one.id == name), "{name}");
        }
    }

    #[test]
    fn tools_are_known_by_their_names() {
        let read = |line: &str| read(line.split(' ').map(OsString::from));
        for line in ["/usr/local/bin/ab -n1 x", "tsubame-lab ab -n1 x", "ab -kn100 -c4 -H a:b -H c:d x"] {
            assert!(read(line).is_ok_and(|cli| matches!(cli.command, Command::Ab(_))), "{line}");
        }
        assert!(read("/x/dstat -c").is_ok_and(|cli| matches!(cli.command, Command::Stat(_))));
        let help = |line: &str| read(line).err().map(|(error, status)| (error.to_string(), status)).unwrap();
        for (line, usage, status) in [
            ("ab --help", "Usage: ab [OPTIONS] [URL]", 0),
            ("tsubame-lab ab --help", "Usage: tsubame-lab ab [OPTIONS] [URL]", 0),
            ("/usr/bin/httperf --help", "Usage: httperf [OPTIONS]", 0),
            ("httperf -V", "httperf 0.9.0", 0),
            ("tsubame-lab weighttp -v", "weighttp ", 0),
            ("ab -n", "a value is required", 22),
            ("httperf --nonsense", "unexpected argument", 2),
        ] {
            let (text, found) = help(line);
            assert!(text.contains(usage) && found == status, "{line}: {found} {text}");
        }
    }

    #[test]
    fn lists_are_split_at_commas() {
        let cli = Cli::try_parse_from(["lab", "run", "http", "--subjects", "a,b"]).unwrap();
        let Command::Run(ExperimentCommand::Http(options)) = cli.command else {
            panic!("run http was not recognised");
        };
        assert_eq!(options.subjects, ["a", "b"]);
    }
}
