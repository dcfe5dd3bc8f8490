//! What a server answers, and the connections on which it is asked.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;

use super::ask::Ask;
use crate::load::client::{Connector, Stream};
use crate::load::tls::{Client, Tls};
use crate::machine::interrupt;

/// The most of a body that is kept, in bytes; what is beyond is counted.
pub(crate) const BODY_MAX: usize = 16 * 1024 * 1024;
/// The most of a body that is read: a stream without an end stops here.
const READ_MAX: usize = 64 * 1024 * 1024;
/// The most bytes of a head.
const HEAD_MAX: usize = 256 * 1024;
/// The most fields of a head.
const FIELDS_MAX: usize = 1024;

/// How often a wait for bytes looks whether it has become too long.
const LOOK: Duration = Duration::from_millis(100);

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) minor: u8,
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// The fields in their order.
    pub(crate) fields: Vec<(String, String)>,
    /// The body without framing.
    pub(crate) body: Vec<u8>,
    /// The bytes of the body, those that were not kept too.
    pub(crate) length: u64,
    /// Whether the connection stays open for another request.
    pub(crate) keeps: bool,
    /// Why the answer is not whole, if it is not.
    pub(crate) fault: Option<Fault>,
}

/// Why an answer is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Nobody accepts connections.
    NoConnection,
    /// The connection ended before the head.
    NoAnswer,
    /// Nothing came for too long.
    Late,
    /// The connection ended within the body.
    Cut,
    /// These bytes are no answer of HTTP.
    Malformed,
}

impl Fault {
    /// In words.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::NoConnection => "no connection",
            Self::NoAnswer => "the connection closes without an answer",
            Self::Late => "no answer in time",
            Self::Cut => "the connection closes within the body",
            Self::Malformed => "no valid answer",
        }
    }
}

impl Answer {
    /// All values of a field, in their order.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let own = self.fields.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        own.map(|(_, value)| value.as_str()).collect()
    }

    /// The first value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    fn broken(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }
}

/// Where a server is asked: one connection for each endpoint and name, kept as long as the server keeps it.
#[derive(Debug)]
pub(crate) struct Asker {
    patience: Duration,
    kept: BTreeMap<(SocketAddr, Option<String>), Connection>,
    clients: BTreeMap<String, Option<Client>>,
}

/// TLS for a value of `Host`. Addresses and what is no name are not told to the server, so its first certificate comes.
pub(crate) fn tls_to(host: &str) -> Tls {
    let bare = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(bare, _)| bare),
    };
    let bare = if bare.is_empty() { "localhost" } else { bare };
    let tls = Tls::to(bare);
    if ServerName::try_from(bare).is_ok() { tls } else { Tls::to("127.0.0.1") }
}

/// What decides which connection carries a request.
fn key(ask: &Ask, address: SocketAddr) -> (SocketAddr, Option<String>) {
    (address, ask.is_encrypted.then(|| ask.host.clone().unwrap_or_default()))
}

#[derive(Debug)]
struct Connection {
    stream: Stream,
    /// Bytes that came after the last answer.
    rest: Vec<u8>,
}

impl Asker {
    /// Waits this long for each answer.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, kept: BTreeMap::new(), clients: BTreeMap::new() }
    }

    /// Asks at an address. A kept connection that turns out to be closed is replaced once.
    pub(crate) fn ask(&mut self, ask: &Ask, bytes: &[u8], address: SocketAddr) -> Answer {
        let key = key(ask, address);
        if let Some(mut connection) = self.kept.remove(&key)
            && connection.is_quiet()
        {
            let answer = connection.exchange(ask, bytes, self.patience);
            if answer.fault != Some(Fault::NoAnswer) {
                return self.keep(key, connection, answer);
            }
        }
        let Some(mut connection) = self.open(address, key.1.as_deref()) else {
            return Answer::broken(Fault::NoConnection);
        };
        let answer = connection.exchange(ask, bytes, self.patience);
        self.keep(key, connection, answer)
    }

    /// Whether a connection is kept for such a request that the server has not closed meanwhile.
    pub(crate) fn has_connection(&mut self, ask: &Ask, address: SocketAddr) -> bool {
        self.kept.get_mut(&key(ask, address)).is_some_and(Connection::is_quiet)
    }

    /// Closes all connections.
    pub(crate) fn close_all(&mut self) {
        self.kept.clear();
    }

    fn keep(&mut self, key: (SocketAddr, Option<String>), connection: Connection, answer: Answer) -> Answer {
        if answer.keeps && answer.fault.is_none() {
            self.kept.insert(key, connection);
        }
        answer
    }

    fn open(&mut self, address: SocketAddr, name: Option<&str>) -> Option<Connection> {
        let connector = Connector { patience: self.patience, receive_buffer: None };
        let client = match name {
            Some(host) => {
                let make = || tls_to(host).client().ok();
                let client = self.clients.entry(host.to_owned()).or_insert_with(make);
                Some(client.as_ref()?)
            }
            None => None,
        };
        let stream = connector.open_with(address, client).ok()?.into_stream();
        stream.socket().set_read_timeout(Some(LOOK)).ok()?;
        Some(Connection { stream, rest: Vec::new() })
    }
}

