//! `tsubame ctl`: queries and controls the running server over its control socket.
//!
//! The client sends its words, each followed by a NUL, and an empty one at the end. The server replies with a line `ok`,
//! `error` or `declined` and a text, then closes the connection. The server parses the words.

mod difference;
mod levels;
mod load;
mod serve;
mod status;
mod wire;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::*;
use mpm::settings::MpmSettings;

use crate::cli::{self, CONFIGURATION, HelpPage, Options, Value, Word, misuse, with, word};
use crate::output;
use crate::style::Style;

use crate::config::{self, ConfigSource, Configured};
use crate::diagnosis::print;
pub(crate) use serve::serve;
use wire::{COLOURS, DECLINED, ERROR, OK, PATIENCE, PID, RESTART};

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

Back to Apache, with Debian's packages:
  systemctl start apache2   Tsubame finishes what it serves for eight seconds at most, and Apache takes over
",
};

const ASK: [Word; 7] = [
    word(&["status"], "processes, workers, connections, and the queue of scripts"),
    word(&["scripts"], "runs, failures, memory and times of each script"),
    word(&["proxy"], "requests, connections, times and faults of each server behind this one"),
    word(&["config"], "the configuration in effect, and what another line has replaced"),
    word(&["diff"], "what a restart would change: the configuration on disk beside the one in effect"),
    with(&["explain"], Value::Any("URL | --mpm"), "as tsubame explain, for the running server"),
    word(&["log-level"], "the levels that were changed since the last restart"),
];

/// The command that this program runs itself: it needs the files, and the server may not run.
const LOAD: &str = "load";

