//! Sockets: listening, accepting, and moving bytes without waiting.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrAny, SocketFlags, SocketType,
    sockopt,
};

/// The options of a listening socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenOptions {
    /// How many connections may wait to be accepted (`ListenBacklog`); the kernel's `somaxconn` caps it.
    pub backlog: i32,
    /// An IPv6 socket takes IPv6 only, not IPv4 too.
    pub v6only: bool,
    /// Several sockets may share the address (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Seconds to hold a connection back until its first data is there (`TCP_DEFER_ACCEPT`).
    pub defer_accept: Option<u32>,
    /// The send buffer in bytes; the kernel's own sizing if not given.
    pub send_buffer: Option<u32>,
    /// The receive buffer in bytes; the kernel's own sizing if not given.
    pub receive_buffer: Option<u32>,
}

/// The call of [`listen`] that failed, as Apache's messages distinguish them.
#[derive(Debug)]
pub enum ListenError {
    /// No socket of that family.
    Socket(io::Error),
    /// The address is in use, forbidden or not ours.
    Bind(io::Error),
    /// Cannot listen.
    Listen(io::Error),
}

/// Opens a listening TCP socket: non-blocking, with `SO_REUSEADDR`, and accepted sockets without Nagle's delay.
pub fn listen(address: SocketAddr, options: ListenOptions) -> Result<OwnedFd, ListenError> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
        .map_err(|error| ListenError::Socket(error.into()))?;
    prepare(&socket, address, options).map_err(ListenError::Socket)?;
    net::bind(&socket, &address).map_err(|error| ListenError::Bind(error.into()))?;
    net::listen(&socket, options.backlog).map_err(|error| ListenError::Listen(error.into()))?;
    Ok(socket)
}

fn prepare(socket: &OwnedFd, address: SocketAddr, options: ListenOptions) -> io::Result<()> {
    sockopt::set_socket_reuseaddr(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    // Accepted sockets inherit this one.
    sockopt::set_tcp_nodelay(socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(socket, options.v6only)?;
    }
    if options.reuse_port {
        sockopt::set_socket_reuseport(socket, true)?;
    }
    buffers(socket, options)
}

fn buffers(socket: &OwnedFd, options: ListenOptions) -> io::Result<()> {
    if let Some(bytes) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(socket, bytes as usize)?;
    }
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?;
    }
    let seconds = libc::c_int::try_from(options.defer_accept.unwrap_or(0)).unwrap_or(libc::c_int::MAX);
    // SAFETY: the option takes an int, and gets its pointer and size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the options of a listening socket that can still change: backlog, buffers (not back to the kernel's own
/// sizing), deferred accept.
pub fn reconfigure(listener: &OwnedFd, options: ListenOptions) -> io::Result<()> {
    buffers(listener, options)?;
    Ok(net::listen(listener, options.backlog)?)
}

/// Whether this is a listening TCP socket.
pub fn is_listening(fd: impl AsFd) -> bool {
    sockopt::socket_acceptconn(&fd).unwrap_or(false)
        && sockopt::socket_type(&fd).is_ok_and(|kind| kind == SocketType::STREAM)
}

/// Accepts a connection; does not wait if the listener is non-blocking. The new socket is non-blocking; an IPv4 client
/// of an IPv6 socket appears with its IPv4 address.
pub fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, SocketAddr)> {
    let (socket, peer) = net::acceptfrom_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    Ok((socket, canonical(peer)?))
}

/// Opens a UDP socket at an address, which others may share (`SO_REUSEADDR`). It does not block.
pub fn datagrams(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    Ok(socket)
}

/// Begins to connect to a TCP server: [`is_connected`] reports the progress. The socket does not block.
pub fn connect(address: SocketAddr) -> io::Result<OwnedFd> {
    connect_from(None, address)
}

/// The same, from this address of the machine.
pub fn connect_from(source: Option<IpAddr>, address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(source) = source {
        net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    match net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Whether an address is one of this machine's own: only to such a one a socket can be bound.
pub fn is_own(address: IpAddr) -> io::Result<bool> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    match net::bind(&socket, &SocketAddr::new(address, 0)) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::ADDRNOTAVAIL) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a connecting socket is connected; an error if it cannot be.
pub fn is_connected(socket: impl AsFd) -> io::Result<bool> {
    sockopt::socket_error(&socket)??;
    match net::getpeername(&socket) {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::NOTCONN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether an error means that a descriptor is no socket.
pub fn is_no_socket(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOTSOCK)
}

/// The address of our side.
pub fn local_address(socket: impl AsFd) -> io::Result<SocketAddr> {
    canonical(Some(net::getsockname(socket)?))
}

/// The address of the other side.
pub fn peer_address(socket: impl AsFd) -> io::Result<SocketAddr> {
    canonical(net::getpeername(socket)?)
}

fn canonical(address: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
    let unknown = || io::Error::new(io::ErrorKind::InvalidData, "not an internet address");
    let mut address = SocketAddr::try_from(address.ok_or_else(unknown)?)?;
    if address.ip().to_canonical().is_ipv4() {
        address.set_ip(address.ip().to_canonical());
    }
    Ok(address)
}

/// Turns off Nagle's delay, so that small packets go out at once (`TCP_NODELAY`).
pub fn set_nodelay(socket: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, on)?)
}

/// Makes a descriptor from elsewhere non-blocking and close-on-exec.
pub fn adopt(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?)
}

