//! Our ends of a script's pipes: non-blocking, and watched by the reactor where there is something to wait for.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sys::watch::{Watched, watch};
use tokio::io::Interest;

/// The end that we read from. A script has written nothing when it has just been started, so the reactor watches it from
/// the beginning.
#[derive(Debug)]
pub(crate) struct Reader(Watched);

impl Reader {
    /// Takes the end of a pipe.
    pub(crate) fn new(fd: impl Into<OwnedFd>) -> io::Result<Reader> {
        let fd = fd.into();
        sys::file::set_nonblocking(&fd)?;
        Ok(Reader(watch(Arc::new(fd), Interest::READABLE)?))
    }

    /// Reads into the spare room of `into`. `Ok(0)` is the end.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            if let Some(result) = ready.try_io(|fd| sys::file::read_into(fd, into)) {
                return Poll::Ready(result);
            }
        }
    }
}

/// The end that we write to. A new pipe is empty, so the reactor watches it only once it is full.
#[derive(Debug)]
pub(crate) struct Writer {
    fd: Arc<OwnedFd>,
    watched: Option<Watched>,
}

impl Writer {
    /// Takes the end of a pipe.
    pub(crate) fn new(fd: impl Into<OwnedFd>) -> io::Result<Writer> {
        let fd = fd.into();
        sys::file::set_nonblocking(&fd)?;
        Ok(Writer { fd: Arc::new(fd), watched: None })
    }

    /// Writes as much as goes. The script not reading any more is an error (`BrokenPipe`).
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let watched = match &mut self.watched {
            Some(watched) => watched,
            none => match sys::file::write(&self.fd, from) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    none.insert(watch(self.fd.clone(), Interest::WRITABLE)?)
                }
                result => return Poll::Ready(result),
            },
        };
        loop {
            let mut ready = ready!(watched.poll_write_ready(cx))?;
            if let Some(result) = ready.try_io(|fd| sys::file::write(fd, from)) {
                return Poll::Ready(result);
            }
        }
    }
}
