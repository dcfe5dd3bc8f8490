//! A user: what is known of a session, and what comes next. No I/O.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::connection::Connection;
use super::super::plan::Request;
use super::super::response::{Response, ResponseText};
use super::jar::Jar;
use super::{Burst, Scenario, Step, field};

/// A session that has begun.
#[derive(Debug)]
pub(super) struct User<'s> {
    session: &'s [Burst],
    /// How many bursts have begun.
    begun: usize,
    pub(super) began: Instant,
    pub(super) is_resting: bool,
    /// What is still to be sent of the last one.
    pub(super) queue: VecDeque<Call<'s>>,
    /// Its connections; a place is free when one has ended.
    pub(super) links: Vec<Option<UserConnection<'s>>>,
    jar: Jar,
    /// The number of the session, and the values taken.
    values: Vec<String>,
    pub(super) responses: usize,
    /// How many connections were made.
    pub(super) dialled: u64,
}

/// A step to send, or under way.
#[derive(Clone, Debug)]
pub(super) struct Call<'s> {
    pub(super) step: &'s Step,
    /// Its number among all of its thread.
    pub(super) number: u64,
    pub(super) began: Instant,
    /// The path that was requested.
    pub(super) path: String,
}

/// A connection of a user.
#[derive(Debug)]
pub(super) struct UserConnection<'s> {
    pub(super) connection: Connection,
    /// The requests in progress, in the order of their responses.
    pub(super) calls: VecDeque<Call<'s>>,
    /// How many more it may carry; `None` is without limit.
    pub(super) left: Option<u64>,
}

/// The text of a request.
pub(super) struct RequestText {
    pub(super) path: String,
    pub(super) head: String,
    pub(super) body: String,
}

impl RequestText {
    pub(super) fn request(&self, step: &Step) -> Request {
        let bytes = [self.head.as_bytes(), self.body.as_bytes()].concat().into();
        Request { bytes, bodiless: step.method == "HEAD" }
    }
}

impl<'s> User<'s> {
    /// Begins the session of this number.
    pub(super) fn new(scenario: &'s Scenario, number: u64, began: Instant) -> Self {
        let session = &scenario.sessions[(number % scenario.sessions.len() as u64) as usize];
        Self {
            session,
            begun: 0,
            began,
            is_resting: false,
            queue: VecDeque::new(),
            links: Vec::new(),
            jar: Jar::default(),
            values: vec![number.to_string()],
            responses: 0,
            dialled: 0,
        }
    }

    /// Whether requests are under way or to be sent.
    pub(super) fn is_busy(&self) -> bool {
        !self.queue.is_empty() || self.links.iter().flatten().any(|link| !link.calls.is_empty())
    }

    /// How long to rest after the last burst.
    pub(super) fn think(&self) -> (Duration, Duration) {
        self.session.get(self.begun.wrapping_sub(1)).map_or((Duration::ZERO, Duration::ZERO), |burst| burst.think)
    }

    /// Whether all bursts are over, once nothing is under way.
    pub(super) fn is_through(&self) -> bool {
        self.begun == self.session.len()
    }

    /// Puts the steps of the next burst into the queue; `number` is that of the first.
    pub(super) fn begin(&mut self, number: &mut u64, began: Instant) {
        let Some(burst) = self.session.get(self.begun) else { return };
        self.begun += 1;
        for step in &burst.steps {
            self.queue.push_back(Call { step, number: *number, began, path: String::new() });
            *number += 1;
        }
    }

    /// The connection that takes the next request, if there is one: at most `most` may be under way over each.
    pub(super) fn room(&self, most: usize) -> Option<usize> {
        let has_room = |link: &Option<UserConnection<'_>>| {
            link.as_ref().is_some_and(|link| link.calls.len() < most && link.left != Some(0))
        };
        self.links.iter().position(has_room)
    }

    /// The place of another connection, if there may be one.
    pub(super) fn place(&mut self, most: usize) -> Option<usize> {
        let free = self.links.iter().position(Option::is_none);
        free.or_else(|| {
            (self.links.len() < most).then(|| {
                self.links.push(None);
                self.links.len() - 1
            })
        })
    }

    /// Writes a request.
    ///
    /// # Errors
    /// A value does not fit where it belongs; says why.
    pub(super) fn write(&self, scenario: &Scenario, step: &Step, now: Instant) -> Result<RequestText, String> {
        let path = scenario.server.path(&step.target.filled(&self.values))?;
        let fields = step.fields.filled_in_line(&self.values)?;
        let body = step.body.as_ref().map(|body| body.filled(&self.values));
        let mut head = format!("{} {path} HTTP/1.{}\r\n{fields}", step.method, step.minor);
        if let Some(body) = &body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        if step.takes_cookies
            && let Some(cookies) = self.jar.for_path(&path, &scenario.server, now)
        {
            head.push_str(&format!("Cookie: {cookies}\r\n"));
        }
        head.push_str("\r\n");
        Ok(RequestText { path, head, body: body.unwrap_or_default() })
    }

    /// Learns from a response.
    ///
    /// # Errors
    /// The response is not as expected, or lacks a value; says why.
    pub(super) fn learn(
        &mut self,
        scenario: &Scenario,
        call: &Call<'_>,
        response: &Response,
        kept: &ResponseText,
        now: Instant,
    ) -> Result<(), String> {
        self.responses += 1;
        if scenario.cookies {
            for cookie in field(&kept.head, "Set-Cookie") {
                self.jar.set(&String::from_utf8_lossy(cookie), &call.path, &scenario.server, now);
            }
        }
        call.step.expected.check(response.status, kept, &self.values)?;
        for capture in &call.step.captures {
            let value = capture.from.value(kept).map_err(|why| format!("there is no {:?}: {why}", capture.name))?;
            self.values.resize(self.values.len().max(capture.value + 1), String::new());
            self.values[capture.value] = value;
        }
        Ok(())
    }
}
