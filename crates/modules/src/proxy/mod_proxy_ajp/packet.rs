//! Packets of AJP/1.3, without I/O: what they hold, and where they end.

use std::borrow::Cow;
use std::fmt;

use bytes::{Buf, Bytes};
use http::text::from_bytes;

/// The length of a packet's header, and the room that a piece of a body leaves for it and its own length.
pub(super) const HEADER: usize = 4;
const BODY_HEADER: usize = HEADER + 2;
/// How a packet to the backend begins, and how one of the backend does.
const TO_BACKEND: [u8; 2] = [0x12, 0x34];
const FROM_BACKEND: [u8; 2] = *b"AB";
/// The question whether the backend is alive.
const PING: u8 = 10;
/// A length that stands for a text that is not there.
const ABSENT: u16 = 0xffff;
/// The first byte of the code of a field's name. No text is so long.
const CODED: u8 = 0xa0;
/// The names of fields in responses, by their code.
const NAMES: [&str; 11] = [
    "Content-Type",
    "Content-Language",
    "Content-Length",
    "Date",
    "Last-Modified",
    "Location",
    "Set-Cookie",
    "Set-Cookie2",
    "Servlet-Engine",
    "Status",
    "WWW-Authenticate",
];

/// A packet to the backend.
pub(super) struct Packet(Vec<u8>);

impl Packet {
    /// An empty one.
    pub(super) fn new() -> Packet {
        Packet(vec![TO_BACKEND[0], TO_BACKEND[1], 0, 0])
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn number(&mut self, number: u16) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    /// A text with its length. One that is too long makes the packet too long, too, whatever its length says.
    pub(super) fn text(&mut self, text: &str) {
        let bytes = http::text::to_bytes(text);
        self.number(u16::try_from(bytes.len()).unwrap_or(ABSENT));
        self.0.extend_from_slice(&bytes);
        self.byte(0);
    }

    /// No text.
    pub(super) fn absent(&mut self) {
        self.number(ABSENT);
    }

    /// The whole packet. `None`: it is longer than `most` bytes.
    pub(super) fn end(mut self, most: usize) -> Option<Bytes> {
        let length = u16::try_from(self.0.len() - HEADER).ok().filter(|_| self.0.len() <= most)?;
        self.0[2..HEADER].copy_from_slice(&length.to_be_bytes());
        Some(self.0.into())
    }
}

/// The question whether the backend is alive.
pub(super) fn ping() -> Bytes {
    Bytes::from_static(&[TO_BACKEND[0], TO_BACKEND[1], 0, 1, PING])
}

/// How much of a body fits into a packet of `most` bytes.
pub(super) fn room(most: usize) -> usize {
    most - BODY_HEADER
}

/// The header of a packet with a piece of a body of this length. Without a piece it is the end of the body.
pub(super) fn body_header(length: usize) -> Bytes {
    let number = |number: usize| u16::try_from(number).unwrap_or(ABSENT).to_be_bytes();
    let (all, part) = (number(length + 2), number(length));
    Bytes::copy_from_slice(&[TO_BACKEND[0], TO_BACKEND[1], all[0], all[1], part[0], part[1]])
}

/// Why a packet of the backend is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadPacket {
    /// It is no packet.
    Signature([u8; 2]),
    /// It is longer than packets may be.
    TooLong(usize),
    /// It holds less than it says.
    Short,
    /// Nobody knows what it is.
    Unknown(u8),
    /// Its status is none.
    Status(u16),
    /// One of its fields cannot be one.
    Field,
    /// Its `Content-Length` is no number, or there are two different ones.
    Length,
}

impl fmt::Display for BadPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadPacket::Signature([one, two]) => write!(f, "a packet begins with {one:02x}{two:02x} instead of AB"),
            BadPacket::TooLong(length) => write!(f, "a packet of {length} bytes is too long (iobuffersize)"),
            BadPacket::Short => f.write_str("a packet is shorter than its content"),
            BadPacket::Unknown(code) => write!(f, "a packet has the unknown code {code}"),
            BadPacket::Status(status) => write!(f, "the status {status} is none of a response"),
            BadPacket::Field => f.write_str("a field of the response is malformed"),
            BadPacket::Length => f.write_str("its Content-Length is malformed, or given twice"),
        }
    }
}

