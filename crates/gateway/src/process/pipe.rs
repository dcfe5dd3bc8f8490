//! Our ends of a script's pipes: non-blocking, and watched by the reactor if there is something to wait for.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sys::watch::{Interest, Watched, watch};

/// The end we read from.
#[derive(Debug)]
pub(crate) struct Reader {
    fd: Arc<OwnedFd>,
    watched: Option<Watched>,
}

impl Reader {
    /// Takes the end of a pipe. The reactor does not watch it yet.
    pub(crate) fn new(fd: impl Into<OwnedFd>) -> io::Result<Reader> {
        let fd = fd.into();
        sys::file::set_nonblocking(&fd)?;
        Ok(Reader { fd: Arc::new(fd), watched: None })
    }

    /// Makes the reactor watch it from now on.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        if self.watched.is_none() {
            self.watched = Some(watch(self.fd.clone(), Interest::READABLE)?);
        }
        Ok(())
    }

    /// Whether there is something to read; `false`: the other end is closed. Until it is watched, that is never known.
    pub(crate) fn poll_has_output(&self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let Some(watched) = &self.watched else { return Poll::Pending };
        let _ = ready!(watched.poll_read_ready(cx))?;
        Poll::Ready(sys::file::waiting(&self.fd).map(|waiting| waiting > 0))
    }

    /// Reads into the spare room of `into`. `Ok(0)` is the end. Until it is watched, nothing wakes a task that waits
    /// for more.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let Some(watched) = &self.watched else {
            return match sys::file::read_into(&self.fd, into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                result => Poll::Ready(result),
            };
        };
        loop {
            let mut ready = ready!(watched.poll_read_ready(cx))?;
            if let Some(result) = ready.try_io(|fd| sys::file::read_into(fd, into)) {
                return Poll::Ready(result);
            }
        }
    }
}

/// The end we write to. A new pipe is empty, so the reactor watches it only once it is full.
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

    /// Writes as much as possible. A script that reads no more is an error (`BrokenPipe`).
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
