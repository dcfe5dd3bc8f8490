//! A stream, as those see it who serve its request.

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::h1::response::BadField;
use http::h2::{At, FieldList, Gone, HeadWriter, Reason};

use super::wire::Wire;
use crate::message::body::BodyError;
use crate::message::fields::Fields;
use crate::message::head::RequestHead;
use crate::message::interim::{Interim, SendingInterim};

/// A stream. Its last owner ends it.
pub(super) struct OpenStream {
    pub(super) wire: Arc<Wire>,
    at: At,
    /// The protocol of an extended CONNECT (RFC 8441 section 4).
    protocol: Option<String>,
}

/// What has come of a request's body.
pub(super) enum Came {
    Piece(Bytes),
    /// The end, and the fields after the body.
    End(Option<FieldList>),
}

impl OpenStream {
    pub(super) fn new(wire: Arc<Wire>, at: At, protocol: Option<String>) -> OpenStream {
        OpenStream { wire, at, protocol }
    }

    pub(super) fn number(&self) -> u32 {
        self.at.number()
    }

    /// Sends a head. Returns the size of its fields in bytes, without compression; `None`: the stream has ended. `ends`: no body
    /// follows.
    pub(super) fn head<E>(
        &self,
        status: u16,
        ends: bool,
        write: impl FnOnce(&mut HeadWriter<'_>) -> Result<(), E>,
    ) -> Result<Option<u64>, E> {
        let mut size = 0;
        let write = |writer: &mut HeadWriter<'_>| {
            write(writer)?;
            size = writer.size();
            Ok(())
        };
        let is_sent = self.wire.lock().protocol.head(self.at, status, ends, write)?;
        Ok(is_sent.then_some(size))
    }

    /// Sends a head, and the body after it if there is room for all of it. Returns the size of the head's fields in bytes, without
    /// compression, and whether that was the whole response; `None`: the stream has ended.
    pub(super) fn respond(
        &self,
        status: u16,
        body: &[u8],
        largest: usize,
        write: impl FnOnce(&mut HeadWriter<'_>),
    ) -> Option<(u64, bool)> {
        let mut state = self.wire.lock();
        if state.is_over() {
            return None;
        }
        if body.len() <= largest && state.has_room(self.at, body.len()) {
            return state.respond(self.at, status, body, write).map(|size| (size, true));
        }
        drop(state);
        let sent: Result<_, Infallible> = self.head(status, false, |writer| {
            write(writer);
            Ok(())
        });
        sent.unwrap_or_else(|never| match never {}).map(|size| (size, false))
    }

    /// Sends the fields after a response's body, which end it. `Err`: one of them cannot be sent, and nothing is.
    pub(super) fn trailers(&self, fields: &Fields) -> Result<(), BadField> {
        self.wire.lock().protocol.trailers(self.at, |writer| {
            fields.iter().try_for_each(|(name, value)| writer.field(name, &http::text::to_bytes(value)))
        })
    }

    /// Sends `100 Continue`.
    pub(super) fn go_on(&self) {
        // If the stream is gone, the reader of the body notices that.
        let _: Result<_, io::Error> = self.head(100, false, |_| Ok(()));
    }

    /// Sends a piece of a body, for which there has to be [room](Self::poll_room). `Err`: the stream has ended.
    pub(super) fn data(&self, bytes: &[u8], ends: bool) -> Result<(), Ended> {
        let mut state = self.wire.lock();
        if state.is_over() || !state.protocol.sends(self.at) {
            return Err(Ended);
        }
        state.protocol.data(self.at, bytes, ends);
        Ok(())
    }

    /// Sends a piece of a file, for which there has to be [room](Self::poll_room): at most `most` bytes, and the last ones if
    /// `left` are read. Returns how many were read.
    pub(super) fn data_of(&self, file: &OwnedFd, offset: u64, most: usize, left: u64) -> io::Result<usize> {
        let last = usize::try_from(left).unwrap_or(usize::MAX);
        let read = |into: &mut [u8]| sys::file::read_at(file, into, offset);
        self.wire.lock().protocol.data_from(self.at, most, last, read)
    }

    /// How many of the `wanted` bytes may be sent now; `None`: the stream has ended.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>, wanted: usize) -> Poll<Option<usize>> {
        self.wire.lock().poll_room(cx, self.at, wanted)
    }

    /// How much was sent over the connection, if that is more than `before`, and the stream only waits for its turn.
    pub(super) fn progress(&self, before: u64) -> Option<u64> {
        self.wire.lock().progress(self.at, before)
    }

    /// Ready once the stream has ended early.
    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.wire.lock().poll_gone(cx, self.at)
    }

    /// The result of `task`; `None` once the stream has ended early.
    pub(super) async fn unless_gone<T>(&self, task: impl Future<Output = T>) -> Option<T> {
        let mut task = pin!(task);
        poll_fn(|cx| match task.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => self.poll_gone(cx).map(|()| None),
        })
        .await
    }

    /// Ends the stream without the rest of its response, so that the client does not take a part for the whole.
    pub(super) fn reset(&self, reason: Reason) {
        self.wire.lock().reset(self.at, reason);
    }

    /// What comes next of the request's body.
    pub(super) fn poll_received(&self, cx: &mut Context<'_>) -> Poll<Result<Came, BodyError>> {
        let mut state = self.wire.lock();
        let is_over = state.is_over();
        let Some(stream) = state.protocol.stream(self.at) else { return Poll::Ready(Err(BodyError::Closed)) };
        if let Some(piece) = stream.pop() {
            return Poll::Ready(Ok(Came::Piece(piece)));
        }
        match stream.gone {
            _ if stream.has_ended => Poll::Ready(Ok(Came::End(stream.trailers.take()))),
            _ if stream.is_cut => Poll::Ready(Err(BodyError::Malformed)),
            Some(Gone::Malformed) => Poll::Ready(Err(BodyError::Malformed)),
            Some(Gone::Reset(_)) => Poll::Ready(Err(BodyError::Closed)),
            None if is_over => Poll::Ready(Err(BodyError::Closed)),
            None => {
                stream.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// So much of the body was passed on: the client may send as much again.
    pub(super) fn consume(&self, bytes: usize) {
        self.wire.lock().protocol.consume(self.at, bytes);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.wire.lock().release(self.at);
    }
}

/// The stream has ended.
#[derive(Debug)]
pub(super) struct Ended;

impl From<Ended> for io::Error {
    fn from(_: Ended) -> io::Error {
        io::ErrorKind::ConnectionReset.into()
    }
}

impl Interim for OpenStream {
    fn send<'a>(&'a self, _: &'a RequestHead, status: u16, fields: &'a Fields, _: Duration) -> SendingInterim<'a> {
        Box::pin(async move {
            let sent = self.head(status, false, |writer| {
                fields.iter().try_for_each(|(name, value)| writer.field(name, &http::text::to_bytes(value)))
            });
            match sent {
                Ok(size) => size.ok_or_else(|| Ended.into()),
                Err(bad) => Err(io::Error::new(io::ErrorKind::InvalidData, bad)),
            }
        })
    }

    fn tunnel_for<'h>(&self, _: &'h RequestHead) -> Option<Cow<'h, [u8]>> {
        Some(Cow::Owned(self.protocol.as_ref()?.clone().into_bytes()))
    }
}
