//! Texts that may hold any byte.
//!
//! File names, header values and environment variables are bytes; the rest of the project works with Rust strings. A
//! byte that is not part of valid UTF-8 is therefore stored as the private-use code point U+10FF00 + byte. To keep the
//! way back unambiguous, input that is itself the encoding of U+10FF00..=U+10FFFF counts as four invalid bytes.

use std::borrow::Cow;

/// The code point that stands for byte 0.
const BASE: u32 = 0x10_FF00;

/// The first byte of the UTF-8 encoding of every code point from U+100000 on, the private range among them.
const PRIVATE_LEAD: u8 = 0xF4;

/// The text of `bytes`; borrowed when they are valid UTF-8 without private-range code points.
///
/// `to_bytes(&from_bytes(b)) == b` for every `b`.
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() || memchr::memchr(PRIVATE_LEAD, bytes).is_none() => Cow::Borrowed(text),
        _ => Cow::Owned(map_bytes(bytes)),
    }
}

/// The bytes that `text` stands for; borrowed when no private-range code point occurs.
#[must_use]
pub fn to_bytes(text: &str) -> Cow<'_, [u8]> {
    if text.is_ascii() || memchr::memchr(PRIVATE_LEAD, text.as_bytes()).is_none() {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut encoded = [0; 4];
    for c in text.chars() {
        match private_byte(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut encoded).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

fn map_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if private_byte(c).is_some() {
                text.extend(c.encode_utf8(&mut [0; 4]).bytes().map(private_char));
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(private_char));
    }
    text
}

fn private_char(byte: u8) -> char {
    char::from_u32(BASE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn private_byte(c: char) -> Option<u8> {
    u8::try_from(u32::from(c).checked_sub(BASE)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_string_survives() {
        let table: &[(&[u8], &str)] = &[
            (b"", ""),
            (b"plain", "plain"),
            ("é/日本".as_bytes(), "é/日本"),
            (b"a\xffb", "a\u{10FFFF}b"),
            (b"\xc3", "\u{10FFC3}"),
            (b"\xe6\x97", "\u{10FFE6}\u{10FF97}"),
            ("\u{10FF41}".as_bytes(), "\u{10FFF4}\u{10FF8F}\u{10FFBD}\u{10FF81}"),
            ("\u{10FEFF}".as_bytes(), "\u{10FEFF}"),
        ];
        for (bytes, text) in table {
            assert_eq!(from_bytes(bytes), *text, "{bytes:?}");
            assert_eq!(to_bytes(text), *bytes, "{text:?}");
        }
        for first in 0..=255 {
            for second in 0..=255 {
                let pair = [first, second];
                assert_eq!(*to_bytes(&from_bytes(&pair)), pair);
            }
        }
    }
}
