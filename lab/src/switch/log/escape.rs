//! How Apache writes what could break a line of its log, and back: `\"`, `\\`, `\t`, `\xhh` (`ap_escape_logitem`).

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// The bytes that were logged; a copy only if some of them were escaped. What is not an escape of Apache's stays as it
/// is: logs of Apache 2.0.45 and older have none.
pub(super) fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr(b'\\', text) else { return Cow::Borrowed(text) };
    let mut bytes = Vec::with_capacity(text.len());
    bytes.extend_from_slice(&text[..first]);
    let mut rest = &text[first..];
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, length) = if byte == b'\\' { escaped(after).unwrap_or((byte, 0)) } else { (byte, 0) };
        bytes.push(byte);
        rest = &after[length..];
    }
    Cow::Owned(bytes)
}

/// The byte that the text after a backslash stands for, and the length of that text.
fn escaped(text: &[u8]) -> Option<(u8, usize)> {
    let byte = match *text.first()? {
        b'x' => {
            let digits = std::str::from_utf8(text.get(1..3)?).ok().filter(|digits| !digits.starts_with('+'))?;
            return Some((u8::from_str_radix(digits, 16).ok()?, 3));
        }
        b'b' => 0x08,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        itself @ (b'"' | b'\\') => itself,
        _ => return None,
    };
    Some((byte, 1))
}

/// Where the first quote is that no backslash escapes.
pub(super) fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr2(b'"', b'\\', text.get(from..)?)?;
        match text[at] {
            b'"' => return Some(at),
            _ => from = at + 2,
        }
    }
}

/// A target from the path of `%U`, which Apache decoded before it logged it: what may not stand in a target is encoded
/// again. A percent sign before two hexadecimal digits stays: that Apache decoded `%2541` is rarer than that it left
/// `%2F` as it was (`AllowEncodedSlashes NoDecode`).
pub(super) fn percent_encode(path: &[u8], target: &mut Vec<u8>) {
    for (index, &byte) in path.iter().enumerate() {
        let is_encoded =
            || path.get(index + 1..index + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        match byte {
            b'%' if is_encoded() => target.push(byte),
            // RFC 3986, section 3.3.
            _ if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) => target.push(byte),
            _ => target.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_the_bytes_they_stand_for() {
        let cases: [(&[u8], &[u8]); 10] = [
            (b"", b""),
            (b"/plain", b"/plain"),
            (br"/\xe9\x00\xFF", b"/\xe9\x00\xff"),
            (br#"a\"b\\c"#, br#"a"b\c"#),
            (br"\b\n\r\t\v", b"\x08\n\r\t\x0b"),
            (br"\\x41", br"\x41"),
            // Not Apache's.
            (br"\q\x4\xg1\x+1", br"\q\x4\xg1\x+1"),
            (br"\", br"\"),
            (br"\x", br"\x"),
            (b"\\x\xc3\xa9", b"\\x\xc3\xa9"),
        ];
        for (text, bytes) in cases {
            assert_eq!(unescape(text), bytes, "{}", text.escape_ascii());
        }
        assert!(matches!(unescape(b"no copy"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_escaped_quote_closes_nothing() {
        let cases: [(&[u8], Option<usize>); 6] = [
            (br#"a"b"#, Some(1)),
            (br#"a\"b"c"#, Some(4)),
            (br#"a\\"b"#, Some(3)),
            (br#"a\\\"b"#, None),
            (br"a\", None),
            (b"", None),
        ];
        for (text, at) in cases {
            assert_eq!(closing_quote(text), at, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_decoded_path_is_encoded_again() {
        let cases: [(&[u8], &str); 4] = [
            (b"/a b?c#d", "/a%20b%3Fc%23d"),
            (b"/\xe9\"", "/%E9%22"),
            (b"/a%2Fb%20%zz%", "/a%2Fb%20%25zz%25"),
            (b"/~u/(x);v=1,2@:+", "/~u/(x);v=1,2@:+"),
        ];
        for (path, expected) in cases {
            let mut target = Vec::new();
            percent_encode(path, &mut target);
            assert_eq!(String::from_utf8_lossy(&target), expected);
        }
    }
}