/// The length of the packet at the start of these bytes, with its header; `None`: that has not come yet.
pub(super) fn length(received: &[u8], most: usize) -> Result<Option<usize>, BadPacket> {
    let Some(&[one, two, high, low]) = received.first_chunk::<HEADER>() else { return Ok(None) };
    if [one, two] != FROM_BACKEND {
        return Err(BadPacket::Signature([one, two]));
    }
    match usize::from(u16::from_be_bytes([high, low])) + HEADER {
        length if length > most => Err(BadPacket::TooLong(length)),
        length => Ok(Some(length)),
    }
}

/// What a packet of the backend says.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// A piece of the response's body; an empty one asks to send what has come.
    Body(Bytes),
    /// The head of the response.
    Head(Head),
    /// The response is complete; whether the connection can carry another request.
    End(bool),
    /// The backend wants so much more of the request's body.
    GetBody(usize),
    /// It is alive.
    Pong,
}

/// The head of a response.
#[derive(Debug, PartialEq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) fields: Vec<(Cow<'static, str>, String)>,
    /// The length of the body, if it says so.
    pub(super) length: Option<u64>,
}

impl Message {
    /// Reads a packet without its header.
    pub(super) fn parse(mut packet: Bytes) -> Result<Message, BadPacket> {
        match packet.try_get_u8().map_err(|_| BadPacket::Short)? {
            3 => {
                let length = number(&mut packet)?.into();
                let is_whole = packet.len() >= length;
                is_whole.then(|| Message::Body(packet.split_to(length))).ok_or(BadPacket::Short)
            }
            4 => head(&mut packet).map(Message::Head),
            // Before AJP/1.3 was written down, some backends left this out.
            5 => Ok(Message::End(packet.try_get_u8().is_ok_and(|reuse| reuse != 0))),
            6 => Ok(Message::GetBody(number(&mut packet)?.into())),
            9 => Ok(Message::Pong),
            other => Err(BadPacket::Unknown(other)),
        }
    }
}

fn head(packet: &mut Bytes) -> Result<Head, BadPacket> {
    let status = number(packet)?;
    if !(200..=999).contains(&status) {
        return Err(BadPacket::Status(status));
    }
    let reason = text(packet)?;
    let count = number(packet)?;
    let (mut fields, mut length) = (Vec::new(), None);
    for _ in 0..count {
        let name = match packet.first_chunk() {
            Some(&[CODED, code]) => {
                packet.advance(2);
                let name = usize::from(code).checked_sub(1).and_then(|index| NAMES.get(index));
                Cow::Borrowed(*name.ok_or(BadPacket::Field)?)
            }
            _ => Cow::Owned(text(packet)?),
        };
        let value = text(packet)?;
        if !http::name::is_valid(name.as_bytes()) || value.bytes().any(|byte| byte != b'\t' && byte.is_ascii_control())
        {
            return Err(BadPacket::Field);
        }
        if name.eq_ignore_ascii_case("Content-Length") {
            let digits = Some(value.trim()).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let one = digits.and_then(|text| text.parse().ok()).ok_or(BadPacket::Length)?;
            if length.replace(one).is_some_and(|other| other != one) {
                return Err(BadPacket::Length);
            }
        } else {
            fields.push((name, value));
        }
    }
    if reason.contains(|letter: char| letter.is_ascii_control()) {
        return Err(BadPacket::Field);
    }
    Ok(Head { status, reason, fields, length })
}

fn number(packet: &mut Bytes) -> Result<u16, BadPacket> {
    packet.try_get_u16().map_err(|_| BadPacket::Short)
}

