//! A chunked body that is here as a whole, in the plainest form: a few chunks and the end. Small pages mostly come like that.
//!
//! A body with anything else (extensions, blanks, leading zeros, fields after the last chunk, bytes after the end) is for
//! [`Chunked`](super::chunked::Chunked), which decides whether that is right. What is accepted here has the same content there.

use std::ops::Range;

/// The most digits of a chunk's size.
const DIGITS_MAX: usize = 4;

/// The length of the content of these bytes, if they are such a body.
#[must_use]
pub fn content_length(body: &[u8]) -> Option<usize> {
    let (mut length, mut at) = (0, 0);
    loop {
        let chunk = first_chunk(&body[at..])?;
        length += chunk.len();
        at += chunk.end + LINE_END.len();
        if chunk.is_empty() {
            return (at == body.len()).then_some(length);
        }
    }
}

/// Joins the content of such a body, which begins at this place. Returns where it is then.
pub fn join(bytes: &mut [u8], start: usize) -> Range<usize> {
    let (mut content, mut at) = (start..start, start);
    while let Some(chunk) = first_chunk(&bytes[at..]).filter(|chunk| !chunk.is_empty()) {
        let (from, length) = (at + chunk.start, chunk.len());
        if content.is_empty() {
            content = from..from + length;
        } else {
            bytes.copy_within(from..from + length, content.end);
            content.end += length;
        }
        at += chunk.end + LINE_END.len();
    }
    content
}

const LINE_END: &[u8] = b"\r\n";

/// The content of the chunk that these bytes begin with, if it has the plainest form.
fn first_chunk(bytes: &[u8]) -> Option<Range<usize>> {
    let digits = bytes.iter().take(DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let is_plain = digits == 1 || (2..=DIGITS_MAX).contains(&digits) && bytes[0] != b'0';
    if !is_plain || !bytes[digits..].starts_with(LINE_END) {
        return None;
    }
    let size = usize::from_str_radix(std::str::from_utf8(&bytes[..digits]).ok()?, 16).ok()?;
    let content = digits + LINE_END.len()..digits + LINE_END.len() + size;
    bytes.get(content.end..)?.starts_with(LINE_END).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::h1::chunked::{Chunked, Step};

    /// The content of a body that ends where these bytes end, without fields after it.
    fn content(body: &[u8]) -> Option<Vec<u8>> {
        let (mut chunked, mut content, mut at) = (Chunked::new(&Limits::default()), Vec::new(), 0);
        loop {
            match chunked.decode(&body[at..]).ok()? {
                Step::More => return None,
                Step::Data(range) => {
                    content.extend_from_slice(&body[at..][range.clone()]);
                    at += range.end;
                }
                Step::End(length) => {
                    return (at + length == body.len() && chunked.trailers().is_empty()).then_some(content);
                }
            }
        }
    }

    #[test]
    fn only_the_plainest_form_is_accepted() {
        for (body, length) in [
            ("0\r\n\r\n", Some(0)),
            ("3\r\nabc\r\n0\r\n\r\n", Some(3)),
            ("3\r\nabc\r\nA\r\n0\r\n\r\n56789\r\n1\r\n\n\r\n0\r\n\r\n", Some(14)),
            ("", None),
            ("0\r\n", None),
            ("3\r\nabc\r\n", None),
            ("3\r\nabc\r\n0\r\n\r\nx", None),
            ("3\r\nabc\r\n0\r\nA: b\r\n\r\n", None),
            ("3;a=b\r\nabc\r\n0\r\n\r\n", None),
            ("3 \r\nabc\r\n0\r\n\r\n", None),
            (" 3\r\nabc\r\n0\r\n\r\n", None),
            ("+3\r\nabc\r\n0\r\n\r\n", None),
            ("0x3\r\nabc\r\n0\r\n\r\n", None),
            ("03\r\nabc\r\n0\r\n\r\n", None),
            ("3\r\nabc\r\n00\r\n\r\n", None),
            ("3\nabc\n0\n\n", None),
            ("3\r\nabcd\r\n0\r\n\r\n", None),
            ("4\r\nabc\r\n0\r\n\r\n", None),
            ("g\r\nabc\r\n0\r\n\r\n", None),
            ("00003\r\nabc\r\n0\r\n\r\n", None),
            ("ffff\r\nabc\r\n0\r\n\r\n", None),
            ("FFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n", None),
        ] {
            assert_eq!(content_length(body.as_bytes()), length, "{body:?}");
        }
    }

    /// Whatever one changes: nothing is accepted that has another content for who reads all forms.
    #[test]
    fn there_is_one_reading() {
        let body = b"a\r\n0123456789\r\n2\r\n\r\n\r\n3\r\n0\r\n\r\n0\r\n\r\n";
        let mut accepted = 0;
        let mut compare = |bytes: &[u8]| {
            let Some(length) = content_length(bytes) else { return };
            let mut joined = [b"head", bytes].concat();
            let place = join(&mut joined, 4);
            assert_eq!(Some(&joined[place]), content(bytes).as_deref(), "{:?}", bytes.escape_ascii().to_string());
            assert_eq!(content(bytes).map(|content| content.len()), Some(length));
            accepted += 1;
        };
        for at in 0..=body.len() {
            for byte in 0..=255 {
                compare(&[&body[..at], &[byte], &body[at..]].concat());
                compare(&[&body[..at], &[byte], &body[(at + 1).min(body.len())..]].concat());
            }
            (at..body.len()).for_each(|end| compare(&[&body[..at], &body[end..]].concat()));
        }
        assert!(accepted > 1000, "{accepted}");
    }
}
