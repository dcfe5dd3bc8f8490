//! One request and its response over a connection that others may share, in HTTP/2 (RFC 9113).
//!
//! The request's body goes out while the response is awaited and read, as fast as the server opens its windows. What comes of the
//! response waits here, at most a [window](mod@link) of it, until it is asked for.

mod link;
mod links;

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::h2::client::Gone;
use http::h2::{At, FieldList, HeadWriter, Reason};
use runtime::executor::Timer;
use server::{BodyError, RequestBody};
use sys::time::Instant;

pub use self::link::{Head, INTERIM_MAX};
use self::link::{Lost, Slot};
use self::links::{Borrowed, give};
pub use self::links::{Link, link};

/// How many pieces of a request go out before its response gets a turn.
const STEPS: usize = 16;
/// How long a server may take to ask for a body that the client sends only if it is asked to (RFC 9110 section 10.1.1).
/// Then it is sent all the same.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// Why there is no response, or no more of it.
#[derive(Debug)]
pub enum Failure {
    /// The connection has ended too early.
    Lost(Lost),
    /// The server has said that it has not processed the request: sending it again does no harm (RFC 9113 section 8.7).
    Unprocessed,
    /// The server has reset the stream.
    Reset(Reason),
    /// The response is malformed, in this way.
    Malformed(&'static str),
    /// The server has been silent for too long.
    TimedOut,
    /// The rest of the request's body cannot be read.
    Body(BodyError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Lost(lost) => lost.fmt(f),
            Failure::Unprocessed => f.write_str("it has refused the request"),
            Failure::Reset(reason) => write!(f, "it has reset the stream ({reason})"),
            Failure::Malformed(what) => f.write_str(what),
            Failure::TimedOut => f.write_str("it has been silent for too long"),
            Failure::Body(error) => error.fmt(f),
        }
    }
}

/// A request to send.
pub struct Outgoing {
    /// Its body, if it has one.
    pub body: Option<RequestBody>,
    /// The body stays unread until the server has asked for it (`100 Continue`), or has not done so for a second.
    pub asks_first: bool,
    /// The method is HEAD.
    pub to_head: bool,
    /// How long the server may be silent.
    pub timeout: Duration,
    /// Which fields after the body are passed on, by their names in lower case.
    pub is_trailer: fn(&str) -> bool,
}

/// What has come.
enum Came<T> {
    Something(T),
    /// Nothing yet, but others should have a turn.
    Nothing,
}

/// A request and its response.
pub struct Exchange {
    borrowed: Borrowed,
    at: At,
    outgoing: Outgoing,
    /// The body is not read before this moment.
    held: Option<Instant>,
    /// The bytes of the body to send next.
    unsent: Bytes,
    /// Whether anything of the body was sent.
    has_sent_body: bool,
    /// The next piece of the body has to come from the client.
    awaiting_client: bool,
    has_begun: bool,
    timer: Timer,
    since: Instant,
    /// The last time that something happened.
    active: Instant,
}

impl Exchange {
    /// Sends a request over a connection: its head, whose fields `write` gives, those of HTTP/2 first, and after that its body.
    /// `Ok(None)`: the connection has no room any more.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn begin<E>(
        link: Link,
        outgoing: Outgoing,
        write: impl FnOnce(&mut HeadWriter<'_>) -> Result<(), E>,
    ) -> Result<Option<Exchange>, E> {
        let borrowed = link.0;
        let mut state = borrowed.wire.lock();
        let at = match state.has_room() {
            true => state.protocol.request(outgoing.body.is_none(), outgoing.to_head, write)?,
            false => None,
        };
        drop(state);
        let Some(at) = at else { return Ok(None) };
        let now = Instant::now();
        Ok(Some(Exchange {
            borrowed,
            at,
            held: outgoing.asks_first.then(|| now + CONTINUE_WAIT),
            outgoing,
            unsent: Bytes::new(),
            has_sent_body: false,
            awaiting_client: false,
            has_begun: false,
            timer: Timer::default(),
            since: now,
            active: now,
        }))
    }

    /// The server has asked for the body (`100 Continue`).
    pub fn ask_for_body(&mut self) {
        self.held = None;
    }

    /// Whether anything of a response has come.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether anything of the body was sent, so that nobody else can get it.
    pub fn has_sent_body(&self) -> bool {
        self.has_sent_body
    }

    /// What was read of the body and not sent.
    pub fn take_unsent(&mut self) -> Bytes {
        std::mem::take(&mut self.unsent)
    }

    /// Waits for the next head, interim or final.
    ///
    /// # Errors
    /// There is none.
    pub async fn next_head(&mut self) -> Result<Head, Failure> {
        let head = self.next(|slot| slot.heads.pop_front().map(|head| (head, 0))).await?;
        self.has_begun = true;
        if head.status >= 200 {
            // After the head of the final response, nobody asks for the body any more.
            self.held = None;
        }
        Ok(head)
    }

    /// Whether the whole request has been sent.
    pub fn has_sent_request(&self) -> bool {
        self.outgoing.body.is_none() && self.unsent.is_empty()
    }

    /// Whether the response has been taken to its end, and the whole request has been sent.
    pub fn is_over(&self) -> bool {
        let mut state = self.borrowed.wire.lock();
        let slot = state.protocol.stream(self.at);
        self.has_sent_request() && slot.is_some_and(|slot| slot.has_ended && slot.body.is_empty())
    }

    /// All of the response's body that is here, if that is all of it, and no fields follow.
    pub fn whole(&mut self) -> Option<Bytes> {
        let mut state = self.borrowed.wire.lock();
        let slot = state.protocol.stream(self.at)?;
        (slot.has_ended && slot.trailers.is_none()).then(|| slot.body.split().freeze())
    }