/// A text, with the zero byte behind it.
fn text(packet: &mut Bytes) -> Result<String, BadPacket> {
    let length = match number(packet)? {
        ABSENT => return Ok(String::new()),
        length => usize::from(length),
    };
    if packet.len() <= length {
        return Err(BadPacket::Short);
    }
    let text = from_bytes(&packet[..length]).into_owned();
    packet.advance(length + 1);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(packet: &'static [u8]) -> Result<Message, BadPacket> {
        Message::parse(Bytes::from_static(packet))
    }

    #[test]
    fn packets_of_backends() {
        let head = |fields: &[(&'static str, &str)], length| Head {
            status: 200,
            reason: "OK".into(),
            fields: fields.iter().map(|(name, value)| (Cow::Borrowed(*name), (*value).to_string())).collect(),
            length,
        };
        let table: &[(&'static [u8], Result<Message, BadPacket>)] = &[
            (b"\x03\0\x02hi\0", Ok(Message::Body(Bytes::from_static(b"hi")))),
            (b"\x03\0\0\0", Ok(Message::Body(Bytes::new()))),
            (b"\x03\0\x03hi", Err(BadPacket::Short)),
            (b"\x04\0\xc8\0\x02OK\0\0\0", Ok(Message::Head(head(&[], None)))),
            (
                b"\x04\0\xc8\0\x02OK\0\0\x03\xa0\x01\0\x01a\0\0\x01X\0\0\0\0\xa0\x03\0\x011\0",
                Ok(Message::Head(head(&[("Content-Type", "a"), ("X", "")], Some(1)))),
            ),
            (b"\x04\0\xc8\0\x02OK\0\0\x02\xa0\x03\0\x011\0\xa0\x03\0\x012\0", Err(BadPacket::Length)),
            (b"\x04\0\xc8\0\x02OK\0\0\x01\xa0\x03\0\x02+1\0", Err(BadPacket::Length)),
            (b"\x04\0\xc8\0\x02OK\0\0\x01\xa0\x0c\0\x01a\0", Err(BadPacket::Field)),
            (b"\x04\0\xc8\0\x02OK\0\0\x01\xa0\0\0\x01a\0", Err(BadPacket::Field)),
            (b"\x04\0\xc8\0\x02OK\0\0\x01\0\x01X\0\0\x01\n\0", Err(BadPacket::Field)),
            (b"\x04\0\xc8\0\x02OK\0\0\x01\0\x03X Y\0\0\x01a\0", Err(BadPacket::Field)),
            (b"\x04\0\xc8\0\x01\r\0\0\0", Err(BadPacket::Field)),
            (b"\x04\0\xc8\0\x02OK\0\0\x02\0\x01X\0\0\x01a\0", Err(BadPacket::Short)),
            (b"\x04\0\xc8\0\x02OK", Err(BadPacket::Short)),
            (b"\x04\0\x64\0\x02OK\0\0\0", Err(BadPacket::Status(100))),
            (b"\x05\x01", Ok(Message::End(true))),
            (b"\x05\0", Ok(Message::End(false))),
            (b"\x05", Ok(Message::End(false))),
            (b"\x06\x1f\xfa", Ok(Message::GetBody(8186))),
            (b"\x06\x1f", Err(BadPacket::Short)),
            (b"\x09", Ok(Message::Pong)),
            (b"\x0a", Err(BadPacket::Unknown(10))),
            (b"", Err(BadPacket::Short)),
        ];
        for (packet, want) in table {
            assert_eq!(parse(packet), *want, "{packet:?}");
        }
    }

    #[test]
    fn where_packets_end() {
        assert_eq!(length(b"AB\0", 100), Ok(None));
        assert_eq!(length(b"AB\0\x02", 100), Ok(Some(6)));
        assert_eq!(length(b"AB\0\x61", 100), Err(BadPacket::TooLong(101)));
        assert_eq!(length(b"HTTP/1.1", 100), Err(BadPacket::Signature(*b"HT")));
    }

    #[test]
    fn packets_to_backends() {
        let mut packet = Packet::new();
        packet.byte(2);
        packet.number(0x1f49);
        packet.text("hi");
        packet.absent();
        assert_eq!(packet.end(100).as_deref(), Some(&b"\x12\x34\0\x0a\x02\x1f\x49\0\x02hi\0\xff\xff"[..]));
        let mut packet = Packet::new();
        packet.text(&"x".repeat(70_000));
        assert_eq!(packet.end(1 << 16), None);
        assert_eq!(&*body_header(3), b"\x12\x34\0\x05\0\x03");
        assert_eq!(&*body_header(0), b"\x12\x34\0\x02\0\0");
        assert_eq!(room(8192), 8186);
    }
}
