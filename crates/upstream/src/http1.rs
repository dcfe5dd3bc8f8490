//! One request and its response over a connection, in HTTP/1.1 (RFC 9112).
//!
//! The request's body goes out while the response is awaited and read: neither side can make the other wait for ever.
//! Nothing is gathered. A response's body is passed on in the pieces in which it is received, without being copied.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::io::Write as _;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::h1::chunked::{ChunkError, Chunked, Step};
use http::h1::received::{BadResponse, BodyEnd, ResponseHead};
use http::{Limits, Parse};
use runtime::executor::Timer;
use server::{BodyError, RequestBody};
use sys::pipe::Pipe;
use sys::time::Instant;

use crate::connection::Connection;
use crate::room::{Memory, Room};
use crate::stream::Stream;

/// The room for the first bytes of a response: most are no longer.
const FIRST_PIECE: usize = 8 * 1024;
/// What comes with the head is copied up to this length, in bytes, so that the memory stays.
const COPIED_MAX: usize = 4 * 1024;
/// The room for each further piece of a body, in bytes.
const PIECE: usize = 64 * 1024;
/// A body goes past this process if so much of it is left when its beginning has gone out, in bytes: otherwise one piece holds that.
const SPLICED_MIN: u64 = PIECE as u64;
/// How many pieces of a request go out before its response gets a turn.
const STEPS: usize = 16;
/// How long a server may take to ask for a body that the client sends only if it is asked to (RFC 9110 section 10.1.1).
/// Then it is sent all the same.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// How the body of a request goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// As it is: its length is in the head.
    Length,
    /// In chunks.
    Chunked,
}

/// Why there is no response, or no more of it.
#[derive(Debug)]
pub enum Failure {
    /// The connection ended too early. `None`: the server closed it.
    Lost(Option<io::Error>),
    /// The response is malformed.
    Malformed(BadResponse),
    /// The chunks of its body are malformed.
    Chunks(ChunkError),
    /// The server has been silent for too long.
    TimedOut,
    /// The rest of the request's body cannot be read.
    Body(BodyError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Lost(None) => f.write_str("it closed the connection"),
            Failure::Lost(Some(error)) => f.write_str(&sys::describe(error)),
            Failure::Malformed(bad) => bad.fmt(f),
            Failure::Chunks(bad) => bad.fmt(f),
            Failure::TimedOut => f.write_str("it has been silent for too long"),
            Failure::Body(error) => error.fmt(f),
        }
    }
}

/// The body of the request, on its way out.
struct Outgoing {
    body: RequestBody,
    coding: Coding,
    /// It is not read before the server asks for it, or this moment has come.
    held: Option<Instant>,
}

/// What remains of a response's body.
#[derive(Debug)]
enum Rest {
    /// Its head has not been taken yet.
    Unknown,
    Length(u64),
    Chunked(Box<Chunked>),
    Close,
    /// It is complete.
    Nothing,
}

/// What has come over the connection.
enum Came {
    Bytes,
    End,
    /// Nothing yet, but others should have a turn.
    Nothing,
}

/// A request and its response.
pub struct Exchange {
    stream: Stream,
    /// The heads of the request, and of the response until that has been taken.
    room: Room,
    /// How much of the request's head has been sent.
    head_sent: usize,
    /// The bytes of its body to send next.
    unsent: Bytes,
    outgoing: Option<Outgoing>,
    /// The server reads no further.
    input_closed: bool,
    /// The next piece of the request's body has to come from the client.
    awaiting_client: bool,
    head_length: usize,
    /// The length of the final head, once that was taken, while it is there.
    taken: usize,
    /// Received after the head, and not yet looked at.
    undecoded: Bytes,
    /// Decoded, and not yet passed on.
    decoded: Bytes,
    rest: Rest,
    /// Its body has begun to go through a pipe.
    is_spliced: bool,
    /// The server lets the connection stay open.
    keeps: bool,
    has_begun: bool,
    timer: Timer,
    timeout: Duration,
    /// The last time that something happened.
    active: Instant,
}

