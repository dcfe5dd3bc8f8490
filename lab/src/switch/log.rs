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

pub(crate) use directive::Unreadable;
pub(crate) use file::{Counts, Line, Lines, Step, read};
pub(crate) use format::LogFormat;
pub(crate) use guess::{Guess, guess};
pub(crate) use logged::{Logged, RequestLine};
pub(crate) use piped::logged_by;
pub(crate) use rotation::files_of;
pub(crate) use tally::{Limits, Request, Statuses, Tallied, Tallies, Tally};
