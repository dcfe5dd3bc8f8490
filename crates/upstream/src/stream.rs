//! A connection, read and written without blocking.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sys::pipe::Pipe;
use sys::watch::{Interest, Watched, watch};

use crate::connection::Connection;
use crate::session::Session;

/// How often in a row a server may send something that holds no content.
const EMPTY_MAX: usize = 64;

/// Our side of a connection to a server behind this one.
#[derive(Debug)]
pub struct Stream {
    wire: Wire,
    layer: Layer,
}

/// What is between the content and the wire.
#[derive(Debug)]
enum Layer {
    Plain,
    Tls(Box<Session>),
    /// The session goes on in another stream.
    Gone,
}

impl Stream {
    /// Takes a connection, whose socket is non-blocking. The reactor watches it once there is something to wait for.
    pub fn new(connection: impl Into<Connection>) -> Stream {
        let Connection { fd, session } = connection.into();
        let layer = session.map_or(Layer::Plain, Layer::Tls);
        Stream { wire: Wire { fd, watched: None, writes: false }, layer }
    }

    /// The same, for a connection that is read and written at the same time.
    pub(crate) fn for_both_directions(connection: Connection) -> Stream {
        let mut stream = Stream::new(connection);
        // Were it watched anew for the first write, a waiting reader would not hear of it.
        stream.wire.writes = true;
        stream
    }

    /// The connection for the next request, with the reactor's state of it.
    pub fn hand_on(&mut self) -> Stream {
        let Wire { fd, watched, writes } = &mut self.wire;
        let wire = Wire { fd: fd.clone(), watched: watched.take(), writes: *writes };
        let layer = match self.layer {
            Layer::Plain => Layer::Plain,
            _ => std::mem::replace(&mut self.layer, Layer::Gone),
        };
        Stream { wire, layer }
    }

    /// Lets no reactor watch it while nothing is awaited.
    pub(crate) fn unwatch(&mut self) {
        self.wire.watched = None;
    }

    /// The connection, which the reactor no longer watches. `None`: its session goes on in another stream.
    pub fn into_connection(self) -> Option<Connection> {
        let session = match self.layer {
            Layer::Plain => None,
            Layer::Tls(session) => Some(session),
            Layer::Gone => return None,
        };
        Some(Connection { fd: self.wire.fd, session })
    }

    /// Whether nothing has come over it, and it has not ended.
    pub fn is_quiet(&self) -> bool {
        is_quiet(&self.wire.fd)
    }

    /// Whether it can carry another request, as far as is known without a system call if `surely` is not demanded: see
    /// [`Connection::is_quiet`].
    pub(crate) fn may_go_on(&mut self, surely: bool) -> bool {
        let is_readable = self.wire.watched.as_ref().and_then(Watched::is_readable);
        match &mut self.layer {
            Layer::Plain | Layer::Tls(_) if is_readable == Some(false) && !surely => true,
            Layer::Plain => is_quiet(&self.wire.fd),
            Layer::Tls(session) => session.is_quiet(&self.wire.fd),
            Layer::Gone => false,
        }
    }

    /// Whether some of what was written waits to be sent. [`poll_read`](Self::poll_read) sends it, and so does
    /// [`poll_flush`](Self::poll_flush).
    pub fn has_unsent(&self) -> bool {
        matches!(&self.layer, Layer::Tls(session) if session.has_unsent())
    }

