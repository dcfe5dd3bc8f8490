//! Conditional requests (RFC 9110 section 13) and entity tags.
//!
//! Preconditions are evaluated in the order of section 13.2.2. Apache 2.4.71 differs in three cases, in which this
//! module follows the RFC: If-Modified-Since beside If-None-Match and If-Unmodified-Since beside If-Match are ignored,
//! and If-None-Match compares weakly even when there is a Range.

use crate::date::parse_http_date;
use crate::name::KnownField;
use crate::scan::trim;

/// What preconditions read of a request.
pub trait Preconditions {
    /// The method.
    fn method(&self) -> &[u8];
    /// The values of the fields of that name, in order.
    fn values(&self, name: KnownField) -> impl Iterator<Item = &[u8]>;
}

/// The validators of the representation that would be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Its entity tag, with quotes and `W/` if weak.
    pub etag: Option<&'a [u8]>,
    /// Its Last-Modified time in seconds since 1970.
    pub modified: Option<i64>,
}

/// The decision of the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Perform the request.
    Proceed,
    /// Answer 304.
    NotModified,
    /// Answer 412.
    PreconditionFailed,
}

/// Evaluates the preconditions of a request for a representation that exists. `now` is in seconds since 1970.
#[must_use]
pub fn evaluate(request: &impl Preconditions, current: &Validators<'_>, now: i64) -> Outcome {
    let is_read = matches!(request.method(), b"GET" | b"HEAD");
    // Step 1, otherwise step 2.
    if has(request, KnownField::IfMatch) {
        if !any_match(request, KnownField::IfMatch, current.etag, strong_match) {
            return Outcome::PreconditionFailed;
        }
    } else if let (Some(limit), Some(modified)) = (date(request, KnownField::IfUnmodifiedSince), current.modified)
        && modified > limit
    {
        return Outcome::PreconditionFailed;
    }
    // Step 3, otherwise step 4. Dates in the future mean nothing.
    if has(request, KnownField::IfNoneMatch) {
        if any_match(request, KnownField::IfNoneMatch, current.etag, weak_match) {
            return if is_read { Outcome::NotModified } else { Outcome::PreconditionFailed };
        }
    } else if is_read
        && let (Some(since), Some(modified)) = (date(request, KnownField::IfModifiedSince), current.modified)
        && modified <= since
        && since <= now
    {
        return Outcome::NotModified;
    }
    Outcome::Proceed
}

/// Does the If-Range field, if there is one, let a Range field be honoured (RFC 9110 section 13.1.5)? `now` is in
/// seconds since 1970.
///
/// A date must be equal to the Last-Modified time and, as in Apache, that time must be a minute old: the file could
/// have changed twice in its second.
#[must_use]
pub fn if_range(request: &impl Preconditions, current: &Validators<'_>, now: i64) -> bool {
    /// Age in seconds from which on a modification time identifies a version.
    const STRONG_AGE: i64 = 60;

    match request.values(KnownField::IfRange).next() {
        None => true,
        Some(tag @ ([b'"', ..] | [b'W', b'/', ..])) => current.etag.is_some_and(|etag| strong_match(tag, etag)),
        Some(text) => parse_http_date(text)
            .is_some_and(|date| current.modified == Some(date) && date.saturating_add(STRONG_AGE) <= now),
    }
}

/// The parts of an entity tag (`FileETag`); absent parts are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTag {
    /// `INode`
    pub inode: Option<u64>,
    /// `Size`, in bytes.
    pub size: Option<u64>,
    /// `MTime`, in microseconds since 1970.
    pub modified_us: Option<i64>,
}

impl FileTag {
    /// The entity tag as Apache writes it, hexadecimal parts joined by `-` in the order of the fields; `None` if there
    /// are none (`FileETag None`). See [`is_young`] for `weak`.
    #[must_use]
    pub fn etag(&self, weak: bool) -> Option<String> {
        let parts = [self.inode, self.size, self.modified_us.map(|us| us as u64)];
        let mut tag = String::with_capacity(56);
        for part in parts.into_iter().flatten() {
            tag.push_str(if tag.is_empty() { if weak { "W/\"" } else { "\"" } } else { "-" });
            push_hex(&mut tag, part);
        }
        if tag.is_empty() {
            return None;
        }
        tag.push('"');
        Some(tag)
    }
}

