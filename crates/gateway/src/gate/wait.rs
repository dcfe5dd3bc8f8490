//! Waking somebody who waits, in whichever process that is: a datagram to a name of its own.
//!
//! The names are abstract (unix(7)): no file, and gone with the socket. Anybody on the machine may take one or send to it;
//! that wakes somebody who then sees that nothing has changed, or lets him look by himself ten times a second.

use std::future::pending;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

use sys::watch::{Interest, Watched, watch};

/// What wakes somebody who waits.
#[derive(Debug)]
pub(super) struct WakeUp(Option<Watched>);

fn name(server: &str, entry: usize) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{server}-{entry}"))
}

impl WakeUp {
    /// The one of an entry; `server` is what the names of all sockets of this server begin with.
    pub(super) fn of(server: &str, entry: usize) -> WakeUp {
        let bound = name(server, entry).and_then(|name| {
            let socket = UnixDatagram::bind_addr(&name)?;
            socket.set_nonblocking(true)?;
            watch(Arc::new(OwnedFd::from(socket)), Interest::READABLE)
        });
        WakeUp(bound.ok())
    }

    /// Waits until it arrives. It may have been sent to somebody before.
    pub(super) async fn arrives(&mut self) {
        let Some(socket) = &self.0 else { return pending().await };
        if let Ok(mut ready) = socket.readable().await {
            // One datagram is as good as many; what is left would wake again.
            while ready.try_io(|fd| sys::socket::receive(fd, &mut [0])).is_some_and(|received| received.is_ok()) {}
        }
    }

    /// Wakes whoever waits at an entry.
    pub(super) fn send(server: &str, entry: usize) {
        let sent = name(server, entry).and_then(|name| {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.send_to_addr(&[0], &name)
        });
        // Nobody listens where it was let in at once.
        let _ = sent;
    }
}
