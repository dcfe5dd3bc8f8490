//! The options of an application in mod_fastcgi's directives: one table for `FastCgiServer`, `FastCgiExternalServer`
//! and `FastCgiConfig`.

use std::time::Duration;

use conf::{Cmd, InArgument as _, Outcome, Refusal, Spot};
use gateway::owners::{Owner, RunAs};

use super::mod_suexec;

/// The default limit of an application's silence.
const IDLE: Duration = Duration::from_secs(30);
/// How long an idle one is kept.
const KILL_INTERVAL: Duration = Duration::from_secs(300);
/// The most of a class, and of all together.
const MAX_CLASS: u64 = 10;
const MAX: u64 = 50;

/// The directive that names an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApplicationDirective {
    Server,
    External,
    Dynamic,
}

/// An application, or all that start on demand.
#[derive(Clone, Debug)]
pub(super) struct Application {
    pub(super) processes: u64,
    pub(super) max: u64,
    pub(super) max_of_all: u64,
    pub(super) idle_timeout: Duration,
    pub(super) kill_interval: Duration,
    pub(super) wait: Duration,
    pub(super) environment: Vec<(String, String)>,
    pub(super) passed: Vec<String>,
    pub(super) nph: bool,
    /// Each piece of its output goes out at once.
    pub(super) flush: bool,
    /// By how much its nice value is above the server's (`-priority`).
    pub(super) nicer: u8,
    /// The user it runs as, if configured.
    user: Option<String>,
    group: Option<String>,
    /// `user` and `group` as numbers.
    pub(super) owner: Option<Owner>,
    /// Its address, if the server does not start it.
    pub(super) address: Option<Address>,
}

#[derive(Clone, Debug)]
pub(super) enum Address {
    Host(String),
    Socket(String),
}

impl Default for Application {
    fn default() -> Application {
        Application {
            processes: 1,
            max: MAX_CLASS,
            max_of_all: MAX,
            idle_timeout: IDLE,
            kill_interval: KILL_INTERVAL,
            wait: Duration::from_secs(60),
            environment: Vec::new(),
            passed: Vec::new(),
            nph: false,
            flush: false,
            nicer: 0,
            user: None,
            group: None,
            owner: None,
            address: None,
        }
    }
}

