//! The command line: its options, the commands of Tsubame itself, and the errors in it.

mod command;
mod error;
mod help;
pub(crate) mod misuse;
mod options;
mod parse;
mod paths;
mod program;
mod usage;

pub(crate) use self::command::{Command, as_options, command};
pub(crate) use self::help::{CONFIGURATION, HelpPage, Value, Word, own_words, with, word};
pub(crate) use self::options::{Action, Demo, EXPLICIT_START, Options, Signal, configuration_option};
pub(crate) use self::parse::{Parsed, parse};
pub(crate) use self::paths::{config_file, misplaced, server_root};
pub(crate) use self::program::{called, is_httpd_name, program_name};