    /// The next piece of the response's body; `None` at its end.
    ///
    /// # Errors
    /// The body is incomplete.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, Failure> {
        // The client's time does not count as the server's.
        self.active = Instant::now();
        self.next(|slot| match slot.body.split().freeze() {
            piece if !piece.is_empty() => {
                let length = piece.len();
                Some((Some(piece), length))
            }
            _ => slot.has_ended.then_some((None, 0)),
        })
        .await
    }

    /// The fields after the response's body, once that has ended.
    pub fn trailers(&self) -> Option<FieldList> {
        self.borrowed.wire.lock().protocol.stream(self.at)?.trailers.clone()
    }

    /// Waits until `take` finds something, and how many bytes of the body that is.
    async fn next<T>(&mut self, take: impl Fn(&mut Slot) -> Option<(T, usize)>) -> Result<T, Failure> {
        loop {
            match poll_fn(|cx| self.poll_next(cx, &take)).await? {
                Came::Something(it) => return Ok(it),
                Came::Nothing => runtime::yield_now().await,
            }
        }
    }

    fn poll_next<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: &impl Fn(&mut Slot) -> Option<(T, usize)>,
    ) -> Poll<Result<Came<T>, Failure>> {
        let mut has_more = self.borrowed.wire.lock().drive_alone(cx);
        match self.send(cx) {
            Ok(more) => has_more |= more,
            // The response that has begun goes on without the rest of the request.
            Err(_) if self.has_begun => self.outgoing.body = None,
            Err(error) => return Poll::Ready(Err(Failure::Body(error))),
        }
        let mut state = self.borrowed.wire.lock();
        state.kick(cx);
        if !self.unsent.is_empty() && state.protocol.sends(self.at) {
            // Room that this has just made wakes nobody.
            has_more |= state.room(self.at) > 0;
        }
        let lost = state.lost.clone();
        let Some(slot) = state.protocol.stream(self.at) else {
            return Poll::Ready(Err(Failure::Lost(lost.unwrap_or(Lost::Closed))));
        };
        if let Some((it, length)) = take(slot) {
            if length > 0 {
                state.protocol.consume(self.at, length);
                state.kick(cx);
            }
            return Poll::Ready(Ok(Came::Something(it)));
        }
        self.has_begun |= slot.has_begun;
        let failure = match (slot.gone, lost) {
            (Some(Gone::Unprocessed), _) => Some(Failure::Unprocessed),
            (Some(Gone::Reset(reason)), _) => Some(Failure::Reset(reason)),
            (Some(Gone::Malformed(what)), _) => Some(Failure::Malformed(what)),
            (None, Some(lost)) => Some(Failure::Lost(lost)),
            (None, None) => None,
        };
        if let Some(failure) = failure {
            return Poll::Ready(Err(failure));
        }
        if has_more {
            return Poll::Ready(Ok(Came::Nothing));
        }
        slot.await_by(cx.waker());
        self.active = self.active.max(slot.active.unwrap_or(self.active));
        drop(state);
        if let Some(held) = self.held {
            return self.timer.poll_passed(cx, held).map(|()| {
                self.held = None;
                Ok(Came::Nothing)
            });
        }
        if self.awaiting_client {
            // The server may be waiting for the request, and so are we: its body has its own deadline.
            self.active = Instant::now();
            return Poll::Pending;
        }
        self.timer.poll_passed(cx, self.active + self.outgoing.timeout).map(|()| {
            // If nothing at all has come meanwhile, nobody may be there any more.
            self.borrowed.wire.lock().doubt(self.since);
            Err(Failure::TimedOut)
        })
    }

    /// Moves the request on; `true`: there may be more of it, but the response gets its turn.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<bool, BodyError> {
        for _ in 0..STEPS {
            if !self.unsent.is_empty() {
                let mut state = self.borrowed.wire.lock();
                if !state.protocol.sends(self.at) {
                    // It has answered, or the stream has ended.
                    self.outgoing.body = None;
                    self.unsent.clear();
                    return Ok(false);
                }
                let room = state.room(self.at).min(self.unsent.len());
                if room == 0 {
                    return Ok(false);
                }
                state.protocol.data(self.at, &self.unsent.split_to(room), false);
                self.has_sent_body = true;
                self.active = Instant::now();
                continue;
            }
            self.awaiting_client = false;
            let Some(body) = &self.outgoing.body else { return Ok(false) };
            if self.held.is_some() {
                return Ok(false);
            }
            match body.poll_read(cx) {
                Poll::Pending => {
                    self.awaiting_client = true;
                    return Ok(false);
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(Some(piece))) => self.unsent = piece,
                Poll::Ready(Ok(None)) => {
                    self.end_body();
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Sends the end of the body, and the fields after it.
    fn end_body(&mut self) {
        let Some(body) = self.outgoing.body.take() else { return };
        self.has_sent_body = true;
        let fields = body.trailers();
        let is_trailer = self.outgoing.is_trailer;
        let fields: Vec<(&str, &str)> =
            fields.iter().filter(|(name, _)| is_trailer(&name.to_ascii_lowercase())).collect();
        let mut state = self.borrowed.wire.lock();
        let write = |writer: &mut HeadWriter<'_>| {
            fields.iter().try_for_each(|(name, value)| writer.field(name, &http::text::to_bytes(value)))
        };
        // A field that cannot be sent takes the others with it: none of them is needed for the body.
        if fields.is_empty() || state.protocol.trailers(self.at, write).is_err() {
            state.protocol.data(self.at, &[], true);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.borrowed.wire.lock().release(self.at);
        give(&self.borrowed);
    }
}
