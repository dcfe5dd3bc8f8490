//! The body of a request on its way into a script.

use std::io::{self, PipeReader};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use server::{BodyError, RequestBody};

use crate::process::pipe::Writer;

/// How many pieces are received or written before others get their turn: a client that sends without end and a script
/// that reads without end never make each other wait.
const STEPS: usize = 16;

/// A body, and the pipe it goes into.
pub(crate) struct Input {
    pipe: Writer,
    body: RequestBody,
    /// Received, but not written yet.
    piece: Bytes,
    /// The beginning of the body, and how much of it to keep.
    kept: Vec<u8>,
    kept_max: usize,
    /// Something was written since the last call of `has_moved`.
    moved: bool,
}

/// Why nothing more goes into the script.
#[derive(Debug)]
pub(crate) enum InputStopped {
    /// The rest of the body cannot be read.
    Body(BodyError),
    /// The script reads no further.
    Script(io::Error),
}

impl Input {
    /// A new pipe for a body, with the script's end of it. The first `kept_max` bytes are remembered.
    pub(crate) fn new(body: RequestBody, kept_max: usize) -> io::Result<(PipeReader, Input)> {
        let (reads, writes) = io::pipe()?;
        let pipe = Writer::new(writes)?;
        Ok((reads, Input { pipe, body, piece: Bytes::new(), kept: Vec::new(), kept_max, moved: false }))
    }

    /// Moves the body on, until all of it is written (`true`), or so much that other connections should get their turn.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, InputStopped>> {
        for _ in 0..STEPS {
            if self.piece.is_empty() {
                let Some(piece) = ready!(self.body.poll_read(cx)).map_err(InputStopped::Body)? else {
                    return Poll::Ready(Ok(true));
                };
                let room = self.kept_max.saturating_sub(self.kept.len());
                self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
                self.piece = piece;
            } else {
                let written = ready!(self.pipe.poll_write(cx, &self.piece)).map_err(InputStopped::Script)?;
                self.piece.advance(written);
                self.moved = true;
            }
        }
        Poll::Ready(Ok(false))
    }

    /// Whether the next piece has to come from the client.
    pub(crate) fn is_awaiting_client(&self) -> bool {
        self.piece.is_empty()
    }

    /// Whether anything was written since the last call.
    pub(crate) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// The kept beginning.
    pub(crate) fn into_kept(self) -> Vec<u8> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use server::{BodySource, Fields};

    use super::*;

    /// An endless client that sends a byte at a time.
    struct Endless;

    impl BodySource for Endless {
        fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
            Poll::Ready(Ok(Some(Bytes::from_static(b"x"))))
        }

        fn length(&self) -> Option<u64> {
            None
        }

        fn is_done(&self) -> bool {
            false
        }

        fn trailers(&self) -> Fields {
            Fields::default()
        }
    }

    #[test]
    fn a_body_without_end_leaves_others_their_turn() {
        let (mut reads, mut input) = Input::new(RequestBody::new(Box::new(Endless)), 0).expect("a pipe");
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(input.poll(&mut cx), Poll::Ready(Ok(false))));
        let mut written = [0; STEPS];
        let count = io::Read::read(&mut reads, &mut written).expect("what was written");
        assert!((1..STEPS).contains(&count), "{count}");
    }
}
