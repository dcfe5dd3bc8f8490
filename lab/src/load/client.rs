//! A small HTTP client of our own, plain or over TLS: it checks that a server answers correctly before it is measured,
//! and holds connections open. It shares no code with the server, so it notices the server's framing mistakes.

mod whole;

use std::io::{self, BufRead as _, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustls::{ClientConnection, StreamOwned};

use crate::load::tls::Client;
use crate::machine::error::{Context as _, Error, Result};

/// How long any single response may take on an otherwise idle machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// More bytes than any measured server's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// More bytes than any page that is read without a known length.
const RESPONSE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The options of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connector {
    /// How long connecting, and each wait for bytes, may take.
    pub(crate) patience: Duration,
    /// Bytes that the kernel may receive in advance; `None` leaves that to the kernel.
    pub(crate) receive_buffer: Option<usize>,
}

impl Default for Connector {
    fn default() -> Self {
        Self { patience: PATIENCE, receive_buffer: None }
    }
}

impl Connector {
    /// Connects.
    pub(crate) fn open(self, address: SocketAddr) -> Result<Connection> {
        let stream = self.connect(address).context(|| format!("connect to {address}"))?;
        Ok(Connection { stream: Stream::Clear(stream), address, host: address.to_string() })
    }

    /// Connects, with TLS if there is a client for it; the handshake comes with the first request.
    pub(crate) fn open_with(self, address: SocketAddr, tls: Option<&Client>) -> Result<Connection> {
        let mut connection = self.open(address)?;
        if let (Some(client), Stream::Clear(stream)) = (tls, &connection.stream) {
            let session = ClientConnection::new(client.config.clone(), client.name.clone());
            let session = session.context(|| format!("begin a handshake with {address}"))?;
            let stream = stream.try_clone().context(|| format!("connect to {address}"))?;
            connection.stream = Stream::Encrypted(Box::new(StreamOwned::new(session, stream)));
        }
        Ok(connection)
    }

    /// The limit for sending also applies to connecting; a connection's first window depends on its buffer before that.
    fn connect(self, address: SocketAddr) -> rustix::io::Result<TcpStream> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        for direction in [Timeout::Send, Timeout::Recv] {
            set_socket_timeout(&socket, direction, Some(self.patience))?;
        }
        if let Some(bytes) = self.receive_buffer {
            set_socket_recv_buffer_size(&socket, bytes)?;
        }
        // The end of a handshake and the first request are two small writes, and some servers say nothing between them.
        set_tcp_nodelay(&socket, true)?;
        connect(&socket, &address)?;
        Ok(socket.into())
    }
}

/// The bytes in both directions.
#[derive(Debug)]
pub(crate) enum Stream {
    Clear(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// The socket below TLS.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Clear(stream) => stream,
            Self::Encrypted(stream) => stream.get_ref(),
        }
    }

    /// Waits for bytes to read, without taking them; 0 is the end.
    fn peek(&mut self) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.peek(&mut [0]),
            Self::Encrypted(stream) => stream.fill_buf().map(<[u8]>::len),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.read(into),
            Self::Encrypted(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(stream) => stream.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    address: SocketAddr,
    /// The value of `Host`.
    host: String,
}

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    /// The status code.
    pub(crate) status: u16,
    /// The body, without framing.
    pub(crate) body: Vec<u8>,
}

impl Connection {
    /// Its bytes, for a client that reads responses in its own way.
    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Requests from the virtual host `host` instead of the address.
    pub(crate) fn with_host(self, host: String) -> Self {
        Self { host, ..self }
    }

    /// Requests `/name` and reads the whole response.
    pub(crate) fn get(&mut self, name: &str, close: bool) -> Result<Response> {
        let request = self.request(name, close);
        self.exchange(request.as_bytes()).context(|| format!("get /{name} from {}", self.address))
    }

    /// Requests `/name` as the last one, and reads until the server closes: for responses of unknown length.
    pub(crate) fn fetch(&mut self, name: &str) -> Result<Response> {
        let request = self.request(name, true);
        self.ask_last(&request).context(|| format!("get /{name} from {}", self.address))
    }

    /// Posts a form to `/name` in the last request, and reads until the server closes.
    pub(crate) fn post(&mut self, name: &str, form: &str) -> Result<Response> {
        let request = format!(
            "POST /{name} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            self.host,
            form.len()
        );
        self.ask_last(&request).context(|| format!("post to /{name} at {}", self.address))
    }