/// Was a file modified so recently (within a second, or in the future) that its entity tag has to be weak? Both times
/// in microseconds since 1970.
#[must_use]
pub fn is_young(modified_us: i64, now_us: i64) -> bool {
    now_us.saturating_sub(modified_us) <= 1_000_000
}

/// Are these entity tags equal, and both strong (RFC 9110 section 8.8.3.2)?
#[must_use]
pub fn strong_match(one: &[u8], other: &[u8]) -> bool {
    one == other && one.starts_with(b"\"")
}

/// Are these entity tags equal apart from `W/`?
#[must_use]
pub fn weak_match(one: &[u8], other: &[u8]) -> bool {
    opaque(one) == opaque(other)
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Does a tag in the fields called `name`, or `*`, match the current one?
fn any_match(
    request: &impl Preconditions,
    name: KnownField,
    current: Option<&[u8]>,
    is_match: fn(&[u8], &[u8]) -> bool,
) -> bool {
    request.values(name).any(|value| {
        value == b"*" || current.is_some_and(|current| EntityTags { rest: value }.any(|tag| is_match(tag, current)))
    })
}

fn has(request: &impl Preconditions, name: KnownField) -> bool {
    request.values(name).next().is_some()
}

fn date(request: &impl Preconditions, name: KnownField) -> Option<i64> {
    request.values(name).next().and_then(parse_http_date)
}

/// The tags of a list. Tags may hold commas, so the list cannot be split at them; elements that are no tags are
/// skipped, since they match nothing.
struct EntityTags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for EntityTags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            self.rest = trim(self.rest);
            if let Some(rest) = self.rest.strip_prefix(b",") {
                self.rest = rest;
                continue;
            }
            if self.rest.is_empty() {
                return None;
            }
            let tag_len = tag_len(self.rest);
            let from = tag_len.unwrap_or(0);
            let to = memchr::memchr(b',', &self.rest[from..]).map_or(self.rest.len(), |at| from + at);
            let (element, rest) = self.rest.split_at(to);
            self.rest = rest;
            let element = trim(element);
            if tag_len == Some(element.len()) {
                return Some(element);
            }
        }
    }
}

/// The length of the entity tag at the start of `text`.
fn tag_len(text: &[u8]) -> Option<usize> {
    let open = if text.starts_with(b"W/") { 2 } else { 0 };
    let opaque = text[open..].strip_prefix(b"\"")?;
    memchr::memchr(b'"', opaque).map(|close| open + close + 2)
}

