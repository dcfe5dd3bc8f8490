//! The body of a request on its way into a script.

use std::io::{self, PipeReader};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use server::{BodyError, RequestBody};

use crate::pipe::Writer;

/// A body, and the pipe it goes into.
pub(crate) struct Input {
    pipe: Writer,
    body: RequestBody,
    /// Received, and not written yet.
    piece: Bytes,
    /// The beginning of the body, and how much of it is to be kept.
    kept: Vec<u8>,
    kept_max: usize,
    /// Something was written since somebody last asked.
    moved: bool,
}

/// Why nothing more goes into the script.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The body cannot be read on.
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

    /// Moves the body on as far as possible. Ready when all of it is written.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        loop {
            if self.piece.is_empty() {
                let Some(piece) = ready!(self.body.poll_read(cx)).map_err(Stopped::Body)? else {
                    return Poll::Ready(Ok(()));
                };
                let room = self.kept_max.saturating_sub(self.kept.len());
                self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
                self.piece = piece;
            } else {
                let written = ready!(self.pipe.poll_write(cx, &self.piece)).map_err(Stopped::Script)?;
                self.piece.advance(written);
                self.moved = true;
            }
        }
    }

    /// Whether the client owes the next piece.
    pub(crate) fn is_starving(&self) -> bool {
        self.piece.is_empty()
    }

    /// Whether anything was written since the last call.
    pub(crate) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// What was remembered.
    pub(crate) fn into_kept(self) -> Vec<u8> {
        self.kept
    }
}
