//! Range requests (RFC 9110 section 14): the ranges of a Range field, and the pieces of the 206 response.
//!
//! As in Apache, a range that overlaps or touches the one before it is merged with it, and a malformed or excessive
//! field is answered with the whole representation, never with an error. Unlike Apache, blanks and empty elements are
//! allowed where RFC 9110 section 5.6.1 allows them.

use crate::scan::list;

/// A satisfiable range of bytes, `first` and `last` included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte, below the length of the representation.
    pub last: u64,
}

impl ByteRange {
    /// The number of bytes, at least 1.
    #[must_use]
    pub fn count(self) -> u64 {
        self.last - self.first + 1
    }

    /// The value of a Content-Range field: `bytes 0-4/12`.
    #[must_use]
    pub fn content_range(self, length: u64) -> String {
        format!("bytes {}-{}/{length}", self.first, self.last)
    }
}

/// The limits of a Range field; `None` means without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLimits {
    /// `MaxRanges`: the most ranges, counted after merging those that touch; 0 ignores all Range fields.
    pub ranges: Option<usize>,
    /// `MaxRangeOverlaps`
    pub overlaps: Option<usize>,
    /// `MaxRangeReversals`: as in Apache, only a range that is merged with the one before it counts.
    pub reversals: Option<usize>,
}

impl Default for RangeLimits {
    fn default() -> Self {
        RangeLimits { ranges: Some(200), overlaps: Some(20), reversals: Some(20) }
    }
}

/// The response to a Range field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The whole representation, with 200.
    Whole,
    /// These ranges, at least one, in the requested order, with 206.
    Parts(Vec<ByteRange>),
    /// Nothing, with 416: no range lies within the representation.
    Unsatisfiable,
}

/// Resolves the value of a Range field for a representation of `length` bytes.
#[must_use]
pub fn resolve(value: &[u8], length: u64, limits: &RangeLimits) -> Resolved {
    parse(value, length, limits).unwrap_or(Resolved::Whole)
}

/// The frame around the parts of a `multipart/byteranges` body.
#[derive(Clone, Debug)]
pub struct Multipart<'a> {
    boundary: String,
    part_type: Option<&'a str>,
    length: u64,
}

impl<'a> Multipart<'a> {
    /// For a representation of `length` bytes of type `part_type`. `seed` becomes the boundary; it should differ from
    /// request to request.
    #[must_use]
    pub fn new(seed: u64, part_type: Option<&'a str>, length: u64) -> Self {
        Multipart { boundary: format!("{seed:016x}"), part_type, length }
    }

    /// The Content-Type of the response.
    #[must_use]
    pub fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// The bytes before one part.
    #[must_use]
    pub fn part_header(&self, range: ByteRange) -> String {
        let content_range = range.content_range(self.length);
        match self.part_type {
            Some(part_type) => format!(
                "\r\n--{}\r\nContent-type: {part_type}\r\nContent-range: {content_range}\r\n\r\n",
                self.boundary
            ),
            None => format!("\r\n--{}\r\nContent-range: {content_range}\r\n\r\n", self.boundary),
        }
    }

    /// The bytes after the last part.
    #[must_use]
    pub fn end(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary)
    }

    /// The Content-Length of the response with these parts.
    #[must_use]
    pub fn content_length(&self, ranges: &[ByteRange]) -> u64 {
        let parts: u64 = ranges.iter().map(|&range| self.part_header(range).len() as u64 + range.count()).sum();
        parts + self.end().len() as u64
    }
}

/// `None` if the field is malformed or exceeds a limit.
fn parse(value: &[u8], length: u64, limits: &RangeLimits) -> Option<Resolved> {
    let (unit, set) = value.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    let exceeds = |count: usize, limit: Option<usize>| limit.is_some_and(|limit| count > limit);
    let (mut count, mut overlaps, mut reversals) = (0, 0, 0);
    let mut parts: Vec<ByteRange> = Vec::new();
    for element in list(set) {
        count += 1;
        let Some(range) = parse_range(element, length)? else {
            continue;
        };
        if let Some(previous) = parts.last_mut() {
            if range.first <= previous.last + 1 && previous.first <= range.last + 1 {
                overlaps += 1;
                reversals += usize::from(range.first < previous.first);
                previous.first = previous.first.min(range.first);
                previous.last = previous.last.max(range.last);
            } else {
                parts.push(range);
            }
        } else {
            parts.push(range);
        }
        if exceeds(overlaps, limits.overlaps) || exceeds(reversals, limits.reversals) {
            return None;
        }
    }
    let total: u64 = parts.iter().map(|range| range.count()).fold(0, u64::saturating_add);
    match (count, parts.is_empty()) {
        (0, _) => None,
        // Parts with more bytes than the whole are not worthwhile.
        _ if total > length || exceeds(parts.len(), limits.ranges) || limits.ranges == Some(0) => None,
        (_, true) => Some(Resolved::Unsatisfiable),
        (_, false) => Some(Resolved::Parts(parts)),
    }
}

