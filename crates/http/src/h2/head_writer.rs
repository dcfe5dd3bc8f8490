//! Writes heads, and the fields after bodies.

use super::frame::{FrameHeader, HEADER, PAYLOAD, flag, kind};
use super::hpack::Encoder;
use super::streams::At;
use crate::h1::response::BadField;
use crate::scan::{is_field_value, trim};

/// Appends a head in as many frames as it needs. `begin` begins its block, and `write` gives its fields; if that fails, nothing is
/// appended. `ends`: nothing follows on this stream.
pub(super) fn put<E>(
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
    at: At,
    ends: bool,
    begin: impl FnOnce(&mut Encoder, &mut Vec<u8>),
    write: impl FnOnce(&mut HeadWriter<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    let end = if ends { flag::END_STREAM } else { 0 };
    out.extend_from_slice(&[0; HEADER]);
    begin(encoder, out);
    if let Err(error) = write(&mut HeadWriter { encoder, out, size: 0 }) {
        out.truncate(start);
        encoder.forget();
        return Err(error);
    }
    let length = out.len() - start - HEADER;
    let header = |kind, flags, length| FrameHeader { length, kind, flags, stream: at.number() }.bytes();
    if length <= PAYLOAD {
        out[start..start + HEADER].copy_from_slice(&header(kind::HEADERS, flag::END_HEADERS | end, length));
        return Ok(());
    }
    let block = out.split_off(start + HEADER);
    out.truncate(start);
    let count = block.chunks(PAYLOAD).len();
    for (number, part) in block.chunks(PAYLOAD).enumerate() {
        let kind = if number == 0 { kind::HEADERS } else { kind::CONTINUATION };
        let last = if number + 1 == count { flag::END_HEADERS } else { 0 };
        let first = if number == 0 { end } else { 0 };
        out.extend_from_slice(&header(kind, first | last, part.len()));
        out.extend_from_slice(part);
    }
    Ok(())
}

/// Writes the fields of a head.
pub struct HeadWriter<'c> {
    encoder: &'c mut Encoder,
    out: &'c mut Vec<u8>,
    size: u64,
}

impl HeadWriter<'_> {
    /// Writes a field. Its name may have capitals. Fields that only concern an HTTP/1 connection are left out (RFC 9113 section
    /// 8.2.2).
    ///
    /// # Errors
    /// See [`BadField`]; nothing is written.
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        if !crate::name::is_valid(name.as_bytes()) || !is_field_value(value) {
            return Err(BadField);
        }
        if !concerns_http1(name) {
            // Blanks around a value are not part of it, and forbidden here (RFC 9113 section 8.2.1).
            let value = trim(value);
            self.size += (name.len() + value.len()) as u64;
            self.encoder.field(name.as_bytes(), value, self.out);
        }
        Ok(())
    }

    /// Writes a field that was accepted before, and whose name is in lower case.
    pub fn field_again(&mut self, name: &[u8], value: &[u8]) {
        self.size += (name.len() + value.len()) as u64;
        self.encoder.field(name, value, self.out);
    }

    /// The size of the fields in bytes, without compression.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// Whether a field only concerns an HTTP/1 connection (RFC 9113 section 8.2.2).
#[must_use]
pub fn concerns_http1(name: &str) -> bool {
    const NAMES: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];
    NAMES.iter().any(|one| one.eq_ignore_ascii_case(name))
}
