//! A client of HTTP/2 that sends arbitrary frames, also those that no other client would send; a server can be made of it, too.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use http::h2::hpack::Decoder;

/// Everything that must come does so within this time.
const DEADLINE: Duration = Duration::from_secs(30);

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// What a client sends before its first frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Flags: of DATA and HEADERS, of SETTINGS and PING, of HEADERS and CONTINUATION.
pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// The state of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// An answer with this status and body.
    Answered(u16, Vec<u8>),
    /// It was reset, for this reason.
    Reset(u32),
    /// The connection has ended, for this reason if one was given.
    Gone(Option<u32>),
}

/// A connection.
pub struct Frames {
    stream: TcpStream,
    next: u32,
    decoder: Decoder,
    /// The fields of the last head.
    head: Vec<(String, String)>,
}

impl Frames {
    /// Connects and greets with these settings.
    pub fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Frames {
        Frames::greet(TcpStream::connect(address).expect("connect"), settings)
    }

    /// Greets over a stream that is there already.
    pub fn greet(stream: TcpStream, settings: &[(u16, u32)]) -> Frames {
        let mut frames = Frames::over(stream);
        frames.raw(PREFACE);
        frames.settings(settings);
        frames
    }

    /// The server's end of a connection, after the client's preface; `None`: the client sends none.
    pub fn accept(stream: TcpStream, settings: &[(u16, u32)]) -> Option<Frames> {
        let mut frames = Frames::over(stream);
        (frames.bytes(PREFACE.len())? == PREFACE).then(|| frames.settings(settings))?;
        Some(frames)
    }

    fn settings(&mut self, settings: &[(u16, u32)]) {
        let each = |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
        self.send(SETTINGS, 0, 0, &settings.iter().flat_map(each).collect::<Vec<u8>>());
    }

    /// Connects and says nothing.
    pub fn silent(address: SocketAddr) -> Frames {
        Frames::over(TcpStream::connect(address).expect("connect"))
    }

    fn over(stream: TcpStream) -> Frames {
        stream.set_read_timeout(Some(DEADLINE)).expect("timeout");
        stream.set_write_timeout(Some(DEADLINE)).expect("timeout");
        // Otherwise a frame waits until the server has acknowledged the one before.
        stream.set_nodelay(true).expect("nodelay");
        Frames { stream, next: 1, decoder: Decoder::new(4096), head: Vec::new() }
    }

    /// Its own address.
    pub fn address(&self) -> SocketAddr {
        self.stream.local_addr().expect("an address")
    }

