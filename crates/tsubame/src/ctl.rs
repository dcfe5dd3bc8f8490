//! `tsubame ctl`: asks the running server, and tells it what to do, over its control socket.
//!
//! The client sends its words, each with a NUL behind it, and an empty one at the end; the server answers with `ok` or
//! `error` in a line of its own and a text, and closes. It is the server that reads the words.

mod difference;
mod levels;
mod serve;
mod status;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lexopt::prelude::*;

use crate::boot::{self, Text};
use crate::cli::{self, Options};
use crate::style::Style;

pub(crate) use serve::{Asked, Running, serve};

/// A request is no longer than this, in bytes.
const WORDS_MAX: u64 = 64 * 1024;
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(30);
/// The word that says that the client's output is a terminal.
const COLOURS: &str = "--colours";

/// The words after `tsubame ctl`.
pub(crate) const USAGE: &str = "\
tsubame ctl: asks the running server, and tells it what to do

Usage: tsubame ctl [-d directory] [-f file] [-D name] [--socket path] COMMAND

The server is that of the configuration file, or the one that listens at the socket (ControlSocket; beside the PidFile where
that is not given). Only its own user and root may ask.

Commands that ask (with --json for programs):
  status                  processes, workers, connections, the gate
  scripts                 what is known of each script
  config                  the configuration that is in effect, with what it was written over
  diff                    what a restart would change: the configuration in effect beside that on disk
  explain URL | --mpm     as tsubame explain, of the running server
  log-level               levels that were changed while it runs

Commands that tell:
  log-level MODULE LEVEL  changes the level of a module, or of all with *, until the next restart
  log-level reset         back to the configuration's
  graceful                restart: children finish what they serve
  restart                 restart: children are ended
  graceful-stop           stop, when what is served is finished
  stop                    stop at once
";

/// `tsubame ctl`.
pub(crate) fn run(program: &str, args: Vec<OsString>) -> ExitCode {
    let mut options = Options::new(program, &args);
    let Command { socket, words } = match read(&mut options, args) {
        Ok(Some(command)) => command,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("{program} ctl: {why}\n`{program} ctl --help` says how it is used.");
            return ExitCode::FAILURE;
        }
    };
    let socket = match socket.map_or_else(|| configured(&options), Ok) {
        Ok(socket) => socket,
        Err(code) => return code,
    };
    match ask(&socket, &words) {
        Ok((true, text)) => {
            // A reader that has seen enough closes its pipe.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Ok((false, text)) => {
            eprint!("{program} ctl: {text}");
            ExitCode::FAILURE
        }
        Err(error) => {
            let what = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "no server runs there",
                io::ErrorKind::PermissionDenied => "only root and the user who started the server may ask it",
                _ => "the server cannot be asked",
            };
            eprintln!("{program} ctl: {}: {}: {what}", socket.display(), sys::describe(&error));
            ExitCode::FAILURE
        }
    }
}

/// What the command line asks for.
struct Command {
    /// `--socket`
    socket: Option<PathBuf>,
    /// The command and what follows it.
    words: Vec<String>,
}

/// Reads the command line. `None`: help is wanted.
fn read(options: &mut Options, args: Vec<OsString>) -> Result<Option<Command>, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut socket = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("socket") => socket = Some(parser.value()?.into()),
            Short(option) => cli::configuration_option(options, option, &mut parser)?,
            // The rest is for the server to read.
            Value(command) => {
                let mut words = vec![command.string()?];
                for word in parser.raw_args()? {
                    words.push(word.string()?);
                }
                return Ok(Some(Command { socket, words }));
            }
            arg => return Err(arg.unexpected()),
        }
    }
    Err("a command is missing".into())
}

/// Where the server of a configuration listens, also if that cannot be used any more.
fn configured(options: &Options) -> Result<PathBuf, ExitCode> {
    let socket = match boot::read(options, &Text::File) {
        Ok(configured) => mpm::control::path(&configured.loaded.server.main().settings),
        Err(failed) => match boot::socket(&failed) {
            Some(socket) => Some(socket),
            None => {
                boot::say_broken(options, &failed);
                eprintln!("{} ctl: name the server's control socket with --socket", options.program);
                return Err(ExitCode::FAILURE);
            }
        },
    };
    socket.ok_or_else(|| {
        eprintln!(
            "{} ctl: this configuration has no control socket (ControlSocket none, or no PidFile)",
            options.program
        );
        ExitCode::FAILURE
    })
}

/// Asks; returns whether it went well, and the server's text.
fn ask(socket: &Path, words: &[String]) -> io::Result<(bool, String)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let colours = Style::of_output().0.then(|| COLOURS.to_string());
    let mut request = Vec::new();
    for word in colours.iter().chain(words) {
        request.extend_from_slice(word.as_bytes());
        request.push(0);
    }
    request.push(0);
    stream.write_all(&request)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once('\n') {
        Some(("ok", text)) => Ok((true, text.to_string())),
        Some(("error", text)) => Ok((false, text.to_string())),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
