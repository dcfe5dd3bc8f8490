//! The client's socket, read and written without blocking, registered with the reactor only when it has to wait.
//!
//! A connection whose request is there when it is accepted, and which is closed after the response, never enters the
//! reactor at all.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use sys::pipe::Pipe;
use sys::watch::{Interest, Watched, watch};

use super::park_state::ParkState;
use crate::message::buffers;
use crate::transport::endpoint::{Counted, Endpoint, Transport};

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Socket {
    park_state: ParkState,
    registered: OnceLock<Watched>,
    socket: Arc<OwnedFd>,
    counted: OnceLock<Counted>,
}

impl Endpoint for Socket {
    fn local(&self) -> io::Result<SocketAddr> {
        sys::socket::local_address(&self.socket)
    }

    /// Safe to call beside [`poll_reset`](Transport::poll_reset).
    fn has_ended(&self) -> bool {
        sys::socket::has_ended(&self.socket).unwrap_or(true)
    }
}

impl Transport for Socket {
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut Vec<u8>, room: usize) -> Poll<io::Result<usize>> {
        let read = self.poll_ready(cx, Direction::Read, |socket| {
            if buffer.capacity() == 0 {
                *buffer = buffers::take();
            }
            buffer.reserve(room);
            let spare = buffer.capacity() - buffer.len();
            let filled = sys::socket::receive_into(socket, buffer)?;
            // Less than there was room for: the socket is empty, and reporting that saves another call.
            Ok((filled, filled < spare))
        });
        if read.is_pending() && buffer.is_empty() {
            // A waiting connection has no buffer.
            buffers::give(std::mem::take(buffer));
        }
        read
    }

    fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8], more: bool) -> Poll<io::Result<usize>> {
        self.poll_ready(cx, Direction::Write, |socket| {
            let sent = sys::socket::send(socket, bytes, more)?;
            Ok((sent, sent < bytes.len()))
        })
    }

    fn poll_send_both(&self, cx: &mut Context<'_>, first: &[u8], second: &[u8], more: bool) -> Poll<io::Result<usize>> {
        match (first, second) {
            (bytes, []) | ([], bytes) => self.poll_send(cx, bytes, more),
            _ => self.poll_ready(cx, Direction::Write, |socket| {
                let sent = sys::socket::send_slices(socket, &[IoSlice::new(first), IoSlice::new(second)], more)?;
                Ok((sent, sent < first.len() + second.len()))
            }),
        }
    }

    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &OwnedFd,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_ready(cx, Direction::Write, |socket| {
            let sent = sys::socket::send_file(socket, file, offset, count)?;
            Ok((sent, false))
        })
    }

    fn splices(&self) -> bool {
        true
    }

    fn poll_splice(&self, cx: &mut Context<'_>, pipe: &mut Pipe, more: bool) -> Poll<io::Result<usize>> {
        self.poll_ready(cx, Direction::Write, |socket| Ok((pipe.drain(socket, more)?, false)))
    }

    fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.register().map(|registered| registered.poll_failed(cx)) {
            Ok(Poll::Ready(Ok(()))) => Poll::Ready(()),
            // A client that cannot be watched may still be there; the next write will tell.
            Ok(Poll::Pending | Poll::Ready(Err(_))) | Err(_) => Poll::Pending,
        }
    }

    fn has_input(&self) -> bool {
        sys::socket::peek(&self.socket, &mut [0]).is_ok_and(|bytes| bytes > 0)
    }

    fn shutdown(&self) -> io::Result<()> {
        sys::socket::shutdown_write(&self.socket)
    }

    fn park_state(&self) -> &ParkState {
        &self.park_state
    }

    fn keep(&self, counted: Counted) {
        let _ = self.counted.set(counted);
    }
}

impl Socket {
    /// Takes a non-blocking socket.
    pub(crate) fn new(socket: OwnedFd) -> Socket {
        Socket {
            park_state: ParkState::default(),
            registered: OnceLock::new(),
            socket: Arc::new(socket),
            counted: OnceLock::new(),
        }
    }

    fn register(&self) -> io::Result<&Watched> {
        if let Some(registered) = self.registered.get() {
            return Ok(registered);
        }
        let registered = watch(self.socket.clone(), Interest::READABLE | Interest::WRITABLE)?;
        // Only one task uses a socket; losing the race would only mean that it is already registered.
        Ok(self.registered.get_or_init(|| registered))
    }

    /// The socket itself, for a last word that nobody will repeat: it is tried whatever the reactor has heard so far.
    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.socket
    }

    /// Tries `act` until it no longer says that it would block. `act` returns its result and whether the socket is
    /// known to be exhausted in that direction.
    pub(super) fn poll_ready<T>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut act: impl FnMut(&OwnedFd) -> io::Result<(T, bool)>,
    ) -> Poll<io::Result<T>> {
        if self.registered.get().is_none() {
            match act(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.register()?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result.map(|(value, _)| value)),
            }
        }
        let Some(registered) = self.registered.get() else {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        };
        loop {
            let mut guard = match direction {
                Direction::Read => ready!(registered.poll_read_ready(cx))?,
                Direction::Write => ready!(registered.poll_write_ready(cx))?,
            };
            match act(&self.socket) {
                Ok((value, exhausted)) => {
                    if exhausted {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(value));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Direction {
    Read,
    Write,
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;
    use crate::transport::endpoint::{read, unless_reset};

    /// A client, and the server's end.
    fn connected() -> (TcpStream, Socket) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
        let client = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (accepted, _) = listener.accept().expect("accept");
        accepted.set_nonblocking(true).expect("non-blocking");
        (client, Socket::new(accepted.into()))
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        sys::event_loop::EventLoop::new(|| ()).and_then(|mut event_loop| event_loop.run(future)).expect("event loop")
    }

    #[test]
    fn to_ask_for_the_end_hides_no_reset() {
        let (client, socket) = connected();
        assert!(!socket.has_ended());
        sys::socket::set_linger(&client, Some(Duration::ZERO)).expect("linger");
        drop(client);
        assert!(socket.has_ended(), "the kernel knows of a reset on this machine at once");
        let waits =
            async { runtime::executor::timeout(Duration::from_secs(30), unless_reset(&socket, pending::<()>())).await };
        assert_eq!(run(waits), Ok(None));
    }

    #[test]
    fn unread_input_is_not_an_end() {
        use std::io::Write;

        let (mut client, socket) = connected();
        client.write_all(b"a").expect("write");
        client.shutdown(std::net::Shutdown::Write).expect("shutdown");
        assert!(!socket.has_ended());
        let mut buffer = Vec::new();
        let read = run(read(&socket, &mut buffer, 8));
        assert_eq!((read.ok(), socket.has_ended()), (Some(1), true));
    }
}
