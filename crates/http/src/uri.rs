//! From the path of a request target to the path that the server looks up, and back into URLs and pages.

use std::borrow::Cow;
use std::fmt;

use crate::text;

/// How [`decode_path`] treats slashes. The default is Apache's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathOptions {
    /// `MergeSlashes`: `//` becomes `/`.
    pub merge_slashes: bool,
    /// `AllowEncodedSlashes`
    pub encoded_slashes: EncodedSlashes,
}

impl Default for PathOptions {
    fn default() -> Self {
        PathOptions { merge_slashes: true, encoded_slashes: EncodedSlashes::Off }
    }
}

/// What to do with `%2F` in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodedSlashes {
    /// Refuse the request with 404.
    Off,
    /// Decode it to a slash.
    On,
    /// Leave it encoded.
    NoDecode,
}

/// Why a path was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// `%` without two hexadecimal digits: 400.
    BadEscape,
    /// `/../` above the root, a path that does not start with a slash, or a raw NUL: 400 (Apache's AH10244).
    Invalid,
    /// `%2F` under [`EncodedSlashes::Off`]: 404.
    EncodedSlash,
    /// `%00`: 404.
    EncodedNul,
}

impl PathError {
    /// The status of the response.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            PathError::BadEscape | PathError::Invalid => 400,
            PathError::EncodedSlash | PathError::EncodedNul => 404,
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathError::BadEscape => "a percent sign is not followed by two hexadecimal digits",
            PathError::Invalid => "the path is not absolute or leads above the root",
            PathError::EncodedSlash => "found %2f (encoded '/') in the path, which AllowEncodedSlashes forbids",
            PathError::EncodedNul => "found %00 in the path",
        })
    }
}

impl std::error::Error for PathError {}

/// Decodes the path of a request target: percent-escapes, then dot segments (RFC 3986 section 5.2.4) and repeated
/// slashes. The result starts with `/` and has no `.` or `..` segment; bytes that are not UTF-8 are as in
/// [`text::from_bytes`]. `*` stays as it is.
///
/// Several slashes at the start always become one, as in Apache, so that the path cannot be taken for an authority.
///
/// # Errors
/// See [`PathError`]. Malformed paths are 400 even when they would be 404 too. Unlike Apache, `AllowEncodedSlashes
/// On` does not let `..%2f` climb above the root either.
pub fn decode_path(raw: &[u8], options: &PathOptions) -> Result<String, PathError> {
    if is_clean(raw) {
        // Clean paths are ASCII, so Rust's check never fails.
        return String::from_utf8(raw.to_vec()).map_err(|_| PathError::Invalid);
    }
    if raw == b"*" {
        return Ok("*".to_owned());
    }
    let (mut path, refusal) = unescape(raw, options.encoded_slashes)?;
    normalize(&mut path, options.merge_slashes)?;
    refusal.map_or_else(|| Ok(text::from_bytes(&path).into_owned()), Err)
}

/// The path of a request target as it is before it is decoded: without dot segments and, if `merge`, without repeated slashes.
/// Escapes of letters, digits and `-._~` are decoded, which changes nothing (RFC 3986 section 2.3); all others stay.
///
/// # Errors
/// A path that [`decode_path`] refuses with 400, too.
pub fn normalize_path(raw: &[u8], merge: bool) -> Result<String, PathError> {
    let mut path = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let [byte, tail @ ..] = rest {
        let decoded = match byte {
            b'%' => Some(escaped_byte(rest).ok_or(PathError::BadEscape)?),
            0 => return Err(PathError::Invalid),
            _ => None,
        };
        match decoded {
            None => path.push(*byte),
            Some(plain) if plain.is_ascii_alphanumeric() || b"-._~".contains(&plain) => path.push(plain),
            Some(_) => path.extend_from_slice(&rest[..3]),
        }
        rest = if decoded.is_some() { &rest[3..] } else { tail };
    }
    normalize(&mut path, merge)?;
    Ok(text::from_bytes(&path).into_owned())
}