/// The effect of an option, and the directives that have it.
#[derive(Clone, Copy)]
enum Meaning {
    Number(fn(&mut Application, u64)),
    /// The option takes a value and has no effect here.
    Ignored,
    /// The option takes no value and has no effect here.
    IgnoredFlag,
    Text(fn(&Cmd<'_>, &mut Application, &str) -> Result<(), String>),
    Flag(fn(&mut Application)),
    Refused(&'static str),
}

use Meaning::{Ignored, IgnoredFlag, Number, Refused, Text};

const S: u8 = 1;
const E: u8 = 2;
const D: u8 = 4;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[rustfmt::skip]
const OPTIONS: &[(&str, u8, Meaning)] = &[
    ("-appConnTimeout", S | E | D, Number(|a, n| if n > 0 { a.wait = seconds(n) })),
    ("-autoUpdate", D, IgnoredFlag),
    ("-flush", S | E | D, Meaning::Flag(|a| a.flush = true)),
    ("-gainValue", D, Ignored),
    ("-group", S, Text(|_, a, v| { a.group = Some(v.to_string()); Ok(()) })),
    ("-group", E, Ignored),
    ("-host", E, Text(|_, a, v| host(v).map(|v| a.address = Some(Address::Host(v))))),
    ("-idle-timeout", S | E | D, Number(|a, n| a.idle_timeout = seconds(n))),
    ("-init-start-delay", S | D, Ignored),
    ("-initial-env", S | D, Text(initial_env)),
    ("-killInterval", D, Number(|a, n| a.kill_interval = seconds(n))),
    ("-listen-queue-depth", S | D, Ignored),
    ("-maxClassProcesses", D, Number(|a, n| a.max = n)),
    ("-maxProcesses", D, Number(|a, n| a.max_of_all = n)),
    ("-min-server-life", S | D, Ignored),
    ("-minProcesses", D, Ignored),
    ("-multiThreshold", D, Ignored),
    ("-multiThreshhold", D, Ignored),
    ("-nph", S | E | D, Meaning::Flag(|a| a.nph = true)),
    ("-pass-header", S | E | D, Text(|_, a, v| { a.passed.push(v.to_string()); Ok(()) })),
    ("-port", S, Refused("it is reached over a private socket; use FastCgiExternalServer for an application that listens itself")),
    ("-priority", S | D, Text(priority)),
    ("-processSlack", D, Ignored),
    ("-processes", S, Number(|a, n| a.processes = n.max(1))),
    ("-restart", D, IgnoredFlag),
    ("-restart-delay", S | D, Ignored),
    ("-singleThreshold", D, Ignored),
    ("-singleThreshhold", D, Ignored),
    ("-socket", E, Text(|_, a, v| { a.address = Some(Address::Socket(v.to_string())); Ok(()) })),
    ("-socket", S, Ignored),
    ("-startDelay", D, Ignored),
    ("-updateInterval", D, Ignored),
    ("-user", S, Text(|_, a, v| { a.user = Some(v.to_string()); Ok(()) })),
    ("-user", E, Ignored),
];

fn host(value: &str) -> Result<String, String> {
    match value.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(value.to_string()),
        _ => Err(format!("-host {value}: write host:port")),
    }
}

fn initial_env(cmd: &Cmd<'_>, application: &mut Application, value: &str) -> Result<(), String> {
    let (name, value) = match value.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => (value.to_string(), cmd.context.system.env(value).unwrap_or_default()),
    };
    application.environment.push((name, value));
    Ok(())
}

/// The largest nice value (nice(2)).
const NICER_MAX: u8 = 19;

fn priority(_: &Cmd<'_>, application: &mut Application, value: &str) -> Result<(), String> {
    application.nicer = match value.parse() {
        Ok(by @ 0..=NICER_MAX) => by,
        _ => return Err(format!("-priority {value}: write a number from 0 to {NICER_MAX}")),
    };
    Ok(())
}

/// The user an application runs as, if configured.
pub(super) fn run_as(cmd: &Cmd<'_>, application: &Application) -> Result<Option<RunAs>, Refusal> {
    match (&application.user, &application.group) {
        (None, None) => Ok(None),
        (Some(user), Some(group)) => match mod_suexec::run_as(cmd, user, group) {
            Ok(run_as) => Ok(Some(run_as)),
            // The numbers of the arguments are those of SuexecUserGroup.
            Err(refusal) => Err(refusal.at(Spot::From(1))),
        },
        _ => Err(format!("{}: -user and -group go together", cmd.node.name).into()),
    }
}

/// Parses options into an application. `first` is the number of the first of them among the directive's arguments.
pub(super) fn options(
    cmd: &Cmd<'_>,
    (first, words): (usize, &[String]),
    kind: ApplicationDirective,
    application: &mut Application,
) -> Outcome {
    let bit = match kind {
        ApplicationDirective::Server => S,
        ApplicationDirective::External => E,
        ApplicationDirective::Dynamic => D,
    };
    let directive = &cmd.node.name;
    let mut words = (first..).zip(words);
    while let Some((number, word)) = words.next() {
        let found = OPTIONS.iter().find(|(name, kinds, _)| name.eq_ignore_ascii_case(word) && kinds & bit != 0);
        let Some((name, _, meaning)) = found else {
            return Err(Refusal::argument(number, format!("{directive}: invalid option: {word}")));
        };
        let mut value = || {
            let value = words.next().map(|(_, value)| value);
            value.ok_or_else(|| Refusal::missing(format!("{directive}: {name} has no value")))
        };
        match meaning {
            Meaning::IgnoredFlag => {}
            Meaning::Flag(set) => set(application),
            Meaning::Ignored => drop(value()?),
            Meaning::Number(set) => {
                let value = value()?;
                let parsed = value.parse().map_err(|_| format!("{directive}: {name} {value} is not a number"));
                set(application, parsed.in_argument(number + 1)?);
            }
            Meaning::Text(set) => {
                let done = set(cmd, application, value()?).map_err(|why| format!("{directive}: {why}"));
                done.in_argument(number + 1)?;
            }
            Meaning::Refused(why) => {
                return Err(Refusal::argument(number, format!("{directive}: {name} is not supported: {why}")));
            }
        }
    }
    Ok(())
}
