//! A running script, from the view of the request it runs for.

use std::future::poll_fn;
use std::time::Duration;

use runtime::CoopBudget;
use runtime::executor::Timer;
use server::{Request, Running};
use sys::time::Instant;

use super::source::{Event, Failure, PIECE, Source};
use crate::caller::{Caller, TimeoutMessage};

/// A running script. Dropping it before its end, ends it.
pub(crate) struct Script {
    pub(super) source: Box<dyn Source>,
    /// Output that nobody has taken yet.
    pub(crate) output: Vec<u8>,
    /// An event for the next caller: the last one did not want it.
    deferred: Option<Event>,
    pub(super) module: &'static str,
    pub(super) timeout_message: &'static TimeoutMessage,
    pub(super) timeout: Duration,
    /// Ends with the output, if the request is recorded.
    span: Option<Running>,
}

impl Script {
    pub(crate) fn new(source: Box<dyn Source>, caller: &Caller) -> Script {
        Script {
            source,
            output: Vec::new(),
            deferred: None,
            module: caller.module,
            timeout_message: caller.timeout_message,
            timeout: caller.timeout,
            span: None,
        }
    }

    /// The same in a child span.
    pub(crate) fn within(self, span: Option<Running>) -> Script {
        Script { span, ..self }
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
                Event::Ended => {
                    self.span = None;
                    return Event::Ended;
                }
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
        // What went wrong comes after the output.
        self.has_ended() && matches!(self.deferred, None | Some(Event::Ended | Event::Output))
    }

    /// Reads unwanted output to the end, so that the script can do its work. Returns its length, or what went wrong: a
    /// script that writes for longer than it may be silent has timed out too, as somebody waits for the response.
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

    /// Runs for longer, perhaps unattended.
    pub(crate) fn settle(&mut self) {
        self.source.settle();
    }
}