    /// Sends bytes; `false`: the server has closed the connection.
    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a frame; `false`: the server has closed the connection.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.raw(&frame(kind, flags, stream, payload))
    }

    /// Begins a request with these fields, the pseudo-header fields first. Returns its stream.
    pub fn ask(&mut self, fields: &[(&str, &str)], ends: bool) -> u32 {
        let stream = self.next;
        self.next += 2;
        let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
        self.send(HEADERS, flags, stream, &block(fields));
        stream
    }

    /// Begins a GET. Returns its stream.
    pub fn get(&mut self, path: &str) -> u32 {
        self.ask(&request("GET", path), true)
    }

    /// A head of HTTP/1, to its empty line.
    pub fn http1_head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.bytes(1).expect("a head"));
        }
        String::from_utf8_lossy(&head).into_owned()
    }

    /// The next frame; `None`: the connection has ended.
    pub fn frame(&mut self) -> Option<Frame> {
        let head = self.bytes(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let frame = Frame { kind: head[3], flags: head[4], stream, payload: self.bytes(length)? };
        if frame.kind == HEADERS && frame.flags & END_HEADERS != 0 {
            self.head.clear();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let decoded =
                self.decoder.decode(&frame.payload, |name, value, ()| self.head.push((text(name), text(value))));
            decoded.expect("a head");
        }
        Some(frame)
    }

    /// The fields of the last head.
    pub fn head(&self) -> &[(String, String)] {
        &self.head
    }

    /// The status in the last head.
    fn status(&self) -> u16 {
        let status = self.head.iter().find(|(name, _)| name == ":status").and_then(|(_, status)| status.parse().ok());
        status.expect("a status")
    }

    /// The response to a request with these fields and without a body: status, fields, body.
    pub fn response(&mut self, fields: &[(&str, &str)]) -> (u16, Vec<(String, String)>, Vec<u8>) {
        let stream = self.ask(fields, true);
        let Ended::Answered(status, body) = self.ended(stream) else { panic!("no response to {fields:?}") };
        (status, self.head.iter().filter(|(name, _)| name != ":status").cloned().collect(), body)
    }

    fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        match self.stream.read_exact(&mut bytes) {
            Ok(()) => Some(bytes),
            Err(error) => {
                assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "nothing comes");
                None
            }
        }
    }

    /// Reads until a stream has ended, opens its window as it goes, and answers pings and settings.
    pub fn ended(&mut self, stream: u32) -> Ended {
        self.all(&[stream]).remove(0)
    }

    /// The same for several streams at once.
    pub fn all(&mut self, streams: &[u32]) -> Vec<Ended> {
        let mut found: Vec<Option<Ended>> = vec![None; streams.len()];
        let mut statuses = vec![0; streams.len()];
        let mut bodies = vec![Vec::new(); streams.len()];
        let mut gone = None;
        while found.iter().any(Option::is_none) {
            let Some(frame) = self.frame() else {
                return found.into_iter().map(|one| one.unwrap_or(Ended::Gone(gone))).collect();
            };
            let at = streams.iter().position(|stream| *stream == frame.stream);
            match (frame.kind, at) {
                (GOAWAY, _) => gone = Some(number(&frame.payload[4..])),
                (SETTINGS, _) if frame.flags & ACK == 0 => drop(self.send(SETTINGS, ACK, 0, b"")),
                (PING, _) if frame.flags & ACK == 0 => drop(self.send(PING, ACK, 0, &frame.payload)),
                (RST_STREAM, Some(at)) => drop(found[at].get_or_insert(Ended::Reset(number(&frame.payload)))),
                // Later ones are the fields after a body.
                (HEADERS, Some(at)) if statuses[at] < 200 => statuses[at] = self.status(),
                (DATA, Some(at)) => {
                    if !frame.payload.is_empty() {
                        let size = (frame.payload.len() as u32).to_be_bytes();
                        self.send(WINDOW_UPDATE, 0, 0, &size);
                        self.send(WINDOW_UPDATE, 0, frame.stream, &size);
                    }
                    bodies[at].extend(frame.payload);
                }
                _ => {}
            }
            if let (HEADERS | DATA, Some(at)) = (frame.kind, at)
                && frame.flags & END_STREAM != 0
            {
                found[at] = Some(Ended::Answered(statuses[at], std::mem::take(&mut bodies[at])));
            }
        }
        found.into_iter().flatten().collect()
    }

    /// The body of a stream's response, and the fields after it.
    pub fn ended_with_fields(&mut self, stream: u32) -> (String, Vec<(String, String)>) {
        let Ended::Answered(_, body) = self.ended(stream) else { panic!("no response") };
        (String::from_utf8_lossy(&body).into_owned(), self.head.clone())
    }

    /// Reads to the end of the connection: why the server has ended it, if it has said so.
    pub fn end(&mut self) -> Option<u32> {
        let mut why = None;
        while let Some(frame) = self.frame() {
            if frame.kind == GOAWAY {
                why = Some(number(&frame.payload[4..]));
            }
        }
        why
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// A frame, as bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The pseudo-header fields of a request.
pub fn request<'a>(method: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
    [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost")]
}

/// A head, each field as it is (RFC 7541 section 6.2.2).
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            // A length of up to 7 bits, or 127 and what is above that.
            match text.len() {
                short @ ..127 => bytes.push(short as u8),
                long => {
                    bytes.push(127);
                    let mut rest = long - 127;
                    while rest >= 128 {
                        bytes.push((rest % 128 + 128) as u8);
                        rest /= 128;
                    }
                    bytes.push(rest as u8);
                }
            }
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}
