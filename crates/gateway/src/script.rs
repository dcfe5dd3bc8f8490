//! A program that runs for a request, wherever that is: the request's body goes into it, and its output comes out of
//! it.
//!
//! There are two kinds: a script with a process to itself ([`piped`]), and a backend that is talked to over a stream
//! ([`conversation`]).

pub(crate) mod conversation;
mod errors;
mod output;
pub(crate) mod piped;
pub(crate) mod remote;

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use conf::Level;
use runtime::CoopBudget;
use runtime::executor::Timer;
use server::{BodyError, Request};

use crate::caller::{Caller, Words};

pub(crate) use errors::take_lines;
pub(crate) use output::{Output, fail};

/// The size of a read, in bytes: as much as a pipe holds.
const PIECE: usize = 64 * 1024;
/// The same before the header is known; most scripts write no more than this in all.
const FIRST_PIECE: usize = 8 * 1024;

/// An action of a script.
#[derive(Debug)]
pub(crate) enum Event {
    /// It wrote something.
    Output,
    /// It closed its outputs, which is the end.
    Ended,
    /// It was idle for too long.
    TimedOut,
    /// The rest of the request's body cannot be read.
    Body(BodyError),
    /// There is more input or standard error than is moved at once.
    Busy,
    /// It cannot go on.
    Failed(Failure),
}

/// Why a script cannot go on.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The status for an answer that has not begun.
    pub(crate) status: u16,
    /// The text to log.
    pub(crate) text: String,
    /// Its level.
    pub(crate) level: Level,
    /// The connection ended before the first byte of the answer: another backend may be tried.
    pub(crate) lost: bool,
    /// In addition, nothing of the request had been sent.
    pub(crate) unasked: bool,
}

/// A source of output.
pub(crate) trait Source: Send {
    /// Waits until something has happened. Appends output to `output`. `request` is the one that error log lines are
    /// about.
    fn poll_next(&mut self, cx: &mut Context<'_>, request: &Request, output: &mut Vec<u8>) -> Poll<Event>;

    /// Whether there will be no more output, and nothing else is waited for.
    fn has_ended(&self) -> bool;

    /// It runs for longer, perhaps unattended.
    fn settle(&mut self);

    /// The time until now does not count as the script's.
    fn touch(&mut self);

    /// The beginning of the request's body, if the script log wants it.
    fn body_start(&self) -> &[u8];
}

/// A running script. Dropping it before its end, ends it.
pub(crate) struct Script {
    source: Box<dyn Source>,
    /// Output that nobody has taken yet.
    pub(crate) output: Vec<u8>,
    /// An event for the next caller: the last one did not want it.
    deferred: Option<Event>,
    module: &'static str,
    words: &'static Words,
    timeout: Duration,
}

impl Script {
    pub(crate) fn new(source: Box<dyn Source>, caller: &Caller) -> Script {
        Script {
            source,
            output: Vec::new(),
            deferred: None,
            module: caller.module,
            words: caller.words,
            timeout: caller.timeout,
        }
    }

    /// Waits for the script to do something. `request` is the one that error log lines are about.
    pub(crate) async fn next(&mut self, request: &Request) -> Event {
        if let Some(event) = self.deferred.take() {
            return event;
        }
        let mut budget = None;
        loop {
            match poll_fn(|cx| self.source.poll_next(cx, request, &mut self.output)).await {
                Event::Busy => budget.get_or_insert_with(CoopBudget::new).step().await,
                event => return event,
            }
        }
    }

    /// Waits for the first event, which stays the [next](Script::next) one. `Err`: the script never got the request.
    pub(crate) async fn begins(&mut self, request: &Request) -> Result<(), Failure> {
        match self.next(request).await {
            Event::Failed(failure) => Err(failure),
            event => {
                self.deferred = Some(event);
                Ok(())
            }
        }
    }

    /// Whether it has closed its outputs, and nothing else is waited for.
    pub(crate) fn has_ended(&self) -> bool {
        self.source.has_ended()
    }

    /// The beginning of the request's body, if the script log wants it.
    pub(crate) fn body_start(&self) -> &[u8] {
        self.source.body_start()
    }

    /// Waits a moment for a short output to complete. Returns whether it has.
    pub(crate) async fn complete(&mut self, request: &Request, moment: Duration) -> bool {
        let end = Instant::now() + moment;
        let mut timer = Timer::default();
        while !self.has_ended() && self.output.len() < PIECE && self.deferred.is_none() {
            match timer.until(end, self.next(request)).await {
                Some(Event::Output) => {}
                Some(event) => self.deferred = Some(event),
                None => break,
            }
        }
        self.has_ended()
    }

    /// Reads unwanted output to the end, so that the script can do its work. Returns its length, or what went wrong: a script
    /// that writes for longer than it may be silent has timed out too, as somebody waits for the answer.
    pub(crate) async fn drain(&mut self, request: &Request) -> Result<u64, Event> {
        let (mut drained, mut budget, begun) = (0, CoopBudget::new(), Instant::now());
        loop {
            if begun.elapsed() > self.timeout {
                return Err(Event::TimedOut);
            }
            drained += self.output.len() as u64;
            self.output.clear();
            budget.step().await;
            match self.next(request).await {
                Event::Output => {}
                Event::Ended => return Ok(drained),
                event => return Err(event),
            }
        }
    }

    /// It runs for longer, perhaps unattended.
    pub(crate) fn settle(&mut self) {
        self.source.settle();
    }
}
