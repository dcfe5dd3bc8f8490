//! A program that runs for a request, wherever that is: the request's body goes into it, and its output comes out of
//! it.
//!
//! There are two kinds of [`Source`]: a script with a process to itself ([`piped`]), and a backend that is talked to
//! over a stream ([`crate::backend`]).

pub(crate) mod input;
mod output;
pub(crate) mod piped;
mod running;
mod source;
mod stderr;

pub(crate) use output::{Output, fail};
pub(crate) use running::Script;
pub(crate) use source::{Event, FIRST_PIECE, Failure, PIECE, Reached, Source};
pub(crate) use stderr::take_lines;
