//! `tsubame ctl`: queries and controls the running server over its control socket.
//!
//! The client sends its words, each followed by a NUL, and an empty one at the end. The server replies with a line `ok`,
//! `error` or `declined` and a text, then closes the connection. The server parses the words.

mod align;
mod client;
mod difference;
mod levels;
mod load;
mod nodes;
mod serve;
mod status;
mod wire;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::*;

use crate::cli::{self, CONFIGURATION, HelpPage, Options, Value, Word, misuse, with, word};
use crate::output;

pub(crate) use client::restart;
use client::{Endpoint, configured, request};
pub(crate) use serve::serve;

/// The help page of `tsubame ctl`.
pub(crate) static PAGE: HelpPage = HelpPage {
    name: "ctl",
    purpose: "ask the running server, and give it orders",
    usage: &["ctl {} COMMAND"],
    brief: &{
        let [root, file, name, before, after] = CONFIGURATION;
        let socket = with(&["--socket"], Value::File("path"), "");
        [root, file, name, before, after, socket, word(&["--json"], "")]
    },
    text: "  tsubame ctl -f /etc/apache2/apache2.conf status

The PidFile of the configuration says which server you mean; --socket asks the one that listens at that path. The socket is that
of ControlSocket, or else the PidFile's name with .ctl. Only root and the user who started the server may ask, and nothing is
sent to a program of any other user. Options may stand before and after the command.
",
    column: 26,
    groups: &[
        ("Commands that ask (--json prints JSON)", &ASK),
        ("Commands that change something", &CHANGE),
        ("Options of load", &OF_LOAD),
    ],
    end: "\
Exit status:
  0  the server did it, or answered
  1  it refused, or could not be asked
  diff OTHER: 0 if both are the same, 1 if they differ, 2 if they could not be compared

Back to Apache, with Debian's packages:
  systemctl start apache2   Tsubame finishes what it serves for eight seconds at most, and Apache takes over
",
    misuse: 1,
};

const ASK: [Word; 8] = [
    word(&["status"], "processes, workers, connections, and the queue of scripts"),
    word(&["scripts"], "runs, failures, memory and times of each script"),
    word(&["proxy"], "requests, connections, times and faults of each server behind this one"),
    word(&["config"], "the configuration in effect, and what another line has replaced"),
    word(&["diff"], "what a restart would change: the configuration on disk beside the one in effect"),
    with(
        &["diff"],
        Value::Any("OTHER"),
        "the configuration in effect beside a bundle, or another node's config --json (-: standard input)",
    ),
    with(&["explain"], Value::Any("URL | --mpm"), "as tsubame explain, for the running server"),
    word(&["log-level"], "the levels that were changed since the last restart"),
];

/// The command that this program runs itself: it needs the files, and the server may not run.
const LOAD: &str = "load";

const OF_LOAD: [Word; 3] = [
    with(&["--check"], Value::Any("URL"), "go back unless this URL answers below 400 with the new version"),
    with(&["--to"], Value::Any("ADDRESS:PORT"), "connect to this address for it (that of the URL's host)"),
    with(&["--within"], Value::Any("TIME"), "how long that may take, such as 30s (10s)"),
];

const CHANGE: [Word; 13] = [
    with(
        &["log-level"],
        Value::Any("MODULE LEVEL"),
        "set the level of a module, named as in LogLevel, until the next restart",
    ),
    with(&["log-level"], Value::Any("'*' LEVEL"), "set the level of all modules"),
    with(&["log-level"], Value::Any("reset"), "go back to the levels of the configuration"),
    with(
        &[LOAD],
        Value::File("FILE"),
        "put a bundle (tsubame bundle; -: standard input) in the place of the configuration, and restart",
    ),
    with(&[LOAD], Value::Any("--rollback"), "go back to the version before"),
    word(&["reload-certificates"], "read certificates, keys and revocation lists again"),
    word(&["drain"], "tell load balancers to send no new clients (mod_agent)"),
    word(&["maintenance"], "tell load balancers to send nothing"),
    word(&["ready"], "tell load balancers to send requests again"),
    word(&["graceful"], "restart; children finish what they serve"),
    word(&["restart"], "restart; children end at once"),
    word(&["graceful-stop"], "stop when everything that is being served is finished"),
    word(&["stop"], "stop at once"),
];

/// The commands listed on the help page.
fn commands() -> impl Iterator<Item = &'static str> {
    ASK.iter().chain(&CHANGE).flat_map(|word| word.names).copied()
}

/// Runs `tsubame ctl`.
pub(crate) fn run(program: &str, args: Vec<OsString>) -> ExitCode {
    let mut options = Options::new(program, &args);
    let Command { socket, words } = match misuse::wish(program, &PAGE, read(&mut options, args)) {
        Ok(command) => command,
        Err(code) => return code,
    };
    if words[0] == LOAD {
        return said(program, load::run(&options, socket.is_some(), &words[1..]));
    }
    let endpoint = match socket {
        Some(socket) => Endpoint { socket, pid_file: None },
        None => match configured(&options) {
            Ok(endpoint) => endpoint,
            Err(code) => return code,
        },
    };
    if let Some((other, json)) = other_side(&words) {
        let asked = ["config".to_string(), "--json".to_string()];
        return nodes::run(&options, &request(&endpoint, &asked), other, json);
    }
    said(program, request(&endpoint, &words))
}

/// What `diff OTHER` compares with, and whether its answer is for programs.
fn other_side(words: &[String]) -> Option<(&str, bool)> {
    let (json, rest): (Vec<&str>, Vec<&str>) = words.iter().map(String::as_str).partition(|word| *word == "--json");
    match rest[..] {
        ["diff", other] if other == "-" || !other.starts_with('-') => Some((other, !json.is_empty())),
        _ => None,
    }
}

/// Prints what was done, or why it was not.
fn said(program: &str, done: Result<String, String>) -> ExitCode {
    match done {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(why) => {
            output::complain(&format!("{program} ctl: {}", why.trim_end()));
            ExitCode::FAILURE
        }
    }
}

/// What the command line of `tsubame ctl` asks for.
struct Command {
    /// `--socket`
    socket: Option<PathBuf>,
    /// The command and its arguments.
    words: Vec<String>,
}

/// Parses the command line. Our own options may stand before or after the command; the server parses the rest. `None`:
/// the user asked for help.
fn read(options: &mut Options, args: Vec<OsString>) -> Result<Option<Command>, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut socket, mut command, mut rest) = (None, None, Vec::new());
    while let Some(arg) = parser.next()? {
        match arg {
            // The server has the help page of `explain`.
            Short('h') | Long("help") if command.as_deref() == Some("explain") => rest.push("--help".into()),
            Short('h') | Long("help") => return Ok(None),
            Long("socket") => socket = Some(parser.value()?.into()),
            Long("json") => rest.push("--json".into()),
            Short(option) => cli::configuration_option(options, option, &mut parser)?,
            Long(option) if command.is_some() => {
                let option = format!("--{option}");
                rest.push(match parser.optional_value() {
                    Some(value) => format!("{option}={}", value.string()?),
                    None => option,
                });
            }
            Value(word) if command.is_none() => command = Some(word.string()?),
            Value(word) => rest.push(word.string()?),
            arg => return Err(arg.unexpected()),
        }
    }
    let command = command.ok_or("a command is missing")?;
    if !commands().any(|name| name == command) {
        return Err(misuse::unknown("command", &command, commands()).into());
    }
    Ok(Some(Command { socket, words: [vec![command], rest].concat() }))
}