fn push_hex(out: &mut String, number: u64) {
    let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for shift in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(number >> (shift * 4) & 0xF) as usize] as char);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Head, Limits};

    const TAG: &str = "\"c-59b1f7228d580\"";
    const SAME: &str = "Thu, 02 Jan 2020 03:04:05 GMT";
    const LATER: &str = "Thu, 02 Jan 2020 03:04:06 GMT";
    const EARLIER: &str = "Thu, 02 Jan 2020 03:04:04 GMT";
    const MODIFIED: i64 = 1_577_934_245;

    fn with_head<T>(method: &str, fields: &str, test: impl Fn(&(&Head, &[u8]), &Validators<'_>) -> T) -> T {
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let mut head = Head::default();
        Head::parse(request.as_bytes(), &Limits::default(), &mut head).unwrap();
        test(&(&head, request.as_bytes()), &Validators { etag: Some(TAG.as_bytes()), modified: Some(MODIFIED) })
    }

    #[test]
    fn outcomes() {
        use Outcome::{NotModified, PreconditionFailed, Proceed};
        let table: &[(&str, String, Outcome)] = &[
            ("GET", format!("If-None-Match: {TAG}"), NotModified),
            ("PUT", format!("If-None-Match: {TAG}"), PreconditionFailed),
            ("HEAD", format!("If-None-Match: W/{TAG}"), NotModified),
            ("GET", format!("If-None-Match: \"a,b\" , {TAG}"), NotModified),
            ("GET", format!("If-None-Match: ,{TAG}"), NotModified),
            ("GET", format!("If-None-Match: \"x\"\r\nIf-None-Match: {TAG}"), NotModified),
            ("GET", format!("If-None-Match: junk, {TAG}"), NotModified),
            ("GET", format!("If-None-Match: \"x\" {TAG}"), Proceed),
            ("GET", "If-None-Match: *".into(), NotModified),
            ("PUT", "If-None-Match: *".into(), PreconditionFailed),
            ("GET", "If-None-Match: \"x\"".into(), Proceed),
            ("GET", "If-None-Match: c-59b1f7228d580".into(), Proceed),
            ("GET", "If-None-Match:".into(), Proceed),
            ("GET", format!("If-Modified-Since: {SAME}"), NotModified),
            ("GET", format!("If-Modified-Since: {LATER}"), NotModified),
            ("GET", format!("If-Modified-Since: {EARLIER}"), Proceed),
            ("PUT", format!("If-Modified-Since: {SAME}"), Proceed),
            ("GET", "If-Modified-Since: Wed, 02 Jan 2036 03:04:05 GMT".into(), Proceed),
            ("GET", "If-Modified-Since: junk".into(), Proceed),
            ("GET", format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {SAME}"), Proceed),
            ("GET", format!("If-None-Match: {TAG}\r\nIf-Modified-Since: {EARLIER}"), NotModified),
            ("GET", format!("If-Match: {TAG}"), Proceed),
            ("GET", format!("If-Match: W/{TAG}"), PreconditionFailed),
            ("GET", "If-Match: \"x\"".into(), PreconditionFailed),
            ("GET", "If-Match: *".into(), Proceed),
            ("GET", format!("If-Unmodified-Since: {SAME}"), Proceed),
            ("GET", format!("If-Unmodified-Since: {LATER}"), Proceed),
            ("GET", format!("If-Unmodified-Since: {EARLIER}"), PreconditionFailed),
            ("GET", "If-Unmodified-Since: x".into(), Proceed),
            ("GET", format!("If-Match: {TAG}\r\nIf-Unmodified-Since: {EARLIER}"), Proceed),
            ("GET", format!("If-Match: {TAG}\r\nIf-None-Match: {TAG}"), NotModified),
            ("GET", format!("If-Match: \"q\"\r\nIf-None-Match: {TAG}"), PreconditionFailed),
        ];
        for (method, fields, expected) in table {
            let outcome = with_head(method, fields, |request, current| evaluate(request, current, 1_795_000_000));
            assert_eq!(outcome, *expected, "{method} {fields}");
        }
    }

    #[test]
    fn if_range_needs_a_strong_validator() {
        let table = [
            (format!("If-Range: {TAG}"), true),
            (format!("If-Range: W/{TAG}"), false),
            ("If-Range: \"x\"".into(), false),
            (format!("If-Range: {SAME}"), true),
            (format!("If-Range: {LATER}"), false),
            (format!("If-Range: {EARLIER}"), false),
            ("If-Range: junk".into(), false),
            ("X: y".into(), true),
        ];
        for (fields, expected) in table {
            let allowed = with_head("GET", &fields, |request, now| if_range(request, now, MODIFIED + 60));
            assert_eq!(allowed, expected, "{fields}");
        }
        let fields = format!("If-Range: {SAME}");
        assert!(!with_head("GET", &fields, |request, now| if_range(request, now, MODIFIED + 59)));
    }

    #[test]
    fn file_tags_as_apache_writes_them() {
        let tag = FileTag { inode: None, size: Some(12), modified_us: Some(1_577_934_245_123_456) };
        assert_eq!(tag.etag(false).as_deref(), Some(TAG));
        assert_eq!(
            FileTag { inode: Some(0x98_406d), ..tag }.etag(true).as_deref(),
            Some("W/\"98406d-c-59b1f7228d580\"")
        );
        assert_eq!(FileTag { size: Some(0), ..FileTag::default() }.etag(false).as_deref(), Some("\"0\""));
        assert_eq!(FileTag::default().etag(false), None);
        assert!(is_young(5_000_000, 5_900_000) && is_young(9_000_000, 5_000_000) && !is_young(5_000_000, 6_000_001));
    }
}