    /// The session, if there is one.
    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.layer {
            Layer::Tls(session) => Some(session),
            Layer::Plain | Layer::Gone => None,
        }
    }

    /// Reads, and adds to `into`: in an encrypted connection, perhaps more than there was room for. `Ok(0)` is the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let (wire, session) = match &mut self.layer {
            Layer::Plain => return self.wire.poll_read(cx, into),
            Layer::Tls(session) => (&mut self.wire, session),
            Layer::Gone => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        };
        if session.has_ended() {
            return Poll::Ready(Ok(0));
        }
        let before = into.len();
        for _ in 0..EMPTY_MAX {
            // If the server takes nothing more, it may have answered all the same.
            let _ = wire.poll_flush(cx, session);
            let has_more = ready!(wire.poll_receive(cx, session, into))?;
            match into.len() - before {
                0 if has_more => {}
                length => return Poll::Ready(Ok(length)),
            }
        }
        let text = "it sends records without content";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)))
    }

    /// Whether what comes is the content as it is.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.layer, Layer::Plain)
    }

    /// Moves what has come into an empty pipe, `most` bytes at most, if it is [plain](Self::is_plain). `Ok(0)` is the end.
    pub(crate) fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        match self.layer {
            Layer::Plain => self.wire.poll_splice(cx, pipe, most),
            Layer::Tls(_) | Layer::Gone => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Sends as much as possible. An encrypted connection may take more than it sends: see
    /// [`has_unsent`](Self::has_unsent).
    pub fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.layer {
            Layer::Plain => self.wire.poll_write(cx, from),
            Layer::Tls(session) => {
                ready!(self.wire.poll_flush(cx, session))?;
                let length = session.seal(from)?;
                if let Poll::Ready(Err(error)) = self.wire.poll_flush(cx, session) {
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(Ok(length))
            }
            Layer::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Sends all of what was written.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.layer {
            Layer::Tls(session) => self.wire.poll_flush(cx, session),
            Layer::Plain | Layer::Gone => Poll::Ready(Ok(())),
        }
    }

    /// Sends all of what was written, and ends our direction.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Layer::Tls(session) = &mut self.layer {
            // rustls announces the end once.
            session.end();
            ready!(self.wire.poll_flush(cx, session))?;
        }
        Poll::Ready(sys::socket::shutdown_write(&self.wire.fd))
    }

    /// Makes the handshake of an encrypted connection.
    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Layer::Tls(session) = &mut self.layer else { return Poll::Ready(Ok(())) };
        loop {
            let sent = self.wire.poll_flush(cx, session)?;
            if !session.is_handshaking() {
                return sent.map(Ok);
            }
            let mut content = Vec::new();
            let received = ready!(self.wire.poll_receive(cx, session, &mut content));
            let why = match received {
                Ok(true) if content.is_empty() => continue,
                Ok(true) => "it speaks before it is asked",
                Ok(false) => "it ended the session",
                Err(error) => {
                    // The server learns why.
                    let _ = self.wire.poll_flush(cx, session);
                    return Poll::Ready(Err(error));
                }
            };
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
    }
}

/// A socket, and what the reactor knows of it.
#[derive(Debug)]
struct Wire {
    fd: Arc<OwnedFd>,
    watched: Option<Watched>,
    /// Whether the reactor reports when it can be written to.
    writes: bool,
}

impl Wire {
    fn watched(&mut self, writes: bool) -> io::Result<&Watched> {
        if writes && !self.writes {
            // A reactor accepts a descriptor only once.
            self.watched = None;
            self.writes = true;
        }
        match &mut self.watched {
            Some(watched) => Ok(watched),
            none => {
                let interest = if self.writes { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
                Ok(none.insert(watch(self.fd.clone(), interest)?))
            }
        }
    }

    /// Reads into the spare room of `into`. `Ok(0)` is the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let watched = self.watched(false)?;
        loop {
            let mut ready = ready!(watched.poll_read_ready(cx))?;
            let room = into.capacity() - into.len();
            if let Some(result) = ready.try_io(|fd| sys::socket::receive_into(fd, into)) {
                if result.as_ref().is_ok_and(|length| (1..room).contains(length)) {
                    // Less than there was room for: the socket is empty, and no other call has to find that out.
                    ready.clear_ready();
                }
                return Poll::Ready(result);
            }
        }
    }

    /// Moves what has come into an empty pipe. `Ok(0)` is the end.
    fn poll_splice(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, most: usize) -> Poll<io::Result<usize>> {
        let watched = self.watched(false)?;
        loop {
            let mut ready = ready!(watched.poll_read_ready(cx))?;
            if let Some(result) = ready.try_io(|fd| pipe.fill(fd, most)) {
                return Poll::Ready(result);
            }
        }
    }

    /// Receives once for a session: see [`Session::receive`].
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut Session,
        into: &mut Vec<u8>,
    ) -> Poll<io::Result<bool>> {
        let watched = self.watched(false)?;
        loop {
            let mut ready = ready!(watched.poll_read_ready(cx))?;
            if let Some(result) = ready.try_io(|fd| session.receive(fd, into)) {
                return Poll::Ready(result);
            }
        }
    }

    /// Sends as much as possible.
    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        if !self.writes {
            match sys::socket::send(&self.fd, from, false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
        let watched = self.watched(true)?;
        loop {
            let mut ready = ready!(watched.poll_write_ready(cx))?;
            if let Some(result) = ready.try_io(|fd| sys::socket::send(fd, from, false)) {
                return Poll::Ready(result);
            }
        }
    }

    /// Sends all that a session has sealed.
    fn poll_flush(&mut self, cx: &mut Context<'_>, session: &mut Session) -> Poll<io::Result<()>> {
        while session.has_unsent() {
            if !self.writes {
                match session.send(&self.fd) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => {
                        result?;
                        continue;
                    }
                }
            }
            let watched = self.watched(true)?;
            let mut ready = ready!(watched.poll_write_ready(cx))?;
            if let Some(result) = ready.try_io(|fd| session.send(fd)) {
                result?;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Whether nothing has come over a connection, and it has not ended. Unsolicited output of a backend belongs to no
/// response.
pub fn is_quiet(connection: &OwnedFd) -> bool {
    sys::socket::peek(connection, &mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
