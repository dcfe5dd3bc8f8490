//! One request and its response over a connection, in AJP/1.3.
//!
//! The two sides take turns: the backend asks for each further piece of the request's body, so that nothing has to be sent
//! while something is awaited.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes};
use runtime::CoopBudget;
use runtime::executor::timeout;
use server::{BodyError, RequestBody};
use upstream::{Connection, Stream};

use super::packet::{BadPacket, HEADER, Message, body_header, length, ping, room};

/// The room for what is received at once, in bytes.
const PIECE: usize = 16 * 1024;

/// Why there is no response, or no more of it.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection ended too early. `None`: the backend closed it.
    Lost(Option<io::Error>),
    /// A packet is malformed.
    Malformed(BadPacket),
    /// A packet comes where it has no meaning.
    Unexpected(&'static str),
    /// The backend has been silent for too long.
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
            Failure::Unexpected(what) => f.write_str(what),
            Failure::TimedOut => f.write_str("it has been silent for too long"),
            Failure::Body(error) => error.fmt(f),
        }
    }
}

/// A request and its response.
pub(super) struct Exchange {
    stream: Stream,
    /// Received, and not yet looked at.
    received: Bytes,
    body: RequestBody,
    /// Read from the request's body, and not yet sent.
    piece: Bytes,
    /// The longest packet.
    most: usize,
    timeout: Duration,
    has_begun: bool,
    has_sent_body: bool,
    /// A backend may send any number of packets that hold nothing.
    budget: CoopBudget,
}

impl Exchange {
    /// An exchange over a connection, with packets of at most `most` bytes. `timeout`: how long the backend may be silent.
    pub(super) fn new(connection: Connection, body: RequestBody, most: usize, timeout: Duration) -> Exchange {
        Exchange {
            stream: Stream::new(connection),
            received: Bytes::new(),
            body,
            piece: Bytes::new(),
            most,
            timeout,
            has_begun: false,
            has_sent_body: false,
            budget: CoopBudget::new(),
        }
    }

    /// Whether anything of a response has come.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether anything of the request's body was sent, so that nobody else can get it.
    pub(super) fn has_sent_body(&self) -> bool {
        self.has_sent_body
    }

    /// Asks the backend whether it is alive, and waits for the answer.
    pub(super) async fn ping(&mut self, within: Duration) -> Result<(), Failure> {
        let answered = timeout(within, async {
            self.write(ping()).await?;
            self.receive().await
        });
        match answered.await {
            Ok(Ok(Message::Pong)) => {
                self.has_begun = false;
                Ok(())
            }
            Ok(Ok(_)) => Err(Failure::Unexpected("it answers CPING with another packet than CPONG")),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::TimedOut),
        }
    }

    /// Sends the packet with the request, and the first piece of its body: the backend waits for that if it knows the length.
    pub(super) async fn begin(&mut self, forward: Bytes) -> Result<(), Failure> {
        self.send(forward).await?;
        match self.body.length() {
            Some(1..) => self.send_body(self.most).await,
            _ => Ok(()),
        }
    }

    /// Sends the next piece of the request's body, of at most so many bytes.
    pub(super) async fn send_body(&mut self, wanted: usize) -> Result<(), Failure> {
        while self.piece.is_empty() {
            match self.body.read().await.map_err(Failure::Body)? {
                Some(piece) => self.piece = piece,
                None => break,
            }
        }
        let most = room(self.most);
        let wanted = if wanted == 0 { most } else { wanted.min(most) };
        let piece = self.piece.split_to(wanted.min(self.piece.len()));
        self.has_sent_body = true;
        self.send(body_header(piece.len())).await?;
        self.send(piece).await
    }

    /// The next packet of the backend.
    pub(super) async fn next(&mut self) -> Result<Message, Failure> {
        self.budget.step().await;
        let time = self.timeout;
        timeout(time, self.receive()).await.unwrap_or(Err(Failure::TimedOut))
    }

    /// The next packet, if it is here already.
    pub(super) fn here(&mut self) -> Result<Option<Message>, Failure> {
        match length(&self.received, self.most).map_err(Failure::Malformed)? {
            Some(length) if length <= self.received.len() => {
                let mut packet = self.received.split_to(length);
                packet.advance(HEADER);
                Message::parse(packet).map(Some).map_err(Failure::Malformed)
            }
            _ => Ok(None),
        }
    }

    async fn receive(&mut self) -> Result<Message, Failure> {
        loop {
            if let Some(message) = self.here()? {
                return Ok(message);
            }
            let mut received = Vec::with_capacity(self.received.len() + PIECE);
            received.extend_from_slice(&self.received);
            let count = poll_fn(|cx| self.stream.poll_read(cx, &mut received)).await;
            if count.map_err(|error| Failure::Lost(Some(error)))? == 0 {
                return Err(Failure::Lost(None));
            }
            self.has_begun = true;
            self.received = received.into();
        }
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), Failure> {
        let time = self.timeout;
        timeout(time, self.write(bytes)).await.unwrap_or(Err(Failure::TimedOut))
    }

    async fn write(&mut self, mut bytes: Bytes) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let sent = poll_fn(|cx| self.stream.poll_write(cx, &bytes)).await;
            bytes.advance(sent.map_err(|error| Failure::Lost(Some(error)))?);
        }
        Ok(())
    }

    /// The connection, for another request. `None`: something has come that nobody has asked for.
    pub(super) fn into_connection(self) -> Option<Connection> {
        self.stream.into_connection().filter(|_| self.received.is_empty())
    }
}
