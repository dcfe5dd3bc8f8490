//! The chunked transfer coding (RFC 9112 section 7.1), incremental in both directions.
//!
//! The decoder is strict where leniency lets a message be read in two ways: every line ends with CR LF, and chunk
//! data is followed by CR LF at once. Like Apache it tolerates up to ten blanks after a size. Extensions are skipped;
//! beyond one line's worth, they may not outweigh the data.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::h1::head::Limits;
use crate::scan::{is_field_value, is_token, trim};

/// The most blanks between a chunk size and the end of its line, as in Apache.
const PADDING_MAX: u8 = 10;

/// Decodes one chunked body, fed with data as it arrives.
#[derive(Debug)]
pub struct Chunked {
    state: State,
    /// The size being read, then the bytes of the chunk yet to come.
    size: u64,
    /// Bytes without information in all size lines so far (extensions, blanks, leading zeros), and of all data.
    overhead: u64,
    data: u64,
    /// The trailer line being read.
    line: Vec<u8>,
    trailers: Vec<Trailer>,
    limits: Limits,
}

/// A field after the last chunk: name and value.
pub type Trailer = (Box<[u8]>, Box<[u8]>);

/// The result of [`Chunked::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The whole input is consumed and holds no more data.
    More,
    /// This part of the input is data (never empty). Continue after `range.end`.
    Data(Range<usize>),
    /// The body ended after this many bytes of the input.
    End(usize),
}

/// Why a chunked body was refused. The connection must be closed, for its next byte has no known meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// A chunk size is not a hexadecimal number, or something other than an extension follows it.
    BadSize,
    /// A chunk of 2^63 bytes or more.
    TooLarge,
    /// Chunk extensions that are longer than a request line may be and than the data.
    ExtensionTooLong,
    /// A control character in a chunk extension.
    BadExtension,
    /// A line, or the data of a chunk, does not end with CR LF.
    BadLineEnd,
    /// A trailer field is malformed.
    BadTrailer,
    /// A trailer field is longer than a field may be, or there are more of them than of fields.
    TrailersTooLong,
}

impl ChunkError {
    /// The status of the response, if none was sent yet.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            ChunkError::TooLarge | ChunkError::ExtensionTooLong => 413,
            _ => 400,
        }
    }

    /// A clause for the error log.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            ChunkError::BadSize => "a chunk size is malformed",
            ChunkError::TooLarge => "a chunk is larger than any body may be",
            ChunkError::ExtensionTooLong => "the chunk extensions are too long",
            ChunkError::BadExtension => "a chunk extension holds a control character",
            ChunkError::BadLineEnd => "a chunk does not end with CR LF",
            ChunkError::BadTrailer => "a trailer field is malformed",
            ChunkError::TrailersTooLong => "the trailer fields exceed the limits of header fields",
        }
    }
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for ChunkError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    SizeStart,
    Size,
    /// Blanks after a size.
    Padding(u8),
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailer,
    TrailerLf,
    End,
    Failed(ChunkError),
}

impl Chunked {
    /// A decoder at the start of a body. Of `limits`, `line` bounds a size line; `fields` and `field_size` bound the
    /// trailers.
    #[must_use]
    pub fn new(limits: &Limits) -> Chunked {
        Chunked {
            state: State::SizeStart,
            size: 0,
            overhead: 0,
            data: 0,
            line: Vec::new(),
            trailers: Vec::new(),
            limits: *limits,
        }
    }