    /// Sends a request that asks to close the connection, and reads until the server does.
    fn ask_last(&mut self, request: &str) -> Result<Response> {
        let mut received = Vec::new();
        let sent = self.stream.write_all(request.as_bytes()).and_then(|()| self.stream.flush());
        let exchanged = sent.and_then(|()| (&mut self.stream).take(RESPONSE_BYTES_MAX).read_to_end(&mut received));
        match exchanged {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Error::new("the server took too long")),
            other => other.context(|| "read the response".to_owned()).and_then(|_| whole::parse(&received)),
        }
    }

    fn request(&self, name: &str, close: bool) -> String {
        let close = if close { "Connection: close\r\n" } else { "" };
        format!("GET /{name} HTTP/1.1\r\nHost: {}\r\n{close}\r\n", self.host)
    }

    /// Requests `/name` and waits for the first byte of the response, without taking it.
    pub(crate) fn begin(&mut self, name: &str) -> Result<()> {
        let request = self.request(name, false);
        self.stream.write_all(request.as_bytes()).context(|| "send the request".to_owned())?;
        match self.stream.peek().context(|| "wait for the response".to_owned())? {
            0 => Err(Error::new("the server closed the connection early")),
            _ => Ok(()),
        }
    }

    /// Takes at most `bytes` of the received data, without waiting; false if no more will arrive.
    pub(crate) fn sip(&mut self, bytes: usize) -> bool {
        let mut buffer = vec![0; bytes];
        let taken = self.stream.socket().set_nonblocking(true).and_then(|()| self.stream.read(&mut buffer));
        match taken {
            Ok(length) => length > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }

    fn exchange(&mut self, request: &[u8]) -> Result<Response> {
        let sent = self.stream.write_all(request).and_then(|()| self.stream.flush());
        sent.context(|| "send the request".to_owned())?;
        let mut received = Vec::with_capacity(1024);
        let mut buffer = [0; 16 * 1024];
        let (status, end) = loop {
            let length = self.receive(&mut buffer)?;
            received.extend_from_slice(&buffer[..length]);
            if let Some(head) = parse_head(&received)? {
                break (head.status, head.end());
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
    pub(crate) fn is_open(&mut self) -> bool {
        let quiet = self.stream.socket().set_nonblocking(true).is_ok()
            && matches!(self.stream.peek(), Err(error) if error.kind() == ErrorKind::WouldBlock);
        quiet && self.stream.socket().set_nonblocking(false).is_ok()
    }

    /// Waits until the server has closed.
    pub(crate) fn await_end(&mut self) -> Result<()> {
        match self.stream.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Error::new("there is more than Content-Length announced")),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => Ok(()),
            Err(error) => {
                Err(Error::new(format!("the server was asked to close the connection, but does not: {error}")))
            }
        }
    }
}

/// The framing in a response head.
#[derive(Debug)]
pub(crate) struct Head {
    /// The status code.
    pub(crate) status: u16,
    length: usize,
    content_length: usize,
}

impl Head {
    /// The length of head and body together, in bytes.
    pub(crate) fn end(&self) -> usize {
        self.length + self.content_length
    }
}

/// `None` until the empty line has arrived.
pub(crate) fn parse_head(received: &[u8]) -> Result<Option<Head>> {
    let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&received[..end]);
    let mut lines = text.split("\r\n");
    let status = parse_status(lines.next().unwrap_or_default())?;
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let content_length = length
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| Error::new("the response has no Content-Length"))?;
    Ok(Some(Head { status, length: end + 4, content_length }))
}

fn parse_status(line: &str) -> Result<u16> {
    line.strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .ok_or_else(|| Error::new(format!("not an HTTP/1.1 status line: {line:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Answers one connection with `response` and closes it.
    fn get_from(response: &'static [u8]) -> Result<Response> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(response).unwrap();
        });
        let response = Connector::default().open(address).unwrap().get("x", false);
        server.join().unwrap();
        response
    }

    #[test]
    fn a_response_is_read_by_its_length() {
        let response = get_from(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").unwrap();
        assert_eq!((response.status, &response.body[..]), (200, &b"abc"[..]));
    }

    #[test]
    fn a_head_tells_its_end() {
        let head = |text: &str| parse_head(text.as_bytes()).unwrap().map(|head| (head.status, head.end()));
        let text = "HTTP/1.1 404 Not Found\r\nConnection: close\r\ncontent-length: 9\r\n\r\n";
        assert_eq!(head(text), Some((404, text.len() + 9)));
        assert_eq!(head("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"), None);
    }

    #[test]
    fn wrong_framing_is_an_error() {
        let table: [(&[u8], &str); 4] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", "more than"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "closed"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "no Content-Length"),
            (b"SSH-2.0\r\n\r\n", "status line"),
        ];
        for (response, expected) in table {
            let error = get_from(response).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
