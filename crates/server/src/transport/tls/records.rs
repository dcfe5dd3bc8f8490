//! Records on their way between rustls and a socket.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

/// The receiving side of a socket.
pub(super) struct Incoming<'s> {
    socket: &'s OwnedFd,
    /// The socket returned less than there was room for: it is empty.
    pub(super) is_exhausted: bool,
}

impl<'s> Incoming<'s> {
    pub(super) fn new(socket: &'s OwnedFd) -> Incoming<'s> {
        Incoming { socket, is_exhausted: false }
    }
}

impl io::Read for Incoming<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = sys::socket::receive(self.socket, into)?;
        self.is_exhausted = read < into.len();
        Ok(read)
    }
}

/// The sending side of a socket: one call sends several records.
pub(super) struct Outgoing<'s>(pub(super) &'s OwnedFd);

impl io::Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sys::socket::send(self.0, bytes, false)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match slices {
            [one] => self.write(one),
            several => sys::socket::send_slices(self.0, several, false),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
