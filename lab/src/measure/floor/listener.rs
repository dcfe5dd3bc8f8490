//! The floor's listener.

use std::os::fd::OwnedFd;

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use super::options::FloorOptions;

/// As long as the longest queue that the measured servers ask for.
const BACKLOG: i32 = 4096;

/// A listener; `prepare` sets further options before it gets its address.
pub(super) fn listener(
    options: &FloorOptions,
    flags: SocketFlags,
    prepare: fn(&OwnedFd) -> rustix::io::Result<()>,
) -> rustix::io::Result<OwnedFd> {
    let listener = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    set_socket_reuseaddr(&listener, true)?;
    prepare(&listener)?;
    bind(&listener, &options.listen)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}
