//! Bytes on their way to the client.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use sys::pipe::Pipe;

use crate::message::response::Body;
use crate::protocol::pace::Pace;
use crate::request::RateLimit;
use crate::transport::endpoint::Transport;

/// Bytes on their way to the client.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// The head, and bodies that are small enough to be copied behind it.
    front: Vec<u8>,
    front_sent: usize,
    /// The unsent part of a larger body in memory, which goes out with the head.
    behind: Bytes,
    rest: VecDeque<Chunk>,
    /// What goes out behind all that, past this process.
    pipe: Option<Pipe>,
    /// Bytes sent so far.
    pub(crate) sent: u64,
    pace: Option<Box<Pace>>,
}

#[derive(Debug)]
enum Chunk {
    Bytes(Bytes),
    File { file: Arc<OwnedFd>, offset: u64, left: u64 },
}

/// Bodies up to this size are copied behind their head, in bytes: that is cheaper than a second slice in a system call.
const COPIED_MAX: usize = 1024;
/// After this many bytes to one fast client, other connections get their turn. The kernel needs more time for each byte if it gets a
/// megabyte at once.
const TURN_BYTES: u64 = 256 * 1024;

impl Outgoing {
    /// Starts with a head; the body goes out no faster than the limit allows.
    pub(crate) fn new(front: Vec<u8>, limit: Option<RateLimit>) -> Outgoing {
        let free = |limit: &RateLimit| front.len() + limit.burst as usize;
        let pace = limit.map(|limit| Box::new(Pace::new(limit.bytes_per_second, free(&limit))));
        Outgoing { front, pace, ..Outgoing::default() }
    }

    /// Adds a body that is available; not a stream.
    pub(crate) fn push(&mut self, body: Body) {
        match body {
            Body::Empty | Body::Stream(_) => {}
            Body::Bytes(bytes) if !self.rest.is_empty() || self.front_sent > 0 || !self.behind.is_empty() => {
                self.rest.push_back(Chunk::Bytes(bytes));
            }
            Body::Bytes(bytes) if bytes.len() <= COPIED_MAX => self.front.extend_from_slice(&bytes),
            Body::Bytes(bytes) => self.behind = bytes,
            Body::File(part) => {
                self.rest.push_back(Chunk::File { file: part.file, offset: part.offset, left: part.length });
            }
            Body::Parts(parts) => parts.into_iter().for_each(|part| self.push(part)),
        }
    }

    /// Adds what is in a pipe. Nothing else may be added before that has gone out.
    pub(crate) fn push_pipe(&mut self, pipe: Pipe) {
        self.pipe = Some(pipe);
    }

    /// Takes the pipe, once it is empty.
    pub(crate) fn take_pipe(&mut self) -> Option<Pipe> {
        self.pipe.take()
    }

    /// Whether the body goes out no faster than a limit allows.
    pub(crate) fn is_limited(&self) -> bool {
        self.pace.is_some()
    }

    /// The bytes in memory, the kernel's included, that are yet to be sent.
    pub(crate) fn in_memory(&self) -> usize {
        let of = |chunk: &Chunk| match chunk {
            Chunk::Bytes(bytes) => bytes.len(),
            Chunk::File { .. } => 0,
        };
        let in_pipe = self.pipe.as_ref().map_or(0, Pipe::len);
        self.front.len() - self.front_sent + self.behind.len() + self.rest.iter().map(of).sum::<usize>() + in_pipe
    }

    /// Takes the buffer of the head, once it has been sent.
    pub(crate) fn take_front(&mut self) -> Vec<u8> {
        self.front_sent = 0;
        std::mem::take(&mut self.front)
    }

    /// Sends until everything is out (`true`), or so much that other connections should get their turn. `more`: further
    /// bytes will follow.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        transport: &dyn Transport,
        more: bool,
    ) -> Poll<io::Result<bool>> {
        let enough = self.sent + TURN_BYTES;
        while self.front_sent < self.front.len() || !self.behind.is_empty() {
            if self.sent >= enough {
                return Poll::Ready(Ok(false));
            }
            let more = more || !self.rest.is_empty();
            let most = ready!(poll_pace(&mut self.pace, cx, self.sent));
            let front = &self.front[self.front_sent..];
            let of_front = most.min(front.len());
            let behind = &self.behind[..(most - of_front).min(self.behind.len())];
            let sent = ready!(transport.poll_send_both(cx, &front[..of_front], behind, more))?;
            let of_front = sent.min(front.len());
            self.front_sent += of_front;
            self.behind.advance(sent - of_front);
            self.sent += sent as u64;
        }
        while let Some(chunk) = self.rest.front_mut() {
            if self.sent >= enough {
                return Poll::Ready(Ok(false));
            }
            match chunk {
                Chunk::Bytes(bytes) if bytes.is_empty() => {
                    self.rest.pop_front();
                }
                Chunk::Bytes(bytes) => {
                    let most = ready!(poll_pace(&mut self.pace, cx, self.sent)).min(bytes.len());
                    let sent = ready!(transport.poll_send(cx, &bytes[..most], more))?;
                    let _ = bytes.split_to(sent);
                    self.sent += sent as u64;
                }
                Chunk::File { left: 0, .. } => {
                    self.rest.pop_front();
                }
                Chunk::File { file, offset, left } => {
                    let most = ready!(poll_pace(&mut self.pace, cx, self.sent));
                    let count = most.min((*left).min(TURN_BYTES) as usize);
                    match ready!(transport.poll_send_file(cx, file, offset, count))? {
                        // The file was truncated: the promised length cannot be kept.
                        0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                        sent => {
                            *left -= sent as u64;
                            self.sent += sent as u64;
                        }
                    }
                }
            }
        }
        while let Some(pipe) = self.pipe.as_mut().filter(|pipe| !pipe.is_empty()) {
            match ready!(transport.poll_splice(cx, pipe, more))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent as u64,
            }
        }
        Poll::Ready(Ok(true))
    }
}

/// How many bytes may go out now.
fn poll_pace(pace: &mut Option<Box<Pace>>, cx: &mut Context<'_>, sent: u64) -> Poll<usize> {
    pace.as_mut().map_or(Poll::Ready(usize::MAX), |pace| pace.poll(cx, sent))
}
