//! Wakes a waiting request in any process: with a datagram to a name of its own.
//!
//! The names are abstract (unix(7)): no file, and gone with the socket. Anybody on the machine may take one or send to
//! it; a fake wake-up shows the request that nothing has changed, and without a name the request checks by itself ten
//! times a second.

use std::future::pending;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

use sys::watch::{Interest, Watched, watch};

/// The socket that wakes a waiting request.
#[derive(Debug)]
pub(super) struct WakeUp(Option<Watched>);

fn name(server: &str, entry: usize) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{server}-{entry}"))
}

impl WakeUp {
    /// The one of an entry; `server` is the prefix of all socket names of this server.
    pub(super) fn of(server: &str, entry: usize) -> WakeUp {
        let bound = name(server, entry).and_then(|name| {
            let socket = UnixDatagram::bind_addr(&name)?;
            socket.set_nonblocking(true)?;
            watch(Arc::new(OwnedFd::from(socket)), Interest::READABLE)
        });
        WakeUp(bound.ok())
    }

    /// Waits for a wake-up. It may have been meant for an earlier request.
    pub(super) async fn arrives(&mut self) {
        let Some(socket) = &self.0 else { return pending().await };
        if let Ok(mut ready) = socket.readable().await {
            // One datagram is as good as many; any left over would wake again.
            while ready.try_io(|fd| sys::socket::receive(fd, &mut [0])).is_some_and(|received| received.is_ok()) {}
        }
    }

    /// Wakes the request that waits at an entry.
    pub(super) fn send(server: &str, entry: usize) {
        let sent = name(server, entry).and_then(|name| {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.send_to_addr(&[0], &name)
        });
        // Nobody listens if it was admitted at once.
        let _ = sent;
    }
}
