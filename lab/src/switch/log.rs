//! Access logs: which files they are, what their lines say, and which requests occur how often.

mod decompressor;
mod directive;
mod escape;
mod file;
mod format;
mod guess;
mod logged;
mod piped;
mod rotation;
mod tally;
mod time;

pub(crate) use file::{Step, read};
pub(crate) use format::LogFormat;
pub(crate) use guess::{Guess, guess};
pub(crate) use logged::Logged;
pub(crate) use piped::logged_by;
pub(crate) use rotation::files_of;
pub(crate) use tally::{Limits, Request, Tallied, Tally};