/// A path with repeated slashes merged: `MergeSlashes Off` keeps them, and some lines ignore them.
#[must_use]
pub fn merge_slashes(path: &str) -> Cow<'_, str> {
    if !path.contains("//") {
        return Cow::Borrowed(path);
    }
    let mut merged = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !merged.ends_with('/') {
            merged.push(c);
        }
    }
    Cow::Owned(merged)
}

/// Decodes every percent-escape of `raw`, as in a query parameter, but leaves `+` alone; incomplete escapes stay.
#[must_use]
pub fn unescape_lenient(raw: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'%', raw).is_none() {
        return Cow::Borrowed(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let [byte, tail @ ..] = rest {
        match escaped_byte(rest) {
            Some(decoded) => {
                out.push(decoded);
                rest = &rest[3..];
            }
            None => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
    Cow::Owned(out)
}

/// Escapes a path for use in a URL, byte by byte as Apache's `ap_os_escape_path` does for absolute paths: letters,
/// digits and `/-._~!$&'()*+,;=:@` stay, everything else becomes `%xx` in lower case.
#[must_use]
pub fn escape_path(path: &str) -> Cow<'_, str> {
    escape(path, |b| b.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&b))
}

/// Escapes a path relative to the current one: like [`escape_path`], with `./` before a first segment that holds a
/// colon and would be taken for a scheme (RFC 3986 section 4.2).
#[must_use]
pub fn escape_relative_path(path: &str) -> Cow<'_, str> {
    let escaped = escape_path(path);
    match escaped.find(['/', ':']) {
        Some(at) if escaped.as_bytes()[at] == b':' => Cow::Owned(format!("./{escaped}")),
        _ => escaped,
    }
}

/// Escapes a value for a query string (`application/x-www-form-urlencoded`): letters, digits and `.-*_` stay, a space
/// becomes `+`, everything else `%xx` in lower case.
#[must_use]
pub fn escape_query(value: &str) -> Cow<'_, str> {
    let mut escaped = escape(value, |b| b.is_ascii_alphanumeric() || b".-*_ ".contains(&b));
    if escaped.contains(' ') {
        escaped = Cow::Owned(escaped.replace(' ', "+"));
    }
    escaped
}

/// Escapes `<`, `>`, `&` and `"` for HTML text and double-quoted attributes.
#[must_use]
pub fn escape_html(value: &str) -> Cow<'_, str> {
    let is_special = |b: &u8| matches!(b, b'<' | b'>' | b'&' | b'"');
    if !value.as_bytes().iter().any(is_special) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len() + 16);
    for c in value.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Is `raw` an absolute path in which nothing needs decoding, merging or checking?
fn is_clean(raw: &[u8]) -> bool {
    let mut previous = 0;
    for &byte in raw {
        let is_suspect = previous == b'/' && matches!(byte, b'/' | b'.') || matches!(byte, b'%' | 0 | 0x80..);
        if is_suspect {
            return false;
        }
        previous = byte;
    }
    raw.first() == Some(&b'/')
}

/// The decoded bytes, and the error for a 404 answer if the path turns out to be well-formed.
fn unescape(raw: &[u8], slashes: EncodedSlashes) -> Result<(Vec<u8>, Option<PathError>), PathError> {
    let mut path = Vec::with_capacity(raw.len());
    let mut refusal = None;
    let mut rest = raw;
    while let [byte, tail @ ..] = rest {
        match byte {
            b'%' => {}
            0 => return Err(PathError::Invalid),
            _ => {
                path.push(*byte);
                rest = tail;
                continue;
            }
        }
        match escaped_byte(rest).ok_or(PathError::BadEscape)? {
            b'/' if slashes != EncodedSlashes::On => {
                if slashes == EncodedSlashes::Off {
                    refusal = refusal.or(Some(PathError::EncodedSlash));
                }
                path.extend_from_slice(&rest[..3]);
            }
            0 => refusal = refusal.or(Some(PathError::EncodedNul)),
            decoded => path.push(decoded),
        }
        rest = &rest[3..];
    }
    Ok((path, refusal))
}

