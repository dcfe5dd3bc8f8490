//! A backend that is talked to over a stream: the request's body and its response go over the same connection, framed
//! by the [protocol](crate::protocol).

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conf::Level;
use http::text::from_bytes;
use runtime::executor::Timer;
use server::{BodyError, Request, RequestBody, ScriptUse};
use sys::process::{Reaped, Status};
use sys::time::Instant;

use super::call::{BackendCall, StderrMessages};
use super::lease::Lease;
use super::manager_messages::Outcome;
use crate::process;
use crate::protocol::fastcgi;
use crate::protocol::{End, Frames, Messages, Protocol};
use crate::script::{Event, FIRST_PIECE, Failure, PIECE, Reached, Source, take_lines};
use upstream::Stream;

/// How many pieces are received or sent before others get their turn.
const STEPS: usize = 16;

/// The longest position in a response at which another reader continues, in bytes.
const POSITION_MAX: usize = 4096;

/// Whether more of a response may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseState {
    /// More of it may come.
    Open,
    /// Nothing more comes over this connection.
    Ended,
    /// The response is complete, and the connection may carry another request.
    Complete,
}

/// An exchange with a backend: a request that it serves, and its response.
pub(crate) struct BackendExchange {
    protocol: Protocol,
    stream: Stream,
    /// The next bytes to send, and how many of them have been sent.
    unsent: Vec<u8>,
    sent: usize,
    /// The body, as long as more of it may come.
    body: Option<RequestBody>,
    /// The part after the body: the file of a filter.
    data: Option<RequestBody>,
    /// Whether `data` has taken the place of `body`.
    is_data: bool,
    /// The next piece of the body has to come from the client.
    awaiting_client: bool,
    /// The body is what the client of a tunnel says: nothing before the script has answered.
    is_tunnel: bool,
    /// The backend reads no further.
    input_closed: bool,
    frames: Frames,
    decoded: Messages,
    received: Vec<u8>,
    /// How far the request has got.
    reached: Reached,
    state: ResponseState,
    /// Why the response cannot go on, reported after everything that came before.
    failure: Option<Failure>,
    lease: Option<Lease>,
    cost: Arc<ScriptUse>,
    /// The backend's processor time at the beginning of the request, if it is wanted.
    used: Option<Duration>,
    timer: Timer,
    timeout: Duration,
    /// The last time that something happened.
    active: Instant,
    module: &'static str,
    stderr: StderrMessages,
}

impl BackendExchange {
    /// Begins to send `head`, the bytes of the call's head, over a connection, followed by the request's body. A backend
    /// of a pool comes with its lease.
    pub(super) fn new(
        request: &mut Request,
        call: BackendCall<'_>,
        stream: Stream,
        lease: Option<Lease>,
        head: Vec<u8>,
    ) -> BackendExchange {
        let BackendCall { caller, stderr, tunnel, .. } = call;
        let protocol = call.head.protocol();
        let cost = Arc::new(ScriptUse::new(lease.as_ref().map_or(Duration::ZERO, |lease| lease.waited)));
        request.account.script = Some(cost.clone());
        let pid = lease.as_ref().filter(|_| caller.accounts).map(|lease| lease.pid);
        let mut exchange = BackendExchange {
            protocol,
            stream,
            unsent: head,
            sent: 0,
            body: tunnel.or_else(|| Some(&request.body).filter(|body| !body.is_none())).cloned(),
            data: call.head.data(),
            is_data: false,
            awaiting_client: false,
            is_tunnel: tunnel.is_some(),
            input_closed: false,
            frames: Frames::new(protocol),
            decoded: Messages::default(),
            received: Vec::new(),
            reached: Reached::Nothing,
            state: ResponseState::Open,
            failure: None,
            lease,
            cost,
            used: pid.and_then(sys::process::processor_time),
            timer: Timer::default(),
            timeout: caller.timeout,
            active: Instant::now(),
            module: caller.module,
            stderr,
        };
        if exchange.body.is_none() {
            protocol.end_of_input(&mut exchange.unsent);
            exchange.continue_with_data();
        }
        exchange
    }

    /// Continues with the part after the body, if there is one.
    fn continue_with_data(&mut self) {
        self.body = self.data.take();
        self.is_data = self.body.is_some();
    }

