//! Access logs: which files they are, what their lines say, and which requests occur how often.

mod decompressor;
mod directive;
mod escape;
mod file;
mod format;
mod guess;
mod logged;
mod piped;
mod reading;
mod rotation;
mod tally;
mod time;

pub(crate) use format::LogFormat;
pub(crate) use piped::logged_by;
pub(crate) use reading::{Entry, Log, format_of, read_logs};
pub(crate) use tally::{Limits, Request, Tallied, Tally};