/// The byte encoded at the start of `text`.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else {
        return None;
    };
    let digit = |b: u8| (b as char).to_digit(16);
    Some((digit(*high)? << 4 | digit(*low)?) as u8)
}

/// Removes dot segments and, if `merge`, repeated slashes, in place: writing never overtakes reading.
fn normalize(path: &mut Vec<u8>, merge: bool) -> Result<(), PathError> {
    if path.first() != Some(&b'/') {
        return Err(PathError::Invalid);
    }
    // `path[..written]` is the result so far and ends with a slash at the start of each turn.
    let (mut read, mut written) = (1, 1);
    while read < path.len() {
        let len = memchr::memchr(b'/', &path[read..]).unwrap_or(path.len() - read);
        let end = (read + len + 1).min(path.len());
        match &path[read..read + len] {
            b"." => {}
            b".." => {
                let parent = path[..written - 1].iter().rposition(|&b| b == b'/').ok_or(PathError::Invalid)?;
                written = parent + 1;
            }
            b"" if merge || written == 1 => {}
            _ => {
                path.copy_within(read..end, written);
                written += end - read;
            }
        }
        read = end;
    }
    path.truncate(written);
    Ok(())
}

/// Replaces the bytes of `value` that `is_plain` rejects by `%xx`.
fn escape(value: &str, is_plain: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if value.bytes().all(&is_plain) {
        return Cow::Borrowed(value);
    }
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(value.len() + 16);
    for &byte in &*text::to_bytes(value) {
        if is_plain(byte) {
            out.push(byte as char);
        } else {
            out.push('%');
            out.push(DIGITS[usize::from(byte >> 4)] as char);
            out.push(DIGITS[usize::from(byte & 15)] as char);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: PathOptions = PathOptions { merge_slashes: true, encoded_slashes: EncodedSlashes::Off };
    const ON: PathOptions = PathOptions { merge_slashes: false, encoded_slashes: EncodedSlashes::On };
    const KEEP: PathOptions = PathOptions { merge_slashes: true, encoded_slashes: EncodedSlashes::NoDecode };

    #[test]
    fn slashes_in_a_row_are_one() {
        for (path, merged) in [("/a/b", "/a/b"), ("//a///b//", "/a/b/"), ("a//", "a/"), ("//", "/")] {
            assert_eq!(merge_slashes(path), merged);
        }
    }

    #[test]
    fn undecoded_paths() {
        for (raw, want) in [
            ("/a%41b%7E", Ok("/aAb~")),
            ("/a%20b%2f%00%E4", Ok("/a%20b%2f%00%E4")),
            ("//a//b/./c/../d;x", Ok("/a/b/d;x")),
            ("/a/%2e%2e;/b", Ok("/a/..;/b")),
            ("/a/%2e%2e/b", Ok("/b")),
            ("/%2e%2e/b", Err(PathError::Invalid)),
            ("/a%zz", Err(PathError::BadEscape)),
            ("/a%2", Err(PathError::BadEscape)),
            ("*", Err(PathError::Invalid)),
        ] {
            assert_eq!(normalize_path(raw.as_bytes(), true).as_deref(), want.as_ref().map(|path| *path), "{raw}");
        }
        assert_eq!(normalize_path(b"/a//b", false).as_deref(), Ok("/a//b"));
    }

    #[test]
    fn paths_as_apache_decodes_them() {
        let table: &[(&str, Result<&str, PathError>)] = &[
            ("/", Ok("/")),
            ("/a.txt", Ok("/a.txt")),
            ("/%61.txt", Ok("/a.txt")),
            ("/a%2Etxt", Ok("/a.txt")),
            ("/a%20b", Ok("/a b")),
            ("/a+b", Ok("/a+b")),
            ("/%25", Ok("/%")),
            ("/a%252f", Ok("/a%2f")),
            ("/%3f", Ok("/?")),
            ("/a%0a", Ok("/a\n")),
            ("/%ff", Ok("/\u{10FFFF}")),
            ("/%c3%a9", Ok("/\u{e9}")),
            ("/d//e///f", Ok("/d/e/f")),
            ("//d/e", Ok("/d/e")),
            ("/d/./e", Ok("/d/e")),
            ("/d/../a", Ok("/a")),
            ("/d/..", Ok("/")),
            ("/d/.", Ok("/d/")),
            ("/.", Ok("/")),
            ("/...", Ok("/...")),
            ("/d/..a", Ok("/d/..a")),
            ("/.well-known/x", Ok("/.well-known/x")),
            ("/d/e/../../a", Ok("/a")),
            ("/d//../a", Ok("/a")),
            ("/d/%2e%2E/a", Ok("/a")),
            ("/d/.%2e/a", Ok("/a")),
            ("/.%252e/a", Ok("/.%2e/a")),
            ("/a\\b", Ok("/a\\b")),
            ("/..", Err(PathError::Invalid)),
            ("/../a", Err(PathError::Invalid)),
            ("/d/../../a", Err(PathError::Invalid)),
            ("/%2e%2e/a", Err(PathError::Invalid)),
            ("/%2f/../..", Err(PathError::Invalid)),
            ("", Err(PathError::Invalid)),
            ("a", Err(PathError::Invalid)),
            ("*", Ok("*")),
            ("/a%", Err(PathError::BadEscape)),
            ("/a%4", Err(PathError::BadEscape)),
            ("/%zz", Err(PathError::BadEscape)),
            ("/%zz%2f", Err(PathError::BadEscape)),
            ("/%00%zz", Err(PathError::BadEscape)),
            ("/a%00", Err(PathError::EncodedNul)),
            ("/d%2fe", Err(PathError::EncodedSlash)),
            ("/%2e%2e%2fa", Err(PathError::EncodedSlash)),
        ];
        for (raw, expected) in table {
            assert_eq!(decode_path(raw.as_bytes(), &OFF).as_deref(), expected.as_ref().map(|s| *s), "{raw}");
        }
    }

    #[test]
    fn encoded_slashes_by_policy() {
        let table = [
            ("/d%2Fe", Ok("/d/e"), Ok("/d%2Fe")),
            ("/d/..%2fa", Ok("/a"), Ok("/d/..%2fa")),
            ("/d/%2f/e", Ok("/d///e"), Ok("/d/%2f/e")),
            ("/d//../a", Ok("/d/a"), Ok("/a")),
            ("/d/..//a", Ok("/a"), Ok("/a")),
            ("//d//e", Ok("/d//e"), Ok("/d/e")),
            ("/a%2f%25x", Ok("/a/%x"), Ok("/a%2f%x")),
            ("/%2e%2e%2fa", Err(PathError::Invalid), Ok("/..%2fa")),
        ];
        for (raw, on, keep) in table {
            assert_eq!(decode_path(raw.as_bytes(), &ON).as_deref(), on.as_ref().map(|s| *s), "{raw} On");
            assert_eq!(decode_path(raw.as_bytes(), &KEEP).as_deref(), keep.as_ref().map(|s| *s), "{raw} NoDecode");
        }
    }

    #[test]
    fn escapes() {
        let name = "/z\\ \"<>^`{|}%?#;&=+$,:@!~*'()[]\x7f\x01\u{10FFFF}-._/";
        let expected = "/z%5c%20%22%3c%3e%5e%60%7b%7c%7d%25%3f%23;&=+$,:@!~*'()%5b%5d%7f%01%ff-._/";
        assert_eq!(escape_path(name), expected);
        assert_eq!(escape_relative_path("a:b/c"), "./a:b/c");
        assert_eq!(escape_relative_path("a/b:c"), "a/b:c");
        assert_eq!(escape_query("a b&c=\u{e9}~"), "a+b%26c%3d%c3%a9%7e");
        assert_eq!(escape_html("<a href=\"x&y\">'"), "&lt;a href=&quot;x&amp;y&quot;&gt;'");
        assert_eq!(&*unescape_lenient(b"a%2fb%zz%4"), b"a/b%zz%4");
    }
}
