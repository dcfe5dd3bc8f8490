//! The options of the command line: those of httpd, and those of the demonstration.

use std::ffi::OsString;
use std::path::PathBuf;

use conf::Level;
use lexopt::prelude::*;

/// What the command line asks for.
pub(crate) struct Options {
    /// The name by which the server was called.
    pub(crate) program: String,
    /// The action to take.
    pub(crate) action: Action,
    /// `-d`
    pub(crate) server_root: Option<String>,
    /// `-f`
    pub(crate) file: Option<String>,
    /// `-C`
    pub(crate) before: Vec<String>,
    /// `-c`
    pub(crate) after: Vec<String>,
    /// `-D`, and the names that other options define.
    pub(crate) defines: Vec<String>,
    /// `-e`
    pub(crate) level: Option<Level>,
    /// `-E`
    pub(crate) errors: Option<String>,
    /// The whole line, for `AH00094`.
    pub(crate) line: String,
    /// The working directory at the start. A relative `-d` is resolved against it, even after the server has left it.
    pub(crate) directory: PathBuf,
}

impl Options {
    /// The options of an empty command line.
    pub(crate) fn new(program: &str, args: &[OsString]) -> Options {
        let args = args.iter().map(|arg| arg.to_string_lossy().into_owned());
        let line: Vec<String> = std::iter::once(program.to_string()).chain(args).collect();
        Options {
            program: program.to_string(),
            action: Action::Start,
            server_root: None,
            file: None,
            before: Vec::new(),
            after: Vec::new(),
            defines: Vec::new(),
            level: None,
            errors: None,
            line: line.join(" "),
            directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        }
    }

    /// Whether `-D` or another option defined a name.
    pub(crate) fn defined(&self, name: &str) -> bool {
        self.defines.iter().any(|have| have == name)
    }

    /// Applies `-t`, which makes no difference to `-V` and `-L`.
    pub(super) fn check(&mut self) {
        if !matches!(self.action, Action::Settings | Action::Directives) {
            self.action = Action::Check;
        }
    }
}

/// The action to take.
pub(crate) enum Action {
    /// Start the server (no `-k`, or `-k start`).
    Start,
    /// `-k` with another word.
    Signal(Signal),
    /// `-t`, `-S`, `-M`
    Check,
    /// `-v`
    Version,
    /// `-V`
    Settings,
    /// `-l`
    CompiledIn,
    /// `-L`
    Directives,
    /// Serve the embedded configuration; no option of httpd was given.
    Demo(Demo),
}

/// The words of `-k` except `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Stop,
    GracefulStop,
    Restart,
    Graceful,
    Upgrade,
}

/// The words of `-k`, and the signals that they stand for.
pub(crate) const SIGNALS: [(&str, Option<Signal>); 6] = [
    ("start", None),
    ("stop", Some(Signal::Stop)),
    ("restart", Some(Signal::Restart)),
    ("graceful", Some(Signal::Graceful)),
    ("graceful-stop", Some(Signal::GracefulStop)),
    ("upgrade", Some(Signal::Upgrade)),
];

/// The options of the demonstration.
#[derive(Debug, Default)]
pub(crate) struct Demo {
    /// `--port`
    pub(crate) port: Option<u16>,
    /// The directory to serve; without one, the small demonstration site.
    pub(crate) root: Option<OsString>,
}

/// The name that `-k start` defines, to distinguish it from no option at all.
pub(crate) const EXPLICIT_START: &str = "-k start";

/// Parses the options that select the configuration, for all commands.
pub(crate) fn configuration_option(
    options: &mut Options,
    option: char,
    parser: &mut lexopt::Parser,
) -> Result<(), lexopt::Error> {
    if !matches!(option, 'd' | 'f' | 'C' | 'c' | 'D') {
        return Err(Short(option).unexpected());
    }
    let value = parser.value()?.to_string_lossy().into_owned();
    match option {
        'd' => options.server_root = Some(value),
        'f' => options.file = Some(value),
        'C' => options.before.push(value),
        'c' => options.after.push(value),
        _ => options.defines.push(value),
    }
    Ok(())
}
