//! Sockets between processes of one machine (unix(7)): a stream that carries descriptors beside bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use crate::process::Pid;

/// The most descriptors in one message.
pub const DESCRIPTORS_MAX: usize = 4;

/// The longest path of a socket, in bytes: `sun_path` without its end (unix(7)).
pub const PATH_MAX: usize = 107;

fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    let length = path.as_os_str().len();
    if length > PATH_MAX {
        let text = format!("the path of a socket has at most {PATH_MAX} bytes, and this one {length}");
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, text));
    }
    Ok(SocketAddrUnix::new(path)?)
}

/// How sent data arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// As bytes in order.
    Stream,
    /// As messages in order, each of them whole.
    Packets,
}

impl SocketKind {
    fn of_socket(self) -> SocketType {
        match self {
            SocketKind::Stream => SocketType::STREAM,
            SocketKind::Packets => SocketType::SEQPACKET,
        }
    }
}

fn socket(kind: SocketKind) -> io::Result<OwnedFd> {
    Ok(net::socket_with(AddressFamily::UNIX, kind.of_socket(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}

/// Listens, without blocking, at a path that must not exist yet and has at most [`PATH_MAX`] bytes; only this user (and
/// root) can connect. `backlog` connections may wait to be accepted.
pub fn listen(path: &Path, backlog: i32, kind: SocketKind) -> io::Result<OwnedFd> {
    let socket = socket(kind)?;
    // The file gets the mode that the socket has at bind time: others never have a moment in which they could connect.
    rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    net::bind(&socket, &address(path)?)?;
    net::listen(&socket, backlog)?;
    Ok(socket)
}

/// Accepts a connection without waiting: a non-blocking socket.
pub fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    Ok(net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?)
}

/// Connects to a path. `WouldBlock`: the queue there is full. The socket does not block.
pub fn connect(path: &Path, kind: SocketKind) -> io::Result<OwnedFd> {
    let socket = socket(kind)?;
    net::connect(&socket, &address(path)?)?;
    Ok(socket)
}

/// Two connected sockets that do not block.
pub fn pair(kind: SocketKind) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(net::socketpair(AddressFamily::UNIX, kind.of_socket(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}

/// Sends nothing more: the other end reads what was sent, and then the end.
pub fn finish(socket: impl AsFd) -> io::Result<()> {
    Ok(net::shutdown(socket, net::Shutdown::Write)?)
}

/// Receives nothing more than what has come: the other end cannot send any more.
pub fn refuse(socket: impl AsFd) -> io::Result<()> {
    Ok(net::shutdown(socket, net::Shutdown::Read)?)
}

/// A listening stream socket without a name: only a holder of this can connect to it.
#[derive(Debug)]
pub struct Unnamed {
    listener: OwnedFd,
    /// The socket's file, which has been removed.
    file: OwnedFd,
}

impl Unnamed {
    /// Listens. For a moment the socket has a name in `directory`, to which only this user may connect; `name` must be
    /// free there. Accepting from it blocks: a FastCGI program exits if it does not.
    pub fn listen(directory: &Path, name: &str, backlog: i32) -> io::Result<Unnamed> {
        let path = directory.join(name);
        let listener = listen(&path, backlog, SocketKind::Stream)?;
        rustix::fs::fcntl_setfl(&listener, rustix::fs::OFlags::empty())?;
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NOFOLLOW;
        let file = rustix::fs::open(&path, flags, rustix::fs::Mode::empty());
        let removed = std::fs::remove_file(&path);
        let file = file?;
        removed?;
        Ok(Unnamed { listener, file })
    }

    /// The socket to accept from.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Connects. `WouldBlock`: the queue there is full. The socket does not block.
    pub fn connect(&self) -> io::Result<OwnedFd> {
        // The file has no name any more, but that descriptor still leads to it (proc(5)).
        connect(Path::new(&format!("/proc/self/fd/{}", self.file.as_raw_fd())), SocketKind::Stream)
    }
}

/// The user of the process at the other end, at the time it connected or began to listen.
pub fn peer_user(socket: impl AsFd) -> io::Result<u32> {
    Ok(sockopt::socket_peercred(socket)?.uid.as_raw())
}

/// The process at the other end: the one that connected, or that began to listen.
pub fn peer_process(socket: impl AsFd) -> io::Result<Pid> {
    Ok(sockopt::socket_peercred(socket)?.pid.into())
}

/// Sends bytes, and with the first of them copies of up to [`DESCRIPTORS_MAX`] descriptors. Returns how many bytes were
/// sent; does not wait.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)?)
}

/// Receives bytes, 0 at the end, and adds the descriptors that came with them to `descriptors` (close-on-exec). Does
/// not wait.
pub fn receive(socket: impl AsFd, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    receive_with(socket, into, descriptors, RecvFlags::empty())
}

/// Like [`receive`], and leaves everything there for the next one.
pub fn peek(socket: impl AsFd, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    receive_with(socket, into, descriptors, RecvFlags::PEEK)
}

fn receive_with(
    socket: impl AsFd,
    into: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
    flags: RecvFlags,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = net::recvmsg(socket, &mut [IoSliceMut::new(into)], &mut control, flags)?.bytes;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            descriptors.extend(came);
        }
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn descriptors_travel() {
        let path = std::env::temp_dir().join(format!("local-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = listen(&path, 4, SocketKind::Stream).expect("listen");
        let mode = std::fs::metadata(&path).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(accept(&listener).expect_err("nobody yet").kind(), io::ErrorKind::WouldBlock);
        let client = connect(&path, SocketKind::Stream).expect("connect");
        let server = accept(&listener).expect("accept");
        assert_eq!(peer_user(&server).ok(), Some(crate::cred::uid()));
        assert_eq!([&client, &server].map(|end| peer_process(end).ok()), [Some(Pid::own()); 2]);
        let (mut reader, writer) = io::pipe().expect("pipe");
        assert_eq!(send(&client, b"hello", &[writer.as_fd()]).ok(), Some(5));
        drop((writer, client));
        let (mut buffer, mut came) = ([0; 16], Vec::new());
        assert_eq!(receive(&server, &mut buffer, &mut came).ok(), Some(5));
        assert_eq!((came.len(), receive(&server, &mut buffer, &mut came).ok()), (1, Some(0)));
        std::fs::File::from(came.remove(0)).write_all(b"through").expect("write");
        let mut text = String::new();
        io::Read::read_to_string(&mut reader, &mut text).expect("read");
        assert_eq!(text, "through");
        assert!(listen(&path, 4, SocketKind::Stream).is_err(), "the path is taken");
        let _ = std::fs::remove_file(&path);
    }

    #[test]
    fn packets_arrive_whole() {
        let path = std::env::temp_dir().join(format!("packets-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = listen(&path, 4, SocketKind::Packets).expect("listen");
        let client = connect(&path, SocketKind::Packets).expect("connect");
        let server = accept(&listener).expect("accept");
        assert_eq!((send(&client, b"one", &[]).ok(), send(&client, b"two!", &[]).ok()), (Some(3), Some(4)));
        let (mut buffer, mut none) = ([0; 16], Vec::new());
        assert_eq!(receive(&server, &mut buffer, &mut none).ok(), Some(3));
        assert_eq!(receive(&server, &mut buffer, &mut none).ok(), Some(4));
        assert_eq!(&buffer[..4], b"two!");
        let _ = std::fs::remove_file(&path);
    }

    #[test]
    fn a_finished_end_is_read_to_its_end() {
        let (one, other) = pair(SocketKind::Packets).expect("a pair");
        let (mut buffer, mut none) = ([0; 16], Vec::new());
        assert_eq!(receive(&other, &mut buffer, &mut none).expect_err("nothing yet").kind(), io::ErrorKind::WouldBlock);
        assert_eq!(send(&one, b"last", &[]).ok(), Some(4));
        finish(&one).expect("finish");
        assert_eq!(peek(&other, &mut buffer, &mut none).ok(), Some(4));
        assert_eq!(receive(&other, &mut buffer, &mut none).ok(), Some(4));
        assert_eq!(receive(&other, &mut buffer, &mut none).ok(), Some(0));
    }

    #[test]
    fn unnamed_sockets_accept_connections() {
        let directory = std::env::temp_dir();
        let name = format!("unnamed-{}.sock", std::process::id());
        let unnamed = Unnamed::listen(&directory, &name, 4).expect("listen");
        assert!(!directory.join(&name).exists());
        for _ in 0..2 {
            let client = unnamed.connect().expect("connect");
            let server = accept(unnamed.listener()).expect("accept");
            assert_eq!(send(&client, b"hello", &[]).ok(), Some(5));
            assert_eq!(receive(&server, &mut [0; 16], &mut Vec::new()).ok(), Some(5));
        }
    }

    #[test]
    fn accepting_from_an_unnamed_listener_waits() {
        let directory = std::env::temp_dir();
        let unnamed = Unnamed::listen(&directory, &format!("unnamed.{}", std::process::id()), 1).expect("a listener");
        let flags = rustix::fs::fcntl_getfl(unnamed.listener()).expect("flags");
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "a FastCGI program would end at once");
        assert!(unnamed.connect().is_ok());
    }

    #[test]
    fn a_path_has_as_many_bytes_as_the_system_takes() {
        let path = |length: usize| {
            let begin = format!("{}/{}-", std::env::temp_dir().display(), std::process::id());
            std::path::PathBuf::from(format!("{begin:x<length$}"))
        };
        drop(listen(&path(PATH_MAX), 1, SocketKind::Stream).expect("listen"));
        std::fs::remove_file(path(PATH_MAX)).expect("the file");
        let error = listen(&path(PATH_MAX + 1), 1, SocketKind::Stream).expect_err("too long").to_string();
        assert_eq!(error, "the path of a socket has at most 107 bytes, and this one 108");
    }
}
