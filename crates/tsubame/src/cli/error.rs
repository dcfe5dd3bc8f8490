//! Errors in the command line, in the words of httpd or in those of Tsubame.

use std::ffi::OsString;
use std::process::ExitCode;

use conf::Level;

use super::command::{COMMANDS, is_no_directory, unknown_command};
use super::misuse;
use super::options::{Demo, SIGNALS};
use super::program::is_httpd_name;
use super::usage::{short_usage, usage};
use crate::output;

/// An error in the command line.
pub(super) enum CommandLineError {
    /// An unknown option, with its `-` or `--`.
    Option(String),
    /// An option without its value.
    Missing(char),
    /// An unknown word for `-k`; `None` if it is missing.
    Signal(Option<String>),
    /// An unknown level for `-e`.
    Level(String),
    /// An invalid value for `--port`; `None` if it is missing.
    Port(Option<String>),
    /// An unknown command.
    Command(String),
    /// An unexpected argument.
    Word(OsString),
    /// A directory or `--port` together with options of httpd.
    Mixed,
    /// Not an error: `-h`.
    Help,
    /// An error of the parser.
    Other(lexopt::Error),
}

/// Reports an error in the command line: in httpd's words under one of its names, otherwise in ours.
pub(super) fn refused(program: &str, demo: &Demo, bad: &CommandLineError) -> ExitCode {
    let text = match bad {
        _ if is_httpd_name(program) => format!("{}{}", bad.of_httpd(program), usage(program)),
        CommandLineError::Help => usage(program),
        _ => format!("{program}: {}\n{}", bad.reason(program, demo), short_usage(program)),
    };
    output::complain(text.trim_end_matches('\n'));
    ExitCode::FAILURE
}

impl CommandLineError {
    /// The line that httpd prints above its usage.
    fn of_httpd(&self, program: &str) -> String {
        match self {
            CommandLineError::Option(option) => {
                format!("{program}: illegal option -- {}\n", option.trim_start_matches('-'))
            }
            CommandLineError::Signal(_) => format!("{program}: illegal option -- k\n"),
            CommandLineError::Missing(option) => format!("{program}: option requires an argument -- {option}\n"),
            _ => String::new(),
        }
    }

    /// The reason, with the most similar name.
    fn reason(&self, program: &str, demo: &Demo) -> String {
        let first = demo.root.as_ref().map(|root| root.to_string_lossy()).unwrap_or_default();
        if COMMANDS.iter().any(|(name, _)| *name == first) {
            return format!("'{first}' is a command: put it before all options, as in {program} {first} -f FILE ...");
        }
        if first == "help"
            && let CommandLineError::Word(word) = self
        {
            return unknown_command(program, &word.to_string_lossy());
        }
        if is_no_directory(&first) {
            return unknown_command(program, &first);
        }
        match self {
            CommandLineError::Command(word) => unknown_command(program, word),
            CommandLineError::Option(option) => misuse::unknown("option", option, OPTIONS.into_iter()),
            CommandLineError::Missing(option) => format!("option '-{option}' needs a value"),
            CommandLineError::Signal(None) => {
                format!("option '-k' needs one of {}", SIGNALS.map(|(word, _)| word).join(", "))
            }
            CommandLineError::Signal(Some(word)) if word == "reload" => {
                "unknown word after -k 'reload': did you mean 'graceful'?".into()
            }
            CommandLineError::Signal(Some(word)) => {
                misuse::unknown("word after -k", word, SIGNALS.iter().map(|(word, _)| *word))
            }
            CommandLineError::Level(word) => misuse::unknown("level", word, Level::NAMES.iter().map(|(name, _)| *name)),
            CommandLineError::Port(None) => "option '--port' needs a number".into(),
            CommandLineError::Port(Some(word)) => {
                format!("'{word}' is not a port: --port takes a number from 1 to 65535")
            }
            CommandLineError::Word(word) => format!("unexpected word '{}'", word.to_string_lossy()),
            CommandLineError::Mixed => {
                "--port and a directory cannot be combined with a configuration (-f, -d, -C, -c, -D, -k, -t)".into()
            }
            CommandLineError::Other(error) => misuse::reason(error, std::iter::empty()),
            CommandLineError::Help => String::new(),
        }
    }
}

/// Our own options.
pub(super) const OPTIONS: [&str; 3] = ["--port", "--help", "--version"];
