//! Pipes through which the kernel passes bytes from one socket to another (`splice(2)`): nobody copies them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// How many bytes a pipe has room for, if the system grants its user as many.
pub const CAPACITY: usize = 256 * 1024;

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
    /// There are too many open files.
    pub fn new() -> io::Result<Pipe> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
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
