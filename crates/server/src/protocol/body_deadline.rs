//! How long a client may take to send the body of a request.

use std::task::{Context, Poll};

use runtime::executor::Timer;
use sys::time::Instant;

use crate::settings::read_timeout::BodyRules;

/// The deadline of a body, which moves as pieces of it come.
pub(super) struct BodyDeadline {
    rules: BodyRules,
    timer: Timer,
    received: u64,
    /// When it was first asked for: earlier waits were not for the client.
    started: Option<Instant>,
    /// Since when the next piece has been due from the client.
    waiting: Option<Instant>,
    /// Since when it has brought less than a [`MUCH`], and how much had come before.
    slow: Option<(Instant, u64)>,
}

/// A client that sends so many bytes is not silent.
const MUCH: u64 = 16 * 1024;

impl BodyDeadline {
    pub(super) fn new(rules: BodyRules) -> BodyDeadline {
        BodyDeadline { rules, timer: Timer::default(), received: 0, started: None, waiting: None, slow: None }
    }

    /// Bytes received for it so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Counts received bytes.
    pub(super) fn note(&mut self, bytes: usize) {
        self.received += bytes as u64;
        self.waiting = None;
    }

    /// Since when the client has sent next to nothing.
    pub(super) fn since(&mut self) -> Instant {
        match self.slow {
            Some((since, before)) if self.received - before < MUCH => since,
            _ => {
                let now = self.waiting.unwrap_or_else(Instant::now);
                self.slow = Some((now, self.received));
                now
            }
        }
    }

    /// Asks for the next piece. Returns its deadline.
    pub(super) fn deadline(&mut self) -> Instant {
        let now = Instant::now();
        let deadline = *self.waiting.get_or_insert(now) + self.rules.timeout;
        match self.rules.read_timeout {
            None => deadline,
            Some(limit) => deadline.min(limit.deadline(*self.started.get_or_insert(now), self.received)),
        }
    }

    /// Ready if it is not there by then.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        self.timer.poll_passed(cx, deadline)
    }
}
