//! The functions that turn one string into another, with the results measured on 2.4.71.
//!
//! Apache's strings are bytes, ours are text: bytes that are not UTF-8 after decoding become U+FFFD.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::Digest;

/// Parses the number at the start of a text, after blanks; 0 if there is none, the nearest `i64` if it is out of range.
pub(super) fn integer(text: &str) -> i64 {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    digits.bytes().take_while(u8::is_ascii_digit).fold(0, |number: i64, digit| {
        let digit = i64::from(digit - b'0');
        let digit = if negative { -digit } else { digit };
        number.saturating_mul(10).saturating_add(digit)
    })
}

/// Encodes characters that are not allowed in a URL path as `%xx`.
pub(super) fn escape(text: &str) -> String {
    replace_bytes(text, '%', |byte| byte.is_ascii_alphanumeric() || b"!$&'()*+,-./:;=@_~".contains(&byte))
}

/// Encodes characters that are special in LDAP names and filters as `\xx` (RFC 4514, RFC 4515).
pub(super) fn escape_ldap(text: &str) -> String {
    replace_bytes(text, '\\', |byte| (byte == b' ' || byte.is_ascii_graphic()) && !b"\"()*+,;<>\\".contains(&byte))
}

fn replace_bytes(text: &str, mark: char, keep: impl Fn(u8) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if keep(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push(mark);
            push_hex(&mut escaped, byte);
        }
    }
    escaped
}

/// Decodes `%xx`, except `%2f`; empty if one is malformed or encodes NUL.
pub(super) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        match digit(0).zip(digit(1)).map(|(high, low)| high << 4 | low) {
            None | Some(0) => return String::new(),
            Some(0x2f) => bytes.extend([b'%', after[0], after[1]]),
            Some(code) => bytes.extend(u8::try_from(code)),
        }
        rest = &after[2..];
    }
    into_text(bytes)
}

/// Encodes as Base64 (RFC 4648).
pub(super) fn base64(text: &str) -> String {
    BASE64.encode(text)
}

/// Decodes Base64 up to the first character that is not Base64; drops an incomplete end.
pub(super) fn unbase64(text: &str) -> String {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'+' || *byte == b'/';
    let mut length = text.bytes().take_while(is_base64).count();
    if length % 4 == 1 {
        length -= 1;
    }
    into_text(BASE64.decode(&text[..length]).unwrap_or_default())
}

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// MD5 (RFC 1321) in hexadecimal.
pub(super) fn md5(text: &str) -> String {
    hex(&md5::Md5::digest(text))
}

/// SHA-1 (RFC 3174) in hexadecimal.
pub(super) fn sha1(text: &str) -> String {
    hex(&sha1::Sha1::digest(text))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    bytes.iter().for_each(|byte| push_hex(&mut text, *byte));
    text
}

fn push_hex(text: &mut String, byte: u8) {
    for digit in [byte >> 4, byte & 15] {
        text.extend(char::from_digit(u32::from(digit), 16));
    }
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