const OF_LOAD: [Word; 2] = [
    with(&["--check"], Value::Any("URL"), "go back unless this http:// URL answers below 400 with the new version"),
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
    with(&[LOAD], Value::File("FILE"), "put a bundle in the place of the configuration (tsubame bundle), and restart"),
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
    let Command { socket, words } = match read(&mut options, args) {
        Ok(Some(command)) => command,
        Ok(None) => {
            output::print(&PAGE.page());
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            misuse::report(program, &PAGE, &why);
            return ExitCode::FAILURE;
        }
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
    said(program, request(&endpoint, &words))
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

/// How to reach a server.
struct Endpoint {
    socket: PathBuf,
    /// The pid file of the intended server; `None` for whichever server listens.
    pid_file: Option<PathBuf>,
}

/// A server's reply.
enum Reply {
    Answer(String),
    /// The server did not do it, for this reason.
    Refused(String),
    /// The request was not for this server, which did nothing.
    Declined(String),
}

/// How version 0.2 begins its refusals of `-k`, which it does not know, and of a request for another server.
const DECLINED_BY_0_2: [&str; 2] = ["-k: what is ", "the server that listens here has pid "];

impl Reply {
    /// Parses a reply. `None`: it is not complete.
    fn parse(reply: &str) -> Option<Reply> {
        let (code, text) = reply.split_once('\n')?;
        let text = text.to_string();
        match code {
            OK => Some(Reply::Answer(text)),
            DECLINED => Some(Reply::Declined(text)),
            // Version 0.2 has no code for a request that is not for it.
            ERROR if DECLINED_BY_0_2.iter().any(|own| text.starts_with(own)) => Some(Reply::Declined(text)),
            ERROR => Some(Reply::Refused(text)),
            _ => None,
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

/// Finds the control socket of the server with this configuration, even if the configuration has become unusable.
fn configured(options: &Options) -> Result<Endpoint, ExitCode> {
    let (socket, pid_file) = match config::read(options, &ConfigSource::File) {
        Ok(configured) => {
            let settings = &configured.loaded.server.main().settings;
            let pid_file = settings.get::<MpmSettings>().pid_file.get().map(PathBuf::from);
            (mpm::control::path(settings), pid_file)
        }
        Err(failed) => match config::socket(&failed) {
            Some((socket, pid_file)) => (Some(socket), Some(pid_file)),
            None => {
                print::failure(options, &failed);
                output::complain(&format!("{} ctl: name the server's control socket with --socket", options.program));
                return Err(ExitCode::FAILURE);
            }
        },
    };
    socket.map(|socket| Endpoint { socket, pid_file }).ok_or_else(|| {
        let text = "this configuration has no control socket (ControlSocket none, or no PidFile)";
        output::complain(&format!("{} ctl: {text}", options.program));
        ExitCode::FAILURE
    })
}

/// Sends a request and returns the server's reply. `Err`: why the server refused it, or could not be reached.
fn request(Endpoint { socket, pid_file }: &Endpoint, words: &[String]) -> Result<String, String> {
    let stream = connect(socket)?;
    let mut request = Vec::new();
    let colours = Style::of_output().0.then(|| COLOURS.to_string());
    let pid = pid_file.as_deref().map(intended_server).transpose()?;
    for word in colours.iter().chain(&pid).chain(words) {
        request.extend_from_slice(word.as_bytes());
        request.push(0);
    }
    request.push(0);
    let reply = exchange(stream, &request).map_err(|error| {
        let place = socket.display();
        match error.kind() {
            io::ErrorKind::WouldBlock => format!("{place}: no answer within {} s", PATIENCE.as_secs()),
            _ => format!("{place}: {}: the server cannot be asked", sys::describe(&error)),
        }
    })?;
    match reply {
        Some(Reply::Answer(text)) => Ok(text),
        Some(Reply::Refused(why) | Reply::Declined(why)) => Err(why),
        None => Err(format!("{}: the server gave no answer, its error log may say why", socket.display())),
    }
}

/// Restarts a running server, and waits until the new generation serves or the old one goes on: what `word` of `-k` says.
/// `Err`: why it has failed. `None`: the server cannot be asked over its control socket, and was told nothing.
pub(crate) fn restart(configured: &Configured, word: &str) -> Option<Result<(), String>> {
    let settings = &configured.loaded.server.main().settings;
    let pid_file = settings.get::<MpmSettings>().pid_file.get().map(PathBuf::from);
    restart_at(&Endpoint { socket: mpm::control::path(settings)?, pid_file }, word)
}

/// The same for the server at this socket.
fn restart_at(Endpoint { socket, pid_file }: &Endpoint, word: &str) -> Option<Result<(), String>> {
    let pid = pid_file.as_deref().and_then(|file| intended_server(file).ok())?;
    let stream = connect(socket).ok()?;
    let request = [pid.as_str(), RESTART, word, ""].join("\0") + "\0";
    let failed = |why: String| Some(Err(format!("{}: {why}", socket.display())));
    match exchange(stream, request.as_bytes()) {
        Ok(Some(Reply::Answer(_))) => Some(Ok(())),
        Ok(Some(Reply::Declined(_))) => None,
        Ok(Some(Reply::Refused(why))) => Some(Err(why.trim_end().to_string())),
        Ok(None) => failed("the server gave no answer, its error log may say why".into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            failed(format!("the server has not restarted within {} s: its error log may say why", PATIENCE.as_secs()))
        }
        Err(error) => failed(sys::describe(&error)),
    }
}

/// Connects to a server that runs as this user or as root, and to no other. Root may also connect to another user's
/// server if its socket is in a directory of that user.
fn connect(socket: &Path) -> Result<UnixStream, String> {
    let place = socket.display();
    let connected = sys::local::connect(socket, sys::local::SocketKind::Stream)
        .and_then(|fd| Ok((sys::local::peer_user(&fd)?, UnixStream::from(fd))));
    let (user, stream) = connected.map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "no server runs there, or it has no control socket (-X, ControlSocket none)"
            }
            io::ErrorKind::PermissionDenied => "only root and the user who started the server may ask it",
            io::ErrorKind::WouldBlock => "too many ask it already",
            _ => "the server cannot be asked",
        };
        format!("{place}: {}: {what}", sys::describe(&error))
    })?;
    let at_home = || {
        let directory = socket.parent().and_then(|directory| std::fs::metadata(directory).ok());
        sys::cred::is_root() && directory.is_some_and(|directory| directory.uid() == user)
    };
    if user != 0 && user != sys::cred::uid() && !at_home() {
        return Err(format!("{place}: a program of the user with number {user} listens there: ask it as that user"));
    }
    Ok(stream)
}

/// The word that identifies the intended server.
fn intended_server(pid_file: &Path) -> Result<String, String> {
    let name = pid_file.display();
    match mpm::pidfile::read(pid_file) {
        Ok(Some(pid)) => Ok(format!("{PID}{pid}")),
        Ok(None) => Err(format!("{name}: no such PidFile, so another server listens; use --socket to ask that one")),
        Err(error) => Err(format!(
            "{name}: {}: the PidFile cannot be read, so it is unknown which server you mean",
            sys::describe(&error)
        )),
    }
}

/// Sends a request. Returns the reply, or `None` if the server has ended the conversation without one.
fn exchange(mut stream: UnixStream, request: &[u8]) -> io::Result<Option<Reply>> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(Reply::parse(&reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_version_0_2_declines_in_words() {
        for text in [
            "-k: what is graceful?",
            "the server that listens here has pid 7, the PidFile names 8; --socket asks whoever listens",
        ] {
            assert!(matches!(Reply::parse(&format!("error\n{text}\n")), Some(Reply::Declined(_))), "{text}");
        }
        assert!(matches!(Reply::parse("error\nSyntax error\n"), Some(Reply::Refused(_))));
        assert!(matches!(Reply::parse("declined\nanother server\n"), Some(Reply::Declined(_))));
        assert!(matches!(Reply::parse("ok\n"), Some(Reply::Answer(_))));
        assert!(Reply::parse("ok").is_none());
    }
}
