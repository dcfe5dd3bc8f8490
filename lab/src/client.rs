//! A small HTTP client of our own: to see whether a server answers correctly before it is measured, and to hold
//! idle connections. It never shares code with the server, so a framing mistake there is noticed here.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::{Context as _, Error, Result};

/// How long any single answer may take on an otherwise idle machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// More head than any measured server sends.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    address: SocketAddr,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    /// The status code.
    pub(crate) status: u16,
    /// The body, as long as Content-Length said.
    pub(crate) body: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).context(|| format!("connect to {address}"))?;
        for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
            set(&stream, Some(PATIENCE)).context(|| "set a time limit on a connection".to_owned())?;
        }
        Ok(Self { stream, address })
    }

    /// Requests `/name` and reads the whole answer.
    pub(crate) fn get(&mut self, name: &str, close: bool) -> Result<Response> {
        let close = if close { "Connection: close\r\n" } else { "" };
        let request = format!("GET /{name} HTTP/1.1\r\nHost: {}\r\n{close}\r\n", self.address);
        self.exchange(request.as_bytes()).context(|| format!("get /{name} from {}", self.address))
    }

    fn exchange(&mut self, request: &[u8]) -> Result<Response> {
        self.stream.write_all(request).context(|| "send the request".to_owned())?;
        let mut received = Vec::with_capacity(1024);
        let mut buffer = [0; 16 * 1024];
        let (status, end) = loop {
            let length = self.receive(&mut buffer)?;
            received.extend_from_slice(&buffer[..length]);
            if let Some(head) = parse_head(&received)? {
                break (head.status, head.length + head.content_length);
            }
            if received.len() > HEAD_BYTES_MAX {
                return Err(Error::new("the response head does not end"));
            }
        };
        while received.len() < end {
            let length = self.receive(&mut buffer)?;
            received.extend_from_slice(&buffer[..length]);
        }
        if received.len() > end {
            return Err(Error::new("there is more than Content-Length announced"));
        }
        let head_length = parse_head(&received)?.map_or(0, |head| head.length);
        Ok(Response { status, body: received.split_off(head_length) })
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self.stream.read(buffer).context(|| "read the response".to_owned())? {
            0 => Err(Error::new("the server closed the connection early")),
            length => Ok(length),
        }
    }

    /// Whether the server has kept this idle connection; it must not have sent anything either.
    pub(crate) fn is_open(&self) -> bool {
        let mut byte = [0];
        let quiet = self.stream.set_nonblocking(true).is_ok()
            && matches!(self.stream.peek(&mut byte), Err(error) if error.kind() == ErrorKind::WouldBlock);
        quiet && self.stream.set_nonblocking(false).is_ok()
    }

    /// Waits until the server has closed.
    pub(crate) fn await_end(&mut self) -> Result<()> {
        match self.stream.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Error::new("there is more than Content-Length announced")),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
            Err(error) => Err(Error::new(format!("the server does not close although asked to: {error}"))),
        }
    }
}

/// What a response head says about framing.
struct Head {
    status: u16,
    length: usize,
    content_length: usize,
}

/// `None` until the empty line has arrived.
fn parse_head(received: &[u8]) -> Result<Option<Head>> {
    let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&received[..end]);
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .ok_or_else(|| Error::new(format!("not an HTTP/1.1 status line: {status_line:?}")))?;
    let content_length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| Error::new("the response has no Content-Length"))?;
    Ok(Some(Head { status, length: end + 4, content_length }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Answers one connection with `answer` and closes it.
    fn get_from(answer: &'static [u8]) -> Result<Response> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer).unwrap();
        });
        let response = Connection::open(address).unwrap().get("x", false);
        server.join().unwrap();
        response
    }

    #[test]
    fn a_response_is_read_by_its_length() {
        let response = get_from(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").unwrap();
        assert_eq!((response.status, &response.body[..]), (200, &b"abc"[..]));
    }

    #[test]
    fn wrong_framing_is_an_error() {
        let table: [(&[u8], &str); 4] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", "more than"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "closed"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "no Content-Length"),
            (b"SSH-2.0\r\n\r\n", "status line"),
        ];
        for (answer, expected) in table {
            let error = get_from(answer).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