impl Connection {
    /// Whether the server has sent nothing since, not even its end.
    fn is_quiet(&mut self) -> bool {
        let socket = self.stream.socket();
        let quiet = socket.set_nonblocking(true).is_ok()
            && matches!(socket.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        self.rest.is_empty() && socket.set_nonblocking(false).is_ok() && quiet
    }

    fn exchange(&mut self, ask: &Ask, bytes: &[u8], patience: Duration) -> Answer {
        let deadline = Instant::now() + patience;
        // A server may answer and close before it has read everything: what it says counts, not whether it listened.
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        let mut received = Received { stream: &mut self.stream, bytes: std::mem::take(&mut self.rest), deadline };
        let answer = received.answer(ask.method == "HEAD");
        self.rest = std::mem::take(&mut received.bytes);
        answer.unwrap_or_else(Answer::broken)
    }
}

/// Bytes as they come.
struct Received<'s> {
    stream: &'s mut Stream,
    bytes: Vec<u8>,
    deadline: Instant,
}

impl Received<'_> {
    /// Waits for more bytes; false at the end of the connection.
    fn more(&mut self) -> Result<bool, Fault> {
        let mut buffer = [0; 16 * 1024];
        loop {
            // Whoever interrupts the laboratory does not want to wait for the rest.
            if Instant::now() > self.deadline || interrupt::is_asked() {
                return Err(Fault::Late);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(length) => {
                    self.bytes.extend(&buffer[..length]);
                    return Ok(true);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    // A reset, or a TLS connection that ends without saying so.
                    _ => return Ok(false),
                },
            }
        }
    }

    /// The next answer that is not interim.
    fn answer(&mut self, to_head: bool) -> Result<Answer, Fault> {
        let mut answer = loop {
            let answer = self.head()?;
            if !(100..200).contains(&answer.status) || answer.status == 101 {
                break answer;
            }
        };
        let told = answer.all("connection").join(",").to_ascii_lowercase();
        let says = |word: &str| told.split(',').any(|part| part.trim() == word);
        answer.keeps = if answer.minor == 0 { says("keep-alive") } else { !says("close") };
        if answer.status == 101 {
            answer.keeps = false;
            return Ok(answer);
        }
        let fault = self.body(&mut answer, to_head)?;
        answer.fault = fault;
        Ok(answer)
    }

    fn head(&mut self) -> Result<Answer, Fault> {
        loop {
            let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
            let mut head = httparse::Response::new(&mut fields);
            match head.parse(&self.bytes) {
                Err(_) => return Err(Fault::Malformed),
                Ok(httparse::Status::Complete(length)) => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let answer = Answer {
                        minor: head.version.unwrap_or(1),
                        status: head.code.unwrap_or_default(),
                        reason: head.reason.unwrap_or_default().to_owned(),
                        fields: head.headers.iter().map(|one| (one.name.to_owned(), text(one.value))).collect(),
                        ..Answer::default()
                    };
                    self.bytes.drain(..length);
                    return Ok(answer);
                }
                Ok(httparse::Status::Partial) if self.bytes.len() > HEAD_MAX => return Err(Fault::Malformed),
                Ok(httparse::Status::Partial) => {
                    if !self.more()? {
                        return Err(Fault::NoAnswer);
                    }
                }
            }
        }
    }

    /// Reads the body (RFC 9112 section 6.3); a fault leaves what was read.
    fn body(&mut self, answer: &mut Answer, to_head: bool) -> Result<Option<Fault>, Fault> {
        if to_head || matches!(answer.status, 204 | 304) {
            return Ok(None);
        }
        let coding = answer.field("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        if coding {
            return self.chunks(answer);
        }
        let length = answer.field("content-length").map(str::parse::<u64>);
        match length {
            Some(Ok(length)) => {
                let is_whole = self.take(answer, length)?;
                if answer.length > READ_MAX as u64 {
                    // It was not read to its end, so its length is what the server says.
                    answer.length = length;
                }
                Ok((!is_whole).then_some(Fault::Cut))
            }
            Some(Err(_)) => Err(Fault::Malformed),
            None => {
                answer.keeps = false;
                self.take(answer, READ_MAX as u64)?;
                Ok(None)
            }
        }
    }

    /// Takes this many bytes of the body; false if the connection ends before.
    fn take(&mut self, answer: &mut Answer, length: u64) -> Result<bool, Fault> {
        let mut left = length;
        loop {
            // Every server's body ends at the same byte, however its bytes arrive.
            let most = left.min((READ_MAX as u64 + 1).saturating_sub(answer.length));
            let now = usize::try_from(most).unwrap_or(usize::MAX).min(self.bytes.len());
            let room = BODY_MAX.saturating_sub(answer.body.len()).min(now);
            answer.body.extend(&self.bytes[..room]);
            answer.length += now as u64;
            self.bytes.drain(..now);
            left -= now as u64;
            if left == 0 {
                return Ok(true);
            }
            if answer.length > READ_MAX as u64 {
                answer.keeps = false;
                return Ok(true);
            }
            if !self.more()? {
                return Ok(false);
            }
        }
    }

    fn chunks(&mut self, answer: &mut Answer) -> Result<Option<Fault>, Fault> {
        loop {
            let Some(line) = self.line()? else { return Ok(Some(Fault::Cut)) };
            let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            let size = std::str::from_utf8(size).ok().and_then(|size| u64::from_str_radix(size, 16).ok());
            let size = size.ok_or(Fault::Malformed)?;
            if size == 0 {
                // Trailers end with an empty line.
                while let Some(line) = self.line()? {
                    if line.is_empty() {
                        return Ok(None);
                    }
                }
                return Ok(Some(Fault::Cut));
            }
            if !self.take(answer, size)? {
                return Ok(Some(Fault::Cut));
            }
            if answer.length > READ_MAX as u64 {
                return Ok(None);
            }
            match self.line()? {
                Some(line) if line.is_empty() => {}
                Some(_) => return Err(Fault::Malformed),
                None => return Ok(Some(Fault::Cut)),
            }
        }
    }

    /// The next line, without its end; none if the connection ends before.
    fn line(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
                line.pop();
                line.pop_if(|byte| *byte == b'\r');
                return Ok(Some(line));
            }
            if self.bytes.len() > HEAD_MAX {
                return Err(Fault::Malformed);
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }
}

/// The body as it was before a coding; none if it has no coding, or one that is unknown or broken.
pub(crate) fn decoded(answer: &Answer) -> Option<Vec<u8>> {
    let coding = answer.field("content-encoding")?;
    let mut out = Vec::new();
    let source = &answer.body[..];
    let read: io::Result<usize> = match coding.trim().to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => flate2::read::MultiGzDecoder::new(source).take(READ_MAX as u64).read_to_end(&mut out),
        "deflate" => flate2::read::ZlibDecoder::new(source).take(READ_MAX as u64).read_to_end(&mut out),
        "br" => brotli::Decompressor::new(source, 64 * 1024).take(READ_MAX as u64).read_to_end(&mut out),
        _ => return None,
    };
    read.ok().map(|_| out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_can_be_asked() {
        for (host, name) in [
            ("a.example:443", "a.example"),
            ("a.example", "a.example"),
            ("[::1]", "::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("192.0.2.1", "192.0.2.1"),
            ("a..b", "127.0.0.1"),
            ("", "localhost"),
        ] {
            let tls = tls_to(host);
            assert_eq!(tls.name, name, "{host}");
            assert!(tls.client().is_ok(), "{host}");
        }
    }
}
