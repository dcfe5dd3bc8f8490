//! Escapes clients' texts in a log line: they cannot end the line, or the quotes around them.

use std::marker::PhantomData;

/// A format's way to write foreign texts.
pub(super) trait Escape {
    /// Stands for a user with an empty name, as distinct from no user.
    const EMPTY_USER: &[u8];

    /// Appends a foreign text.
    fn text(out: &mut Vec<u8>, bytes: &[u8]);

    /// Fixes the text from `start` on, which comes from the configuration.
    fn settle(out: &mut Vec<u8>, start: usize);
}

/// Apache's way.
pub(super) struct Apache;

impl Escape for Apache {
    const EMPTY_USER: &[u8] = b"\"\"";

    fn text(out: &mut Vec<u8>, bytes: &[u8]) {
        escaped(out, bytes);
    }

    fn settle(_: &mut Vec<u8>, _: usize) {}
}

/// Like `E`, but a text has at most `MAX` bytes: a longer one is cut and followed by `...`.
pub(super) struct Cut<E, const MAX: usize>(PhantomData<E>);

impl<E: Escape, const MAX: usize> Escape for Cut<E, MAX> {
    const EMPTY_USER: &[u8] = E::EMPTY_USER;

    fn text(out: &mut Vec<u8>, bytes: &[u8]) {
        match bytes.get(..MAX).filter(|_| bytes.len() > MAX) {
            None => E::text(out, bytes),
            Some(beginning) => {
                // Not within a character: an incomplete last one is dropped.
                let whole = beginning.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
                E::text(out, &beginning[..MAX - whole]);
                E::text(out, b"...");
            }
        }
    }

    fn settle(out: &mut Vec<u8>, start: usize) {
        E::settle(out, start);
    }
}

/// The kind of an appended field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// Digits, perhaps with a sign.
    Number,
    Text,
    /// The `-` for a missing value.
    Nothing,
}

/// Appends the sign for a missing value.
pub(super) fn nothing(out: &mut Vec<u8>) -> FieldKind {
    out.push(b'-');
    FieldKind::Nothing
}

/// Appends bytes; escapes quotes, backslashes, control characters and everything that is not ASCII (`\"`, `
/// `, `\xc3`).
fn escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    if is_plain(bytes) {
        return out.extend_from_slice(bytes);
    }
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| SPECIAL[usize::from(*byte)]) {
        out.extend_from_slice(&rest[..at]);
        special(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_special(byte as u8);
        byte += 1;
    }
    table
};

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte >= 0x7f || byte == b'"' || byte == b'\\'
}

/// Whether there is nothing to escape. Nearly all texts are so; a processor compares sixteen bytes as fast as one.
fn is_plain(bytes: &[u8]) -> bool {
    let are_plain = |chunk: &[u8; 16]| !chunk.iter().fold(false, |special, byte| special | is_special(*byte));
    match bytes.last_chunk() {
        // The last sixteen overlap the whole chunks before them.
        Some(last) => bytes.as_chunks().0.iter().all(are_plain) && are_plain(last),
        None => !bytes.iter().any(|byte| SPECIAL[usize::from(*byte)]),
    }
}

fn special(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x0b => b'v',
        _ => {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\x");
            return out.extend_from_slice(&digits);
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// Appends a number.
pub(super) fn number(out: &mut Vec<u8>, number: u64) -> FieldKind {
    out.extend_from_slice(http::Decimal::of(number).as_bytes());
    FieldKind::Number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_a_line() {
        let mut out = Vec::new();
        escaped(&mut out, b"a\"b\\c\n\r\t\x08\x0b\x07\x7f\x80d\xc3");
        assert_eq!(out, br#"a\"b\\c\n\r\t\b\v\x07\x7f\x80d\xc3"#);
        for len in 0..50 {
            let plain = vec![b'~'; len];
            assert!(is_plain(&plain), "{len}");
            for at in 0..len {
                for byte in *b"\"\\\n\x1f\x7f\xff" {
                    let mut bytes = plain.clone();
                    bytes[at] = byte;
                    assert!(!is_plain(&bytes), "{byte} at {at} of {len}");
                }
            }
        }
        out.clear();
        for text in ["12345", "123456", "123é6", "1234é", "\"\"\"\"\"\""] {
            Cut::<Apache, 5>::text(&mut out, text.as_bytes());
            out.push(b' ');
        }
        assert_eq!(out, br#"12345 12345... 123\xc3\xa9... 1234... \"\"\"\"\"... "#);
        out.clear();
        for value in [0, 9, 10, 1_234_567_890, u64::MAX] {
            number(&mut out, value);
            out.push(b' ');
        }
        assert_eq!(out, b"0 9 10 1234567890 18446744073709551615 ");
    }
}
