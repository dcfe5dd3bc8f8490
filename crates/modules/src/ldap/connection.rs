//! A connection to a directory: one query at a time, each with its deadline.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use runtime::executor::{Descriptor, timeout};
use server::dns;
use sys::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use upstream::Address;

use super::ber;
use super::code::Code;
use super::message::{self, Entry, Question, Reply};

/// The most bytes of an answer: log-ins need a few attributes of two entries.
const RESPONSE_MAX: usize = 4 << 20;
/// The size of a read.
const STEP: usize = 8 << 10;

/// The identity of a bind: a name and a password; an empty name is anonymous.
pub(crate) type Identity = (String, Vec<u8>);

/// What the server sends in answer to a query besides its result code.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) entries: Vec<Entry>,
    /// URLs of the other parts of the answer.
    pub(super) elsewhere: Vec<Vec<String>>,
    /// URLs of the whole answer.
    pub(super) referrals: Vec<String>,
}

/// A connection that waits for the next query. Any error ends it.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    next: i32,
    /// The bound identity; `None`: it is wrong, or unknown.
    pub(super) bound: Option<Identity>,
}

impl Connection {
    /// Connects to the first of these hosts that accepts; each gets this much time.
    pub(super) async fn open(hosts: &[Address], time: Duration) -> io::Result<Connection> {
        let mut result = Err(io::ErrorKind::NotFound.into());
        for host in hosts {
            result = connect(host, time).await;
            if let Ok(socket) = result {
                return Ok(Connection { socket, next: 1, bound: None });
            }
        }
        result.map(|socket| Connection { socket, next: 1, bound: None })
    }

    /// Whether the other side has ended it, or has sent something unsolicited.
    pub(super) fn is_stale(&self) -> bool {
        !matches!(sys::socket::peek(&self.socket, &mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a query. `Err`: the connection is unusable, and why.
    pub(super) async fn exchange(&mut self, question: &Question<'_>, time: Duration) -> Result<(Code, Response), Code> {
        let id = self.next;
        self.next = id.checked_add(1).unwrap_or(1);
        let bytes = question.encode(id);
        let talk = async {
            let mut stream = Descriptor::new(self.socket.try_clone()?)?;
            write(&mut stream, &bytes).await?;
            collect(&mut stream, id).await
        };
        match timeout(time, talk).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => Err(Code::SERVER_DOWN),
            Err(_) => Err(Code::TIMEOUT),
        }
    }

    /// Says goodbye; there is no answer.
    pub(super) fn close(mut self) {
        let bytes = Question::Unbind.encode(std::mem::take(&mut self.next).max(1));
        // The end of the connection says the same.
        let _ = sys::socket::send(&self.socket, &bytes, false);
    }
}

async fn connect(host: &Address, time: Duration) -> io::Result<OwnedFd> {
    let deadline = Instant::now() + time;
    let (name, port) = match host {
        Address::Unix(path) => {
            let path = server::paths::os_path(path);
            return Descriptor::connect_unix(Path::new(&path), deadline).await?.duplicate();
        }
        Address::Tcp(name, port) => (name, *port),
    };
    let addresses = dns::all_addresses_of(name).await.map_err(io::Error::other)?;
    let mut result = Err(io::ErrorKind::NotFound.into());
    for ip in addresses {
        result = Descriptor::connect(SocketAddr::new(ip, port), deadline).await;
        if let Ok(stream) = &result {
            // A query is written as a whole; a socket that keeps Nagle's delay also works.
            let _ = sys::socket::set_nodelay(stream.as_fd(), true);
            break;
        }
    }
    result?.duplicate()
}

async fn write(stream: &mut Descriptor, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, bytes)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// Reads until a query is answered. The outer error is one of the connection.
async fn collect(stream: &mut Descriptor, id: i32) -> io::Result<Result<(Code, Response), Code>> {
    let (mut response, mut bytes, mut total) = (Response::default(), Vec::new(), 0);
    loop {
        let length = match ber::whole(&bytes) {
            Ok(Some(length)) if length > RESPONSE_MAX => return Ok(Err(Code::DECODING_ERROR)),
            Ok(length) => length,
            Err(_) => return Ok(Err(Code::DECODING_ERROR)),
        };
        let Some(length) = length.filter(|length| *length <= bytes.len()) else {
            let count = read(stream, &mut bytes).await?;
            total += count;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if total > RESPONSE_MAX {
                return Ok(Err(Code::DECODING_ERROR));
            }
            continue;
        };
        let decoded = message::decode(&bytes[..length]);
        bytes.drain(..length);
        match decoded {
            Ok((about, _)) if about != id => return Ok(Err(Code::SERVER_DOWN)),
            Ok((_, Reply::Entry(entry))) => response.entries.push(entry),
            Ok((_, Reply::Elsewhere(urls))) => response.elsewhere.push(urls),
            Ok((_, Reply::Done(code, referrals))) => {
                response.referrals = referrals;
                return Ok(Ok((code, response)));
            }
            Ok((_, Reply::Unasked)) | Err(_) => return Ok(Err(Code::DECODING_ERROR)),
        }
    }
}

async fn read(stream: &mut Descriptor, bytes: &mut Vec<u8>) -> io::Result<usize> {
    // Not on the stack, which is small in a worker thread.
    let start = bytes.len();
    bytes.resize(start + STEP, 0);
    let mut buffer = ReadBuf::new(&mut bytes[start..]);
    let result = poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut buffer)).await;
    let count = buffer.filled().len();
    bytes.truncate(start + count);
    result.map(|()| count)
}