impl Exchange {
    /// Sends a request over a connection: its head, which is in the room, and after that its body, if there is one. `timeout`:
    /// how long the server may be silent.
    pub fn new(stream: Stream, room: Room, body: Option<(RequestBody, Coding)>, timeout: Duration) -> Exchange {
        let outgoing = body.map(|(body, coding)| Outgoing { body, coding, held: None });
        Exchange {
            stream,
            room,
            head_sent: 0,
            unsent: Bytes::new(),
            outgoing,
            input_closed: false,
            awaiting_client: false,
            head_length: 0,
            taken: 0,
            undecoded: Bytes::new(),
            decoded: Bytes::new(),
            rest: Rest::Unknown,
            is_spliced: false,
            keeps: false,
            has_begun: false,
            timer: Timer::default(),
            timeout,
            active: Instant::now(),
        }
    }

    /// Goes on with a request that was sent at this time, so much of its head at least; what has come of the response is in the room.
    pub(crate) fn begun(
        stream: Stream,
        room: Room,
        (since, head_sent): (Instant, usize),
        timeout: Duration,
    ) -> Exchange {
        let has_begun = !room.received.is_empty();
        let new = Exchange::new(stream, room, None, timeout);
        let active = if has_begun { new.active } else { since };
        Exchange { head_sent, has_begun, active, ..new }
    }