    /// Looks at `input`, which continues where the last step's bytes ended.
    ///
    /// # Errors
    /// The body is malformed or exceeds a limit. Every later call fails in the same way.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, ChunkError> {
        let step = self.advance(input);
        if let Err(error) = step {
            self.state = State::Failed(error);
        }
        step
    }

    /// The trailer fields; complete once [`Step::End`] was returned.
    #[must_use]
    pub fn trailers(&self) -> &[Trailer] {
        &self.trailers
    }

    /// How much memory the trailer section holds so far, in bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.line.len() + self.trailers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }

    /// Was [`Step::End`] returned?
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.state == State::End
    }

    fn advance(&mut self, input: &[u8]) -> Result<Step, ChunkError> {
        for (at, &byte) in input.iter().enumerate() {
            match self.state {
                State::SizeStart | State::Size | State::Padding(_) | State::Extension | State::SizeLf => {
                    self.state = self.size_line(byte)?;
                }
                State::Data => return Ok(Step::Data(at..at + self.take(input.len() - at))),
                State::DataCr if byte == b'\r' => self.state = State::DataLf,
                State::DataLf if byte == b'\n' => self.state = State::SizeStart,
                State::Trailer => self.trailer_byte(byte)?,
                State::TrailerLf if byte == b'\n' => {
                    if self.line.is_empty() {
                        self.state = State::End;
                        return Ok(Step::End(at + 1));
                    }
                    self.trailer_line()?;
                }
                State::DataCr | State::DataLf | State::TrailerLf => return Err(ChunkError::BadLineEnd),
                State::End => return Ok(Step::End(at)),
                State::Failed(error) => return Err(error),
            }
        }
        match self.state {
            State::End => Ok(Step::End(input.len())),
            State::Failed(error) => Err(error),
            _ => Ok(Step::More),
        }
    }

    /// `chunk-size *( BWS ";" ... ) CRLF`, one byte of it.
    fn size_line(&mut self, byte: u8) -> Result<State, ChunkError> {
        // Many small chunks are many short lines, but no more than that.
        let says_something = match (self.state, byte) {
            (State::Size, b'0') => self.size > 0,
            (State::Padding(_) | State::Extension, _) => false,
            _ => true,
        };
        self.overhead += u64::from(!says_something);
        if self.overhead > (self.limits.line as u64).saturating_add(self.data) {
            return Err(ChunkError::ExtensionTooLong);
        }
        Ok(match (self.state, byte) {
            (State::SizeStart | State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = (byte as char).to_digit(16).map_or(0, u64::from);
                if self.size > i64::MAX as u64 >> 4 {
                    return Err(ChunkError::TooLarge);
                }
                self.size = self.size << 4 | digit;
                State::Size
            }
            (State::Size | State::Padding(_), b'\r') => State::SizeLf,
            (State::Size | State::Padding(_), b';') => State::Extension,
            (State::Size, b' ' | b'\t') => State::Padding(1),
            (State::Padding(n), b' ' | b'\t') if n < PADDING_MAX => State::Padding(n + 1),
            (State::Extension, b'\r') => State::SizeLf,
            (State::Extension, b'\t' | 0x20..=0x7E | 0x80..) => State::Extension,
            (State::Extension, b'\n') => return Err(ChunkError::BadLineEnd),
            (State::Extension, _) => return Err(ChunkError::BadExtension),
            (State::SizeLf, b'\n') if self.size == 0 => State::Trailer,
            (State::SizeLf, b'\n') => State::Data,
            (State::SizeLf, _) => return Err(ChunkError::BadLineEnd),
            _ => return Err(ChunkError::BadSize),
        })
    }

    /// Takes as much of `available` bytes as the chunk still has.
    fn take(&mut self, available: usize) -> usize {
        let len = usize::try_from(self.size).map_or(available, |size| size.min(available));
        self.size -= len as u64;
        self.data += len as u64;
        if self.size == 0 {
            self.state = State::DataCr;
        }
        len
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<(), ChunkError> {
        match byte {
            b'\r' => self.state = State::TrailerLf,
            b'\n' => return Err(ChunkError::BadLineEnd),
            _ if self.line.len() > self.limits.field_size => return Err(ChunkError::TrailersTooLong),
            _ => self.line.push(byte),
        }
        Ok(())
    }

    /// Keeps the complete trailer field in `line`. Folded lines are refused (RFC 9112 section 5.2).
    fn trailer_line(&mut self) -> Result<(), ChunkError> {
        let most = if self.limits.fields == 0 { Limits::FIELDS_MAX } else { self.limits.fields };
        if self.trailers.len() >= most {
            return Err(ChunkError::TrailersTooLong);
        }
        let colon = memchr::memchr(b':', &self.line).ok_or(ChunkError::BadTrailer)?;
        let (name, value) = (&self.line[..colon], &self.line[colon + 1..]);
        let is_text = |byte: &u8| matches!(byte, b'\t' | 0x20..=0x7E | 0x80..);
        if name.is_empty() || !name.iter().all(|&b| is_token(b)) || !value.iter().all(is_text) {
            return Err(ChunkError::BadTrailer);
        }
        self.trailers.push((name.into(), trim(value).into()));
        self.line.clear();
        self.state = State::Trailer;
        Ok(())
    }
}

/// Appends the line that announces a chunk of `len` bytes, which must not be 0. The chunk's data and then
/// [`CHUNK_END`] have to follow.
pub fn write_chunk_header(out: &mut Vec<u8>, len: u64) {
    debug_assert!(len > 0, "a chunk of length 0 ends the body");
    let digits = (u64::BITS - len.leading_zeros()).div_ceil(4).max(1);
    for shift in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(len >> (shift * 4) & 0xF) as usize]);
    }
    out.extend_from_slice(b"\r\n");
}

/// The bytes after the data of every chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The last chunk and the end of a body without trailers.
pub const BODY_END: &[u8] = b"0\r\n\r\n";

/// Appends the end of a chunked body with the fields after it (RFC 9112 section 7.1.2). Those that cannot be sent are left out.
pub fn write_trailers<'f>(out: &mut Vec<u8>, fields: impl Iterator<Item = (&'f str, Cow<'f, [u8]>)>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in fields {
        if crate::name::is_valid(name.as_bytes()) && is_field_value(&value) {
            [name.as_bytes(), b": ", &value, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `data` as one chunk; nothing if it is empty, since an empty chunk would end the body.
pub fn write_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        write_chunk_header(out, data.len() as u64);
        out.extend_from_slice(data);
        out.extend_from_slice(CHUNK_END);
    }
}

#[cfg(test)]
mod tests;
