//! Lists with quality values: Accept, Accept-Encoding, Accept-Language, Accept-Charset (RFC 9110 section 12).

use crate::scan::{list, trim};

/// The quality of a fully acceptable value; qualities are in thousandths.
pub const QUALITY_MAX: u16 = 1000;

/// One element of such a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preference<'a> {
    /// The media range, coding, language or charset; `*` and `*/*` included.
    pub value: &'a [u8],
    /// The parameters before `q`, such as `level=1`, still joined by semicolons.
    pub parameters: &'a [u8],
    /// 0 (not acceptable) to [`QUALITY_MAX`].
    pub quality: u16,
}

/// The elements of the list, in order. A malformed quality counts as 1, as an absent one does.
pub fn preferences(value: &[u8]) -> impl Iterator<Item = Preference<'_>> {
    list(value).map(|element| {
        let (value, rest) = split_at_semicolon(element);
        let (mut parameters_len, mut quality, mut tail) = (0, QUALITY_MAX, rest);
        while !tail.is_empty() {
            let (parameter, next) = split_at_semicolon(tail);
            if let Some(text) = quality_text(parameter) {
                quality = parse_quality(text).unwrap_or(QUALITY_MAX);
                break;
            }
            tail = next;
            parameters_len = rest.len() - tail.len();
        }
        let parameters = trim(rest[..parameters_len].strip_suffix(b";").unwrap_or(&rest[..parameters_len]));
        Preference { value, parameters, quality }
    })
}

/// The quality that an Accept-Encoding value gives to `coding`: its own, else that of `*`, else `None`.
#[must_use]
pub fn coding_quality(value: &[u8], coding: &str) -> Option<u16> {
    let mut wildcard = None;
    for preference in preferences(value) {
        if preference.value.eq_ignore_ascii_case(coding.as_bytes()) {
            return Some(preference.quality);
        }
        if preference.value == b"*" {
            wildcard = Some(preference.quality);
        }
    }
    wildcard
}

fn split_at_semicolon(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b';', text) {
        Some(at) => (trim(&text[..at]), &text[at + 1..]),
        None => (trim(text), b""),
    }
}

fn quality_text(parameter: &[u8]) -> Option<&[u8]> {
    let equals = memchr::memchr(b'=', parameter)?;
    trim(&parameter[..equals]).eq_ignore_ascii_case(b"q").then(|| trim(&parameter[equals + 1..]))
}

/// `0.5` in thousandths; digits after the third do not count, more than 1 counts as 1.
fn parse_quality(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    let is_number = text.len() <= 16 && !text.is_empty() && whole.iter().chain(fraction).all(u8::is_ascii_digit);
    if !is_number {
        return None;
    }
    if whole.iter().any(|&digit| digit != b'0') {
        return Some(QUALITY_MAX);
    }
    let thousandths = fraction.iter().chain(b"000").take(3);
    Some(thousandths.fold(0, |n, digit| n * 10 + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements() {
        let header = b"text/html;level=1;q=0.4, text/* ; q=0.25,,*/*;Q=0;ext=1, a;q=1.5, b;q=x, c;v=\"1\", d;q=0.00000000000001, e;q=0.000000000000001";
        let got: Vec<_> = preferences(header).map(|p| (p.value, p.parameters, p.quality)).collect();
        let expected: [(&[u8], &[u8], u16); 8] = [
            (b"text/html", b"level=1", 400),
            (b"text/*", b"", 250),
            (b"*/*", b"", 0),
            (b"a", b"", 1000),
            (b"b", b"", 1000),
            (b"c", b"v=\"1\"", 1000),
            (b"d", b"", 0),
            (b"e", b"", 1000),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn codings() {
        let header = b"gzip;q=0.5, br, deflate;q=0, *;q=0.1";
        let table = [("gzip", Some(500)), ("BR", Some(1000)), ("deflate", Some(0)), ("zstd", Some(100))];
        for (coding, quality) in table {
            assert_eq!(coding_quality(header, coding), quality, "{coding}");
        }
        assert_eq!(coding_quality(b"", "gzip"), None);
    }
}
