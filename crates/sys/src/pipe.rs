//! Pipes through which the kernel passes bytes from one socket to another (`splice(2)`): nobody copies them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use rustix::process::{Resource, getrlimit};

/// How many bytes a pipe has room for, if the system grants its user as many.
pub const CAPACITY: usize = 256 * 1024;

/// The part of the descriptors that a process may have which pipes may take: connections need them, too.
const SHARE: usize = 8;
/// The pipes that this process has.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A pipe, and what is in it.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    length: usize,
}

impl Pipe {
    /// An empty pipe.
    ///
    /// # Errors
    /// There are too many open files, or too many pipes among them.
    pub fn new() -> io::Result<Pipe> {
        if OPEN.fetch_add(1, Ordering::Relaxed) >= most() {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let made = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
        let (reader, writer) = made.inspect_err(|_| _ = OPEN.fetch_sub(1, Ordering::Relaxed))?;
        // A smaller one takes more steps.
        let _ = fcntl_setpipe_size(&writer, CAPACITY);
        Ok(Pipe { reader, writer, length: 0 })
    }

    /// How many bytes are in it.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Moves bytes that have come over a non-blocking socket into the empty pipe, `most` at most. Returns how many; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock`: nothing has come, or the pipe is not empty; the error of the connection.
    pub fn fill(&mut self, socket: impl AsFd, most: usize) -> io::Result<usize> {
        if !self.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        self.length = splice(socket, None, &self.writer, None, most.min(CAPACITY), flags)?;
        Ok(self.length)
    }

    /// Moves bytes from the pipe to a non-blocking socket; `more` says that others will follow at once. Returns how many.
    ///
    /// # Errors
    /// `WouldBlock`: the socket takes nothing at present; the error of the connection.
    pub fn drain(&mut self, socket: impl AsFd, more: bool) -> io::Result<usize> {
        let more = if more { SpliceFlags::MORE } else { SpliceFlags::empty() };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK | more;
        let sent = splice(&self.reader, None, socket, None, self.length, flags)?;
        self.length -= sent;
        Ok(sent)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many pipes the process may have. Each has two ends.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        limit.unwrap_or(usize::MAX) / SHARE / 2
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        ours.set_nonblocking(true).expect("non-blocking");
        (ours, theirs)
    }

    #[test]
    fn bytes_go_through() {
        let ((from, mut source), (to, mut sink)) = (pair(), pair());
        let mut pipe = Pipe::new().expect("a pipe");
        assert_eq!(pipe.fill(&from, 10).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
        source.write_all(b"0123456789").expect("written");
        assert_eq!((pipe.fill(&from, 6).expect("filled"), pipe.len()), (6, 6));
        assert_eq!(pipe.fill(&from, 6).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock), "not empty");
        assert_eq!((pipe.drain(&to, false).expect("drained"), pipe.is_empty()), (6, true));
        let mut read = [0; 6];
        sink.read_exact(&mut read).expect("read");
        assert_eq!(&read, b"012345");
        drop(source);
        assert_eq!(pipe.fill(&from, 6).expect("the rest"), 4);
        let mut pipe = Pipe::new().expect("another one");
        assert_eq!((pipe.is_empty(), pipe.fill(&from, 6).expect("the end")), (true, 0));
    }
}