    /// Leaves the request's body unread until the server has asked for it with [`ask_for_body`](Self::ask_for_body), or
    /// has not done so for a second.
    pub fn hold_body(&mut self) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.held = Some(Instant::now() + CONTINUE_WAIT);
        }
    }

    /// The server has asked for the body (`100 Continue`).
    pub fn ask_for_body(&mut self) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.held = None;
        }
    }

    /// Whether anything of a response has come.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Waits for the next head, interim or final; [`head`](Self::head) shows it.
    ///
    /// # Errors
    /// There is none, and the connection is of no further use.
    pub async fn next_head(&mut self) -> Result<(), Failure> {
        if self.head_length > 0 {
            self.room.received.drain(..self.head_length);
            self.head_length = 0;
        }
        loop {
            let Memory { received, head, .. } = &mut *self.room;
            if !received.is_empty()
                && let Parse::Complete { len } = head.parse(received).map_err(Failure::Malformed)?
            {
                self.head_length = len;
                return Ok(());
            }
            match poll_fn(|cx| self.poll_more(cx)).await? {
                Came::Bytes => {}
                Came::End => return Err(Failure::Lost(None)),
                Came::Nothing => runtime::yield_now().await,
            }
        }
    }

    /// The head that has come last, and the bytes that it refers to.
    pub fn head(&self) -> (&ResponseHead, &[u8]) {
        (&self.room.head, &self.room.received[..self.head_length])
    }

    /// Goes on to the body of the response whose head has come last, and [ends](ResponseHead::body_end) there. Returns the
    /// body's length, if it is known.
    pub fn begin_body(&mut self, end: BodyEnd) -> Option<u64> {
        let Memory { received, head, .. } = &mut *self.room;
        self.keeps = head.keeps_connection(received);
        let rest = &received[self.head_length..];
        self.taken = self.head_length;
        self.undecoded = match rest.len() {
            0 => Bytes::new(),
            1..=COPIED_MAX => Bytes::copy_from_slice(rest),
            _ => {
                self.taken = 0;
                let mut all = Bytes::from(std::mem::take(received));
                all.advance(self.head_length);
                all
            }
        };
        self.head_length = 0;
        let (rest, length) = match end {
            BodyEnd::None | BodyEnd::Length(0) => (Rest::Nothing, Some(0)),
            BodyEnd::Length(length) => (Rest::Length(length), Some(length)),
            BodyEnd::Chunked => (Rest::Chunked(Box::new(Chunked::new(&Limits::default()))), None),
            BodyEnd::Close => (Rest::Close, None),
        };
        self.rest = rest;
        length
    }

    /// The head of the request, and the final head of the response with the bytes that it refers to, if they are there still.
    pub fn heads(&self) -> Option<(&[u8], &ResponseHead, &[u8])> {
        let Memory { request, received, head } = &*self.room;
        (self.taken > 0).then(|| (&request[..], head, &received[..self.taken]))
    }

    /// The whole body of the response, if it has been received already.
    ///
    /// # Errors
    /// It is malformed.
    pub fn whole(&mut self) -> Result<Option<Bytes>, Failure> {
        let (body, is_whole) = self.decode_all()?;
        if is_whole {
            return Ok(Some(body));
        }
        self.decoded = body;
        Ok(None)
    }

    /// All of the body that has been received, copied only if it came in several chunks; whether that is its end.
    fn decode_all(&mut self) -> Result<(Bytes, bool), Failure> {
        let (mut first, mut all) = (Bytes::new(), Vec::new());
        loop {
            match self.decode()? {
                Some(piece) if piece.is_empty() => return Ok((joined(first, all), true)),
                None => return Ok((joined(first, all), false)),
                Some(piece) if first.is_empty() => first = piece,
                Some(piece) => {
                    if all.is_empty() {
                        all.extend_from_slice(&first);
                    }
                    all.extend_from_slice(&piece);
                }
            }
        }
    }

    /// The next piece of the response's body; `None` at its end.
    ///
    /// # Errors
    /// The body is incomplete.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, Failure> {
        // The client's time does not count as the server's.
        self.active = Instant::now();
        if !self.decoded.is_empty() {
            return Ok(Some(std::mem::take(&mut self.decoded)));
        }
        loop {
            match self.decode_all()? {
                (piece, _) if !piece.is_empty() => return Ok(Some(piece)),
                (_, true) => {
                    self.send_rest().await;
                    return Ok(None);
                }
                (_, false) => {}
            }
            match poll_fn(|cx| self.poll_more(cx)).await? {
                Came::Bytes => {}
                Came::End if matches!(self.rest, Rest::Close) => {
                    self.rest = Rest::Nothing;
                    self.keeps = false;
                }
                Came::End => return Err(Failure::Lost(None)),
                Came::Nothing => runtime::yield_now().await,
            }
        }
    }

    /// Sends what is left of the request once its response is complete: a server that keeps the connection open reads on. What fails
    /// now is no fault of the response.
    async fn send_rest(&mut self) {
        if !self.owes_request() {
            return;
        }
        while poll_fn(|cx| self.poll_rest(cx)).await {
            runtime::yield_now().await;
        }
        // A server that has not waited for the body may take it for another request, whose response nobody else must get.
        self.keeps = false;
    }

    /// Whether the server, which has answered, may read what is left of the request.
    fn owes_request(&self) -> bool {
        // A client that was not asked for its body, and has the response, does not send it.
        let is_held = self.outgoing.as_ref().is_some_and(|outgoing| outgoing.held.is_some());
        self.keeps && !is_held && !self.input_closed && !self.has_sent_request()
    }

    /// Moves on what is left of the request; `false`: nobody wants more of it.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match self.send(cx) {
            Ok(true) => return Poll::Ready(true),
            Ok(false) if self.owes_request() => {}
            Ok(false) | Err(_) => return Poll::Ready(false),
        }
        // What comes now belongs to no request.
        if self.stream.poll_read(cx, &mut Vec::with_capacity(1)).is_ready() {
            return Poll::Ready(false);
        }
        // Reading may have sent the last of it.
        if !self.owes_request() {
            return Poll::Ready(false);
        }
        if self.awaiting_client {
            self.active = Instant::now();
            return Poll::Pending;
        }
        self.timer.poll_passed(cx, self.active + self.timeout).map(|()| false)
    }

    /// Whether the rest of the body may go through a pipe: it is long, and comes as it is.
    pub fn splices(&self) -> bool {
        let is_long = match self.rest {
            Rest::Length(left) => self.is_spliced || left >= SPLICED_MIN,
            Rest::Close => true,
            Rest::Unknown | Rest::Chunked(_) | Rest::Nothing => false,
        };
        is_long
            && self.undecoded.is_empty()
            && self.decoded.is_empty()
            && self.has_sent_request()
            && self.stream.is_plain()
    }

    /// Moves what comes next of a body that [splices](Self::splices) into an empty pipe. Nothing: it is complete.
    ///
    /// # Errors
    /// The body is incomplete.
    pub async fn splice(&mut self, pipe: &mut Pipe) -> Result<(), Failure> {
        // The client's time does not count as the server's.
        self.active = Instant::now();
        self.is_spliced = true;
        let most = match self.rest {
            Rest::Length(left) => usize::try_from(left).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let moved = poll_fn(|cx| match self.stream.poll_splice(cx, pipe, most) {
            Poll::Ready(moved) => Poll::Ready(moved.map_err(|error| Failure::Lost(Some(error)))),
            Poll::Pending => self.timer.poll_passed(cx, self.active + self.timeout).map(|()| Err(Failure::TimedOut)),
        });
        match (moved.await?, &mut self.rest) {
            (0, Rest::Close) => {
                self.rest = Rest::Nothing;
                self.keeps = false;
            }
            (0, _) => return Err(Failure::Lost(None)),
            (moved, Rest::Length(left)) => {
                *left -= moved as u64;
                if *left == 0 {
                    self.rest = Rest::Nothing;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The next piece of what has been received; an empty one is the end, and `None` means that more has to come.
    fn decode(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if matches!(self.rest, Rest::Nothing) {
                return Ok(Some(Bytes::new()));
            }
            if self.undecoded.is_empty() {
                return Ok(None);
            }
            match &mut self.rest {
                Rest::Nothing | Rest::Unknown => return Ok(None),
                Rest::Close => return Ok(Some(std::mem::take(&mut self.undecoded))),
                Rest::Length(left) => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(self.undecoded.len());
                    *left -= length as u64;
                    if *left == 0 {
                        self.rest = Rest::Nothing;
                    }
                    return Ok(Some(self.undecoded.split_to(length)));
                }
                Rest::Chunked(chunked) => match chunked.decode(&self.undecoded).map_err(Failure::Chunks)? {
                    Step::More => self.undecoded.clear(),
                    Step::Data(range) => {
                        self.undecoded.advance(range.start);
                        return Ok(Some(self.undecoded.split_to(range.len())));
                    }
                    Step::End(length) => {
                        self.undecoded.advance(length);
                        self.rest = Rest::Nothing;
                    }
                },
            }
        }
    }

    /// Whether the whole request has been sent.
    pub fn has_sent_request(&self) -> bool {
        self.head_sent == self.room.request.len()
            && self.unsent.is_empty()
            && self.outgoing.is_none()
            && !self.input_closed
            && !self.stream.has_unsent()
    }

    /// Whether the connection can carry another request: this one and its response are complete, nothing has come after
    /// that, and the server lets it stay open.
    pub fn is_reusable(&self) -> bool {
        self.keeps
            && matches!(self.rest, Rest::Nothing)
            && self.undecoded.is_empty()
            && self.decoded.is_empty()
            && self.has_sent_request()
    }

    /// The connection, after an exchange that leaves it [reusable](Self::is_reusable).
    pub fn into_connection(self) -> Option<Connection> {
        self.stream.into_connection()
    }

    /// The connection with the reactor's state of it, after an exchange that leaves it [reusable](Self::is_reusable).
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// The connection, and what has come after the head: another protocol goes on.
    pub fn into_tunnel(mut self) -> (Option<Connection>, Bytes) {
        let mut rest = Bytes::from(std::mem::take(&mut self.room.received));
        rest.advance(self.head_length);
        (self.stream.into_connection(), rest)
    }

    /// The memory with the head of the request, which may be sent once more.
    pub fn into_room(self) -> Room {
        let mut room = self.room;
        room.received.clear();
        room.head.clear();
        room
    }

    /// Moves the request on, and waits for more of the response.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<Came, Failure>> {
        let has_more_input = self.send(cx).map_err(Failure::Body)?;
        // Beyond the head, the buffer is another one, and what comes goes on at once.
        let is_head = matches!(self.rest, Rest::Unknown);
        let mut piece = Vec::new();
        let received = if is_head { &mut self.room.received } else { &mut piece };
        received.reserve(if is_head { FIRST_PIECE } else { PIECE });
        match self.stream.poll_read(cx, received) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Ok(Came::End)),
            Poll::Ready(Ok(_)) => {
                if !is_head {
                    self.undecoded = piece.into();
                }
                self.has_begun = true;
                self.active = Instant::now();
                return Poll::Ready(Ok(Came::Bytes));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Lost(Some(error)))),
            Poll::Pending if has_more_input => return Poll::Ready(Ok(Came::Nothing)),
            Poll::Pending => {}
        }
        // After the head of the final response, nobody asks for the body any more.
        let held = self.outgoing.as_ref().and_then(|outgoing| outgoing.held);
        if let Some(held) = held.filter(|_| matches!(self.rest, Rest::Unknown)) {
            return self.timer.poll_passed(cx, held).map(|()| {
                self.ask_for_body();
                Ok(Came::Nothing)
            });
        }
        if self.awaiting_client {
            // The server may be waiting for the request, and so are we: its body has its own deadline.
            self.active = Instant::now();
            return Poll::Pending;
        }
        self.timer.poll_passed(cx, self.active + self.timeout).map(|()| Err(Failure::TimedOut))
    }

    /// Moves the request on; `true`: there may be more of it, but the response gets its turn.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<bool, BodyError> {
        for _ in 0..STEPS {
            loop {
                let head = &self.room.request[self.head_sent..];
                let is_head = !head.is_empty();
                let next = if is_head { head } else { &self.unsent };
                if next.is_empty() {
                    break;
                }
                match self.stream.poll_write(cx, next) {
                    Poll::Pending => return Ok(false),
                    Poll::Ready(Ok(sent)) => {
                        match is_head {
                            true => self.head_sent += sent,
                            false => self.unsent.advance(sent),
                        }
                        self.active = Instant::now();
                    }
                    // It may have answered all the same.
                    Poll::Ready(Err(_)) => {
                        self.input_closed = true;
                        self.head_sent = self.room.request.len();
                        self.unsent.clear();
                    }
                }
            }
            self.awaiting_client = false;
            let Some(outgoing) = &self.outgoing else { return Ok(false) };
            if self.input_closed || outgoing.held.is_some() {
                return Ok(false);
            }
            match outgoing.body.poll_read(cx) {
                Poll::Pending => {
                    self.awaiting_client = true;
                    return Ok(false);
                }
                // The response that has begun goes on without the rest of the request.
                Poll::Ready(Err(_)) if !matches!(self.rest, Rest::Unknown) => self.input_closed = true,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(piece)) => {
                    let coding = outgoing.coding;
                    if piece.is_none() {
                        self.outgoing = None;
                    }
                    self.unsent = match coding {
                        Coding::Length => piece.unwrap_or_default(),
                        Coding::Chunked => chunk(piece.as_deref().unwrap_or_default()),
                    };
                }
            }
        }
        Ok(true)
    }
}

/// The first piece, or all pieces if there were more.
fn joined(first: Bytes, all: Vec<u8>) -> Bytes {
    if all.is_empty() { first } else { all.into() }
}

/// A chunk with this content (RFC 9112 section 7.1); the last one if that is empty.
fn chunk(content: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(content.len() + 16);
    // Writing into memory never fails.
    let _ = write!(out, "{:x}\r\n", content.len());
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n");
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks() {
        assert_eq!(&*chunk(b""), b"0\r\n\r\n");
        assert_eq!(&*chunk(&[b'x'; 17]), b"11\r\nxxxxxxxxxxxxxxxxx\r\n");
    }
}
