//! A client that says exactly what a test wants to say, and believes nothing of an answer that it has not checked.
//!
//! It shares no code with the server: a mistake about framing in one must not hide in the other.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::harness::wait::DEADLINE;

/// A connection.
pub struct Client {
    stream: TcpStream,
    /// Received and not taken yet.
    buffer: Vec<u8>,
}

/// A final response, checked against RFC 9112.
#[derive(Clone, Debug)]
pub struct Response {
    pub minor_version: u8,
    pub status: u16,
    pub reason: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    /// The statuses of the interim responses before it.
    pub interim: Vec<u16>,
    /// How the end of the body was told.
    pub framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    None,
    Length,
    Chunked,
    Close,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    Reset,
}

impl Response {
    /// The value of a field that stands once; `None` if it does not stand at all.
    pub fn field(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() <= 1, "{name} stands {} times in {self:?}", values.len());
        values.first().copied()
    }

    /// The values of a field.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| &**value).collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the server closes the connection after it.
    pub fn closes(&self) -> bool {
        let tokens = self.all("Connection").join(",").to_ascii_lowercase();
        let has = |token: &str| tokens.split(',').any(|one| one.trim() == token);
        self.framing == Framing::Close || has("close") || self.minor_version == 0 && !has("keep-alive")
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("connect to {address}: {error}"));
        Client::over(stream)
    }

    /// Talks over a stream that is there already.
    pub fn over(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(DEADLINE)).expect("timeout");
        stream.set_write_timeout(Some(DEADLINE)).expect("timeout");
        stream.set_nodelay(true).expect("nodelay");
        Client { stream, buffer: Vec::new() }
    }

    /// Our end of the connection.
    pub fn address(&self) -> SocketAddr {
        self.stream.local_addr().expect("address")
    }

    /// Sends bytes. A server that has closed already is no reason to fail: its answer tells why.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Sends pieces, each in a packet of its own.
    pub fn send_in_pieces(&mut self, bytes: &[u8], size: usize) {
        for piece in bytes.chunks(size) {
            self.send(piece);
            // Without Nagle a write is a packet; the server gets its turn to see it.
            std::thread::yield_now();
        }
    }

    /// Ends our direction; the answer can still come.
    pub fn half_close(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Resets the connection, like a client that has vanished.
    pub fn reset(self) {
        sys::socket::set_linger(&self.stream, Some(Duration::ZERO)).expect("linger");
    }

    /// How long the next read waits.
    pub fn patience(&self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).expect("timeout");
    }

    /// How long sending waits for the server to take what is sent.
    pub fn patience_to_send(&self, time: Duration) {
        self.stream.set_write_timeout(Some(time)).expect("timeout");
    }

    /// Whether nothing has come that was not taken.
    pub fn is_silent(&self) -> bool {
        self.stream.set_nonblocking(true).expect("non-blocking");
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("blocking");
        self.buffer.is_empty() && peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Whether bytes of the server have arrived, or its end.
    pub fn has_input(&mut self) -> bool {
        self.stream.set_nonblocking(true).expect("a socket");
        let heard = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("a socket");
        !matches!(heard, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Waits, and expects no bytes meanwhile. A closed connection is reported by the next read of an answer.
    pub fn hears_nothing_for(&mut self, time: Duration) {
        self.patience(time);
        let heard = self.stream.peek(&mut [0]);
        self.patience(DEADLINE);
        assert!(!matches!(heard, Ok(1..)), "the server speaks without having been asked");
    }

    /// Sends a request and takes its answer.
    pub fn request(&mut self, text: impl AsRef<[u8]>) -> Response {
        let text = text.as_ref();
        self.send(text);
        self.response_to(if text.starts_with(b"HEAD ") { "HEAD" } else { "GET" })
    }

    /// `GET` with a `Host` field.
    pub fn get(&mut self, path: &str) -> Response {
        self.request(get(path))
    }

    /// The next answer, to `GET` or the like.
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// The next answer; to `HEAD` there is no body.
    pub fn response_to(&mut self, method: &str) -> Response {
        self.try_response_to(method).unwrap_or_else(|why| panic!("no answer: {why}"))
    }

    /// The next answer, or why there is none. An answer that breaks the rules always fails the test.
    pub fn try_response_to(&mut self, method: &str) -> Result<Response, String> {
        let (response, whole) = self.beginning_to(method)?;
        whole.map(|()| response)
    }

    /// The next answer, as much as there is of it, and whether that is all.
    pub fn beginning_to(&mut self, method: &str) -> Result<(Response, Result<(), String>), String> {
        let mut interim = Vec::new();
        loop {
            let head = self.take_head()?;
            let (minor_version, status, reason) = status_line(&head);
            let fields = fields(head.split_once("\r\n").map_or("", |(_, rest)| rest));
            if (100..200).contains(&status) {
                assert!(fields.is_empty(), "an interim response with fields: {head:?}");
                interim.push(status);
                continue;
            }
            let mut response = Response {
                minor_version,
                status,
                reason,
                fields,
                interim,
                body: Vec::new(),
                trailers: Vec::new(),
                framing: Framing::None,
            };
            assert!(response.field("Date").is_some_and(is_date), "no good Date: {head:?}");
            let whole = self.read_body(&mut response, method == "HEAD");
            return Ok((response, whole));
        }
    }

    /// Everything until the connection ends.
    pub fn rest(&mut self) -> (Vec<u8>, End) {
        let mut piece = [0; 65536];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return (std::mem::take(&mut self.buffer), End::Closed),
                Ok(length) => self.buffer.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return (std::mem::take(&mut self.buffer), End::Reset);
                }
                Err(error) => panic!("the connection does not end: {error}; so far {:?}", lossy(&self.buffer)),
            }
        }
    }

    /// Nothing comes any more, and the end is orderly.
    pub fn expect_end(&mut self) {
        let (rest, end) = self.rest();
        assert_eq!((lossy(&rest).as_str(), end), ("", End::Closed));
    }

    /// Reads at least so many bytes and leaves the others unread.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.need(count).unwrap_or_else(|why| panic!("no {count} bytes: {why}"));
        self.buffer.drain(..count).collect()
    }

    fn read_body(&mut self, response: &mut Response, head_only: bool) -> Result<(), String> {
        let length = response.field("Content-Length").map(str::to_string);
        let coding = response.field("Transfer-Encoding").map(str::to_string);
        assert!(length.is_none() || coding.is_none(), "both Content-Length and Transfer-Encoding: {response:?}");
        if let Some(coding) = &coding {
            assert_eq!(coding, "chunked");
            assert_eq!(response.minor_version, 1, "chunked for HTTP/1.0");
        }
        if response.status == 204 {
            assert!(length.is_none() && coding.is_none(), "a 204 with a body: {response:?}");
        }
        if head_only || response.status == 204 || response.status == 304 {
            return Ok(());
        }
        if let Some(length) = length {
            assert!(length.bytes().all(|byte| byte.is_ascii_digit()), "Content-Length: {length}");
            let length: usize = length.parse().expect("Content-Length");
            self.need(length)?;
            response.body = self.buffer.drain(..length).collect();
            response.framing = Framing::Length;
        } else if coding.is_some() {
            self.read_chunks(response)?;
            response.framing = Framing::Chunked;
        } else {
            assert!(response.closes(), "a body without length on a connection that stays open: {response:?}");
            (response.body, _) = self.rest();
            response.framing = Framing::Close;
        }
        Ok(())
    }

    fn read_chunks(&mut self, response: &mut Response) -> Result<(), String> {
        loop {
            let line = self.take_until(b"\r\n")?;
            let size = line.strip_suffix("\r\n").unwrap_or_default();
            assert!(!size.is_empty() && size.bytes().all(|byte| byte.is_ascii_hexdigit()), "chunk size {line:?}");
            let size = usize::from_str_radix(size, 16).expect("chunk size");
            if size == 0 {
                break;
            }
            self.need(size + 2)?;
            response.body.extend(self.buffer.drain(..size));
            assert_eq!(self.buffer.drain(..2).collect::<Vec<u8>>(), b"\r\n", "the end of a chunk");
        }
        let mut trailers = String::new();
        loop {
            let line = self.take_until(b"\r\n")?;
            trailers.push_str(&line);
            if line == "\r\n" {
                break;
            }
        }
        response.trailers = fields(&trailers);
        Ok(())
    }

    /// A head with its empty line.
    fn take_head(&mut self) -> Result<String, String> {
        self.take_until(b"\r\n\r\n")
    }

    fn take_until(&mut self, end: &[u8]) -> Result<String, String> {
        let mut looked_at = 0;
        loop {
            if let Some(at) = self.buffer[looked_at..].windows(end.len()).position(|window| window == end) {
                return Ok(self.buffer.drain(..looked_at + at + end.len()).map(char::from).collect());
            }
            looked_at = (self.buffer.len() + 1).saturating_sub(end.len());
            self.fill()?;
        }
    }

    fn need(&mut self, count: usize) -> Result<(), String> {
        while self.buffer.len() < count {
            self.fill()?;
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), String> {
        let mut piece = [0; 65536];
        let read = loop {
            match self.stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(0) => Err(format!("the connection was closed after {:?}", lossy(&self.buffer))),
            Ok(length) => {
                self.buffer.extend_from_slice(&piece[..length]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err("nothing came in time".into())
            }
            Err(error) => Err(format!("{error} after {:?}", lossy(&self.buffer))),
        }
    }
}

/// A `GET` with a `Host` field.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn lossy(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(2000)];
    String::from_utf8_lossy(shown).into_owned()
}

