//! A source of a script's output, and the events it reports.

use std::task::{Context, Poll};

use conf::Level;
use server::{BodyError, Request};

/// The size of a read, in bytes: as much as a pipe holds.
pub(crate) const PIECE: usize = 64 * 1024;
/// The size of a read before the header is known, in bytes; most scripts write no more than this in all.
pub(crate) const FIRST_PIECE: usize = 8 * 1024;

/// An action of a script.
#[derive(Debug)]
pub(crate) enum Event {
    /// The script has written something.
    Output,
    /// Closed its outputs, which is the end.
    Ended,
    /// Was idle for too long.
    TimedOut,
    /// The rest of the request's body cannot be read.
    Body(BodyError),
    /// There is more input or standard error than is moved at once.
    Busy,
    /// The script cannot go on.
    Failed(Failure),
}

/// Why a script cannot go on.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The status for a response that has not begun.
    pub(crate) status: u16,
    /// The text to log.
    pub(crate) text: String,
    /// Its level.
    pub(crate) level: Level,
    /// How far the request got.
    pub(crate) reached: Reached,
}

/// How far a request got before its script could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reached {
    /// The connection ended before anything of the request had been sent: another backend may be tried.
    Nothing,
    /// The connection ended before the first byte of the response: another backend may be tried for a request that may
    /// be repeated.
    Request,
    /// The script has begun to answer, or has refused.
    Response,
}

impl Failure {
    /// Of a script that has begun to answer, or has refused.
    pub(crate) fn new(status: u16, level: Level, text: String) -> Failure {
        Failure { status, text, level, reached: Reached::Response }
    }

    /// Whether the connection ended before the response began.
    pub(crate) fn is_lost(&self) -> bool {
        self.reached < Reached::Response
    }
}

/// A source of output.
pub(crate) trait Source: Send {
    /// Waits until something has happened. Appends output to `output`. `request` is the one that error log lines are
    /// about.
    fn poll_next(&mut self, cx: &mut Context<'_>, request: &Request, output: &mut Vec<u8>) -> Poll<Event>;

    /// Whether there will be no more output, and nothing else is waited for.
    fn has_ended(&self) -> bool;

    /// Runs for longer, perhaps unattended.
    fn settle(&mut self);

    /// The time until now does not count as the script's.
    fn touch(&mut self);

    /// The beginning of the request's body, if the script log wants it.
    fn body_start(&self) -> &[u8];
}