    /// Moves the request on; `true`: there may be more of it, but others wait for their turn.
    fn feed(&mut self, cx: &mut Context<'_>) -> Result<bool, BodyError> {
        for _ in 0..STEPS {
            while self.sent < self.unsent.len() && !self.input_closed {
                match self.stream.poll_write(cx, &self.unsent[self.sent..]) {
                    Poll::Pending => return Ok(false),
                    Poll::Ready(Ok(sent)) => {
                        self.sent += sent;
                        self.reached = self.reached.max(Reached::Request);
                        self.active = Instant::now();
                    }
                    // The backend may have answered all the same.
                    Poll::Ready(Err(_)) => self.input_closed = true,
                }
            }
            self.unsent.clear();
            self.sent = 0;
            let Some(body) = self.body.as_ref().filter(|_| !self.input_closed) else { return Ok(false) };
            match body.poll_read(cx) {
                Poll::Pending => {
                    self.awaiting_client = true;
                    return Ok(false);
                }
                Poll::Ready(Ok(Some(piece))) if self.is_data => fastcgi::data(&piece, &mut self.unsent),
                Poll::Ready(Ok(Some(piece))) => self.protocol.input(&piece, &mut self.unsent),
                Poll::Ready(Ok(None)) => {
                    match self.is_data {
                        true => fastcgi::end_of_data(&mut self.unsent),
                        false => self.protocol.end_of_input(&mut self.unsent),
                    }
                    self.continue_with_data();
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
            self.awaiting_client = false;
        }
        Ok(true)
    }

    /// Whether the whole request has been sent.
    fn has_sent_request(&self) -> bool {
        self.body.is_none() && self.unsent.is_empty() && !self.input_closed
    }

    /// Takes received bytes. `None`: no event.
    fn receive(&mut self, cx: &mut Context<'_>, request: &Request, output: &mut Vec<u8>) -> Poll<Option<Event>> {
        self.received.clear();
        self.received.reserve(if self.reached == Reached::Response { PIECE } else { FIRST_PIECE });
        match ready!(self.stream.poll_read(cx, &mut self.received)) {
            Ok(0) if self.protocol.ends_with_connection() => {
                self.decoded.end = Some(End::default());
            }
            Ok(0) => return Poll::Ready(Some(self.lost(request, None))),
            Err(error) => return Poll::Ready(Some(self.lost(request, Some(&error)))),
            Ok(_) => {
                self.active = Instant::now();
                self.reached = Reached::Response;
            }
        }
        let before = output.len();
        if let Err(invalid) = self.frames.read(&self.received, output, &mut self.decoded) {
            self.report(request);
            self.give_back(Outcome::Failed);
            // The output before that counts.
            if self.decoded.end.take().is_some() {
                self.state = ResponseState::Ended;
                return Poll::Ready(Some(if output.len() > before { Event::Output } else { Event::Ended }));
            }
            let text = format!("cannot understand the backend of {}: {}", request.mapped.filename, invalid.0);
            let failure = Failure::new(500, Level::Error, text);
            if output.len() > before {
                self.failure = Some(failure);
                return Poll::Ready(Some(Event::Output));
            }
            self.state = ResponseState::Ended;
            return Poll::Ready(Some(Event::Failed(failure)));
        }
        self.report(request);
        let end = self.decoded.end.take();
        let page = end.as_ref().and_then(|end| end.page).filter(|_| is_only_a_status(output));
        let refused = end.map(|end| self.end(end));
        Poll::Ready(match refused.flatten() {
            _ if page.is_some() => {
                let text = format!("{}: the handler leaves the response to the server", request.mapped.filename);
                let status = page.unwrap_or(500);
                Some(Event::Failed(Failure::new(status, Level::Debug, text)))
            }
            Some((status, text)) => {
                let text = format!("{}: {text}", request.mapped.filename);
                let failure = Failure::new(status, Level::Error, text);
                match output.len() > before {
                    // A header may be there, and with it a response, which is not to look complete.
                    true => {
                        self.failure = Some(failure);
                        Some(Event::Output)
                    }
                    false => Some(Event::Failed(failure)),
                }
            }
            _ if output.len() > before => Some(Event::Output),
            _ if self.has_ended() => Some(Event::Ended),
            _ => None,
        })
    }

    /// Logs its messages.
    fn report(&mut self, request: &Request) {
        for (level, text) in self.decoded.notes.drain(..) {
            request.log(self.module, level, text);
        }
        let mut lines = take_lines(&mut self.decoded.errors);
        if self.decoded.end.is_some() && !self.decoded.errors.is_empty() {
            lines.push(std::mem::take(&mut self.decoded.errors));
        }
        let mut entries: Vec<(Level, String)> = Vec::new();
        for line in lines.iter().map(|line| from_bytes(line)) {
            let text = (self.stderr.text)(request, &line);
            match ((self.stderr.level)(&line), entries.last_mut()) {
                (None, Some((_, before))) => before.extend(["\n", &text]),
                (level, _) => entries.push((level.unwrap_or(Level::Notice), text)),
            }
        }
        for (level, text) in entries {
            request.log(self.module, level, text);
        }
    }

    /// The connection ended before the response did.
    fn lost(&mut self, request: &Request, error: Option<&io::Error>) -> Event {
        self.state = ResponseState::Ended;
        self.give_back(Outcome::Failed);
        let how = error.map_or_else(|| "closed the connection".to_string(), sys::describe);
        let when = match self.reached {
            Reached::Response => "in the middle of its response",
            Reached::Nothing | Reached::Request => "before it answered",
        };
        let text = format!("the backend of {} ended {when}: {how}", request.mapped.filename);
        Event::Failed(Failure { reached: self.reached, ..Failure::new(500, Level::Error, text) })
    }

    fn give_back(&mut self, outcome: Outcome) {
        if let Some(lease) = self.lease.take() {
            lease.done(outcome, self.stream.hand_on());
        }
    }

    /// Whether the connection can serve another request: the response is complete, and the whole request has been sent.
    pub(crate) fn is_reusable(&self) -> bool {
        self.state == ResponseState::Complete && self.has_sent_request()
    }

    /// The connection, for the next request.
    pub(crate) fn into_stream(mut self) -> Stream {
        self.stream.hand_on()
    }

    /// Gives the backend back after a complete response. Returns why there is no response, if the backend says so.
    fn end(&mut self, end: End) -> Option<(u16, String)> {
        self.state = match end.last || self.protocol.ends_with_connection() {
            true => ResponseState::Ended,
            false => ResponseState::Complete,
        };
        let Some(lease) = self.lease.take() else { return end.refused };
        let pid = lease.pid;
        let used = end.used.or_else(|| {
            let since = self.used?;
            Some((sys::process::processor_time(pid)?.saturating_sub(since), Duration::ZERO))
        });
        if let Some((user, system)) = used {
            self.cost.set_ended(Reaped { pid, status: Status::Exited(end.status), user, system, max_rss: 0 });
        }
        let outcome = match () {
            () if end.last => Outcome::Last,
            // The rest of the body would be taken for the next request.
            () if !self.has_sent_request() || self.protocol.ends_with_connection() => Outcome::Closed,
            () => Outcome::Ready,
        };
        lease.done(outcome, self.stream.hand_on());
        end.refused
    }
}

/// Whether a header has only one line, its status, and no body after it.
fn is_only_a_status(output: &[u8]) -> bool {
    let Some(line) = output.strip_prefix(b"Status: ") else { return false };
    let end = line.iter().position(|byte| *byte == b'\n');
    end.is_some_and(|end| matches!(&line[end + 1..], b"\n" | b"\r\n"))
}

impl Source for BackendExchange {
    fn poll_next(&mut self, cx: &mut Context<'_>, request: &Request, output: &mut Vec<u8>) -> Poll<Event> {
        if process::is_ending() {
            return Poll::Pending;
        }
        if let Some(failure) = self.failure.take() {
            self.state = ResponseState::Ended;
            return Poll::Ready(Event::Failed(failure));
        }
        if self.has_ended() {
            return Poll::Ready(Event::Ended);
        }
        let has_more_input = match self.feed(cx) {
            Ok(has_more_input) => has_more_input,
            Err(_) if self.is_data => {
                let text = format!("{}: it became shorter while it was being read", request.mapped.filename);
                let failure = Failure::new(500, Level::Error, text);
                return Poll::Ready(Event::Failed(failure));
            }
            Err(error) => return Poll::Ready(Event::Body(error)),
        };
        for _ in 0..STEPS {
            match self.receive(cx, request, output) {
                Poll::Ready(Some(event)) => return Poll::Ready(event),
                Poll::Ready(None) => {}
                Poll::Pending if has_more_input => return Poll::Ready(Event::Busy),
                Poll::Pending => {
                    if self.awaiting_client && (self.reached == Reached::Response || !self.is_tunnel) {
                        // The backend may be waiting for its input, and so are we: the body has its own deadline.
                        self.active = Instant::now();
                        return Poll::Pending;
                    }
                    return self.timer.poll_passed(cx, self.active + self.timeout).map(|()| Event::TimedOut);
                }
            }
        }
        Poll::Ready(Event::Busy)
    }

    fn has_ended(&self) -> bool {
        self.state != ResponseState::Open && self.failure.is_none()
    }

    fn settle(&mut self) {}

    fn touch(&mut self) {
        self.active = Instant::now();
    }

    fn body_start(&self) -> &[u8] {
        &[]
    }
}

impl Drop for BackendExchange {
    fn drop(&mut self) {
        let position = self.frames.position();
        let outcome = match self.has_sent_request() {
            true if position.len() <= POSITION_MAX => Outcome::Abandoned(position),
            // A runtime takes the end of the connection for the end of its request, and then closes the connection, too.
            false if self.protocol == Protocol::Runtime => Outcome::Cut,
            // Others may wait for the rest of their input for ever.
            _ => Outcome::Broken,
        };
        self.give_back(outcome);
    }
}