fn status_line(head: &str) -> (u8, u16, String) {
    let line = head.split_once("\r\n").map_or("", |(line, _)| line);
    let parsed = line.strip_prefix("HTTP/1.").and_then(|rest| {
        let (minor, rest) = rest.split_once(' ')?;
        let (status, reason) = rest.split_once(' ')?;
        (status.len() == 3).then_some(())?;
        Some((minor.parse().ok()?, status.parse().ok()?, reason.to_string()))
    });
    let (minor, status, reason): (u8, u16, String) = parsed.unwrap_or_else(|| panic!("status line {line:?}"));
    assert!(minor <= 1 && status >= 100, "status line {line:?}");
    assert!(!reason.contains(|c: char| c.is_control() && c != '\t'), "status line {line:?}");
    (minor, status, reason)
}

/// Field lines, with the empty line at their end.
fn fields(text: &str) -> Vec<(String, String)> {
    let lines = text.strip_suffix("\r\n").unwrap_or_else(|| panic!("fields without an empty line: {text:?}"));
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let field = |line: &str| {
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("field line {line:?}"));
        assert!(!name.is_empty() && name.chars().all(is_token), "field name {name:?}");
        assert!(!value.contains(|c: char| c.is_control() && c != '\t'), "field value {value:?}");
        (name.to_string(), value.trim_matches([' ', '\t']).to_string())
    };
    lines.split_terminator("\r\n").map(field).collect()
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn is_date(text: &str) -> bool {
    let pattern = "Aaa, 00 Aaa 0000 00:00:00 GMT";
    text.len() == pattern.len()
        && text.chars().zip(pattern.chars()).all(|(have, want)| match want {
            '0' => have.is_ascii_digit(),
            'A' => have.is_ascii_uppercase(),
            'a' => have.is_ascii_lowercase(),
            other => have == other,
        })
}
