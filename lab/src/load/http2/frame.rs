//! Frames of HTTP/2 (RFC 9113 section 6), read and written. Pure.

use super::super::response::Malformed;

/// The bytes before a frame's payload.
pub(super) const HEAD: usize = 9;
/// The largest payload allowed without negotiation, in either direction.
pub(super) const SIZE_MAX: usize = 16_384;

/// The flags of frames.
pub(super) mod flags {
    pub(in super::super) const ACK: u8 = 0x1;
    pub(in super::super) const END_STREAM: u8 = 0x1;
    pub(in super::super) const END_HEADERS: u8 = 0x4;
    pub(in super::super) const PADDED: u8 = 0x8;
    pub(in super::super) const PRIORITY: u8 = 0x20;
}

/// Names of settings (section 6.5.2).
pub(super) mod setting {
    pub(in super::super) const TABLE: u16 = 1;
    pub(in super::super) const PUSH: u16 = 2;
    pub(in super::super) const STREAMS: u16 = 3;
    pub(in super::super) const WINDOW: u16 = 4;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Data,
    Headers,
    Reset,
    Settings,
    Push,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// A frame to ignore: priorities, and new kinds (section 5.5).
    Other,
}

impl FrameKind {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::Data,
            1 => Self::Headers,
            3 => Self::Reset,
            4 => Self::Settings,
            5 => Self::Push,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            _ => Self::Other,
        }
    }
}

/// A received frame; of content only the part before it.
#[derive(Debug)]
pub(super) struct Frame<'b> {
    pub(super) kind: FrameKind,
    pub(super) flags: u8,
    pub(super) stream: u32,
    /// The length of its payload.
    pub(super) length: usize,
    /// Its payload, if that is not content.
    pub(super) payload: &'b [u8],
}

/// How many bytes at the beginning are needed before a frame can be taken: all of it, or everything except its content.
///
/// # Errors
/// The frame is larger than allowed.
pub(super) fn wanted(bytes: &[u8]) -> Result<usize, Malformed> {
    let Some(head) = bytes.get(..HEAD) else { return Ok(HEAD) };
    let frame = Frame::of(head);
    match frame.kind {
        _ if frame.length > SIZE_MAX => Err(Malformed("a frame is larger than allowed")),
        FrameKind::Data => Ok(HEAD + usize::from(frame.flags & flags::PADDED > 0 && frame.length > 0)),
        _ => Ok(HEAD + frame.length),
    }
}

impl<'b> Frame<'b> {
    /// The frame in these bytes, which are at least its head.
    pub(super) fn of(bytes: &'b [u8]) -> Self {
        let length = usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
        let stream = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) & (u32::MAX >> 1);
        Self { kind: FrameKind::of(bytes[3]), flags: bytes[4], stream, length, payload: &bytes[HEAD..] }
    }

    /// A number of four bytes in its payload.
    pub(super) fn number(&self, at: usize) -> Result<u32, Malformed> {
        let bytes = self.payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_be_bytes).ok_or(SHORT)
    }

    /// Its settings.
    pub(super) fn settings(&self) -> Result<impl Iterator<Item = (u16, u32)> + 'b, Malformed> {
        if !self.payload.len().is_multiple_of(6) {
            return Err(SHORT);
        }
        let setting = |bytes: &[u8]| {
            (u16::from_be_bytes([bytes[0], bytes[1]]), u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]))
        };
        Ok(self.payload.chunks_exact(6).map(setting))
    }

    /// The fields in it, without padding and priority (section 6.2).
    pub(super) fn fragment(&self) -> Result<&'b [u8], Malformed> {
        let (padding, rest) = match self.flags & flags::PADDED {
            0 => (0, self.payload),
            _ => self.payload.split_first().map(|(padding, rest)| (usize::from(*padding), rest)).ok_or(SHORT)?,
        };
        let priority = if self.flags & flags::PRIORITY > 0 { 5 } else { 0 };
        rest.get(priority..rest.len().saturating_sub(padding)).ok_or(SHORT)
    }

    /// How much content and padding follow, of a frame of content (section 6.1).
    pub(super) fn content(&self) -> Result<(usize, usize), Malformed> {
        let (before, padding) = match self.payload.first() {
            Some(padding) => (1, usize::from(*padding)),
            None => (0, 0),
        };
        let content = self.length.checked_sub(before + padding).ok_or(SHORT)?;
        Ok((content, padding))
    }
}

const SHORT: Malformed = Malformed("a frame is shorter than it has to be");

fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Writes fields that begin a stream, in as many frames as necessary; `ends`: there is no body.
pub(super) fn headers(out: &mut Vec<u8>, stream: u32, block: &[u8], ends: bool) {
    let pieces = block.chunks(SIZE_MAX);
    let last = pieces.len().saturating_sub(1);
    for (at, piece) in pieces.enumerate() {
        let (kind, ends) = if at == 0 { (1, u8::from(ends) * flags::END_STREAM) } else { (9, 0) };
        head(out, piece.len(), kind, ends | (u8::from(at == last) * flags::END_HEADERS), stream);
        out.extend_from_slice(piece);
    }
}

/// Writes a piece of a body; `ends`: the last one.
pub(super) fn data(out: &mut Vec<u8>, stream: u32, piece: &[u8], ends: bool) {
    head(out, piece.len(), 0, u8::from(ends) * flags::END_STREAM, stream);
    out.extend_from_slice(piece);
}

/// Writes our settings.
pub(super) fn settings(out: &mut Vec<u8>, all: &[(u16, u32)]) {
    head(out, all.len() * 6, 4, 0, 0);
    for (name, value) in all {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Acknowledges the server's settings.
pub(super) fn settings_ack(out: &mut Vec<u8>) {
    head(out, 0, 4, flags::ACK, 0);
}

/// Answers a ping.
pub(super) fn pong(out: &mut Vec<u8>, payload: &[u8]) {
    head(out, payload.len(), 6, flags::ACK, 0);
    out.extend_from_slice(payload);
}

/// Allows so many more bytes.
pub(super) fn window_update(out: &mut Vec<u8>, stream: u32, more: u32) {
    head(out, 4, 8, 0, stream);
    out.extend_from_slice(&more.to_be_bytes());
}