/// `first-`, `first-last` or `-count`; `Some(None)` if it lies beyond the end, `None` if it is malformed.
fn parse_range(element: &[u8], length: u64) -> Option<Option<ByteRange>> {
    let dash = memchr::memchr(b'-', element)?;
    let (first, last) = (&element[..dash], &element[dash + 1..]);
    let end = length.checked_sub(1);
    if first.is_empty() {
        // As in Apache, a suffix of no bytes is malformed, not unsatisfiable.
        let count = number(last).filter(|&count| count > 0)?;
        return Some(end.map(|last| ByteRange { first: length.saturating_sub(count), last }));
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some(end.filter(|&end| first <= end).map(|end| ByteRange { first, last: last.min(end) }))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |n, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(value: &str, length: u64) -> String {
        match resolve(value.as_bytes(), length, &RangeLimits::default()) {
            Resolved::Whole => "whole".into(),
            Resolved::Unsatisfiable => "none".into(),
            Resolved::Parts(parts) => {
                parts.iter().map(|r| format!("{}-{}", r.first, r.last)).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn ranges_of_twelve_bytes_as_apache_resolves_them() {
        let table = [
            ("0-3", "0-3"),
            ("3-", "3-11"),
            ("-3", "9-11"),
            ("-0", "whole"),
            ("-100", "0-11"),
            ("0-100", "0-11"),
            ("12-", "none"),
            ("11-", "11-11"),
            ("5-3", "whole"),
            ("0-0,2-2", "0-0 2-2"),
            ("0-3,2-5", "0-5"),
            ("0-3,4-5", "0-5"),
            ("4-5,0-1", "4-5 0-1"),
            ("4-5,0-1,2-3", "4-5 0-3"),
            ("4-5,0-6", "0-6"),
            ("6-7,0-1,3-4,2-8", "6-7 0-1 2-8"),
            ("4-7,2-3", "2-7"),
            ("0-1,20-30", "0-1"),
            ("20-30,40-50", "none"),
            ("0-1,5-3", "whole"),
            ("0-1,-0", "whole"),
            ("0-1,", "0-1"),
            ("0 - 1", "whole"),
            ("a-b", "whole"),
            ("0-a", "whole"),
            ("0-1,x", "whole"),
            ("", "whole"),
            ("-", "whole"),
            ("+1-2", "whole"),
            ("--1", "whole"),
            ("99999999999999999999-", "whole"),
            ("0-99999999999999999999", "whole"),
            ("0-0,1-1,0-11", "0-11"),
            ("0-1,-5,3-", "0-1 3-11"),
            ("0-1, 3-4", "0-1 3-4"),
            ("0-5,9-11,0-2", "0-5 9-11 0-2"),
            ("0-5,9-11,0-3", "whole"),
        ];
        for (set, expected) in table {
            assert_eq!(show(&format!("bytes={set}"), 12), expected, "{set}");
        }
        for value in ["bytes", "items=0-1", "bytes =0-1", ""] {
            assert_eq!(show(value, 12), "whole", "{value}");
        }
        assert_eq!(show("Bytes=0-1", 12), "0-1");
        assert_eq!((show("bytes=0-", 0), show("bytes=-1", 0)), ("none".into(), "none".into()));
    }

    #[test]
    fn limits() {
        let set = |n: u64, f: &dyn Fn(u64) -> (u64, u64)| {
            let ranges: Vec<_> = (0..n).map(f).map(|(a, b)| format!("{a}-{b}")).collect();
            show(&format!("bytes={}", ranges.join(",")), 10_000) != "whole"
        };
        let apart = |i| (4 * i, 4 * i + 1);
        assert!(set(200, &apart) && !set(201, &apart));
        let overlapping = |i| (4 * i, 4 * i + 5);
        assert!(set(21, &overlapping) && !set(22, &overlapping));
        let reversed = |i| (900 - 4 * i, 901 - 4 * i);
        assert!(set(200, &reversed) && !set(201, &reversed));
        let limits = RangeLimits { reversals: Some(1), ..RangeLimits::default() };
        let whole = |set: &[u8]| resolve(set, 10_000, &limits) == Resolved::Whole;
        assert!(!whole(b"bytes=8-9,6-7") && whole(b"bytes=8-9,6-7,4-5"));
    }

    #[test]
    fn multipart_as_apache_frames_it() {
        let frame = Multipart::new(0x8d40_a6eb_2905_d077, Some("text/plain"), 12);
        let parts = [ByteRange { first: 0, last: 0 }, ByteRange { first: 2, last: 2 }];
        assert_eq!(frame.content_type(), "multipart/byteranges; boundary=8d40a6eb2905d077");
        assert_eq!(
            frame.part_header(parts[0]),
            "\r\n--8d40a6eb2905d077\r\nContent-type: text/plain\r\nContent-range: bytes 0-0/12\r\n\r\n"
        );
        assert_eq!(frame.content_length(&parts), 184);
    }
}