/// Ends a connection in both directions, for all its holders.
pub fn shutdown(socket: impl AsFd) -> io::Result<()> {
    Ok(net::shutdown(socket, Shutdown::Both)?)
}

/// Stops sending; bytes already sent still arrive, and we can still receive.
pub fn shutdown_write(socket: impl AsFd) -> io::Result<()> {
    Ok(net::shutdown(socket, Shutdown::Write)?)
}

/// Makes closing the socket discard unsent data and reset the connection, or (`None`) not.
pub fn set_linger(socket: impl AsFd, wait: Option<Duration>) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, wait)?)
}

/// Receives the available bytes; 0 is the end. `WouldBlock`: nothing yet.
pub fn receive(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    Ok(net::recv(socket, into, RecvFlags::DONTWAIT)?.0)
}

/// Like [`receive`] into uninitialised memory; returns the part that is initialised now.
pub fn receive_uninit(socket: impl AsFd, into: &mut [MaybeUninit<u8>]) -> io::Result<&mut [u8]> {
    Ok(net::recv(socket, into, RecvFlags::DONTWAIT)?.0.0)
}

/// Like [`receive`], but appends to `into`, within its capacity.
pub fn receive_into(socket: impl AsFd, into: &mut Vec<u8>) -> io::Result<usize> {
    Ok(net::recv(socket, rustix::buffer::spare_capacity(into), RecvFlags::DONTWAIT)?.0)
}

/// Like [`receive`], but leaves the data there for the next call. An error is reported only once: after a reset, no
/// later call sees it.
pub fn peek(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    Ok(net::recv(socket, into, RecvFlags::DONTWAIT | RecvFlags::PEEK)?.0)
}

/// Whether the other side has stopped sending or has reset the connection, and everything it sent was received. Checks
/// without receiving, because a task that waits for the connection to fail must still see the error.
pub fn has_ended(socket: impl AsFd) -> io::Result<bool> {
    Ok(crate::poll::is_shut(&socket)? && rustix::io::ioctl_fionread(&socket)? == 0)
}

/// Sends as much as fits, and returns how much that was. `WouldBlock`: nothing fits now. With `more` the kernel may
/// wait for further data to fill a packet (`MSG_MORE`). A closed connection is an error, never a signal.
pub fn send(socket: impl AsFd, from: &[u8], more: bool) -> io::Result<usize> {
    Ok(net::send(socket, from, flags(more))?)
}

/// Like [`send`], for several slices with one call.
pub fn send_slices(socket: impl AsFd, from: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    Ok(net::sendmsg(socket, from, &mut SendAncillaryBuffer::default(), flags(more))?)
}

fn flags(more: bool) -> SendFlags {
    let base = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    if more { base | SendFlags::MORE } else { base }
}

/// Sends bytes of a file without copying them through this process: up to `count` from `offset` on, which it advances.
/// Returns how many; 0 is the end of the file. `WouldBlock`: the socket takes nothing now.
pub fn send_file(socket: impl AsFd, file: impl AsFd, offset: &mut u64, count: usize) -> io::Result<usize> {
    Ok(rustix::fs::sendfile(socket, file, Some(offset), count)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn a_dual_stack_listener_tells_ipv4_addresses() {
        let any = "[::]:0".parse().expect("address");
        let Ok(listener) = listen(any, ListenOptions { backlog: 8, ..ListenOptions::default() }) else {
            return; // a machine without IPv6
        };
        assert!(is_listening(&listener));
        let port = local_address(&listener).expect("name").port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).expect("connect");
        let (socket, peer) = accept(&listener).expect("accept");
        assert_eq!(Some(peer), client.local_addr().ok());
        assert_eq!(accept(&listener).expect_err("no more").kind(), io::ErrorKind::WouldBlock);

        let mut buffer = [0; 8];
        assert_eq!(receive(&socket, &mut buffer).expect_err("nothing yet").kind(), io::ErrorKind::WouldBlock);
        client.write_all(b"abc").expect("write");
        assert!(crate::poll::readable(&socket, None).expect("poll"));
        assert_eq!((peek(&socket, &mut buffer).ok(), receive(&socket, &mut buffer).ok()), (Some(3), Some(3)));

        let sent = send_slices(&socket, &[IoSlice::new(b"de"), IoSlice::new(b"f")], true).expect("send");
        let mut offset = 5;
        let passwd = std::fs::File::open("/etc/passwd").expect("open");
        let filed = send_file(&socket, &passwd, &mut offset, 4).expect("sendfile");
        shutdown_write(&socket).expect("shutdown");
        let mut got = Vec::new();
        client.read_to_end(&mut got).expect("read");
        assert_eq!((sent, filed, offset, got.len()), (3, 4, 9, 7));
        assert!(got.starts_with(b"def"));
    }

    #[test]
    fn an_address_in_use_is_an_error_of_bind() {
        let first = listen("127.55.0.2:0".parse().expect("address"), ListenOptions::default()).expect("listen");
        let taken = local_address(&first).expect("name");
        assert!(matches!(listen(taken, ListenOptions::default()), Err(ListenError::Bind(_))));
        let deferred = ListenOptions { defer_accept: Some(5), send_buffer: Some(65536), ..ListenOptions::default() };
        assert!(listen("127.55.0.2:0".parse().expect("address"), deferred).is_ok());
    }
}
