//! Classes of bytes, and the scanner that takes most of the head parser's time.

/// Is this a `tchar` of RFC 9110 section 5.6.2 (methods and field names)?
pub(crate) const fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// The index of the first byte from `from` on that is not a token character; `buf.len()` if there is none.
#[inline]
pub(crate) fn token_end(buf: &[u8], from: usize) -> usize {
    buf[from..].iter().position(|&byte| !is_token(byte)).map_or(buf.len(), |len| from + len)
}

/// The index of the first byte from `from` on that is below `bound` or DEL; `buf.len()` if there is none.
///
/// `bound` is at most 0x80. Eight bytes are tested at once, in plain integer arithmetic: subtracting `bound` from a
/// byte below it borrows into the top bit. A borrow can spill over into higher bytes only, so the lowest mark is true.
#[inline]
pub(crate) fn find_below(buf: &[u8], from: usize, bound: u8) -> usize {
    let mut at = from.min(buf.len());
    while let Some(chunk) = buf[at..].first_chunk::<8>() {
        let marks = marks_below(u64::from_le_bytes(*chunk), bound);
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < buf.len() && buf[at] >= bound && buf[at] != 0x7F {
        at += 1;
    }
    at
}

const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);

/// Marks the first byte of eight that is below `bound` or DEL, and perhaps bytes above that one.
#[inline]
fn marks_below(word: u64, bound: u8) -> u64 {
    const DEL: u64 = u64::from_ne_bytes([0x7F; 8]);
    let not_del = word ^ DEL;
    let below = word.wrapping_sub(LOW * u64::from(bound)) & !word;
    let del = not_del.wrapping_sub(LOW) & !not_del;
    (below | del) & HIGH
}

/// Whether there are no controls, tabs included.
#[inline]
pub(crate) fn has_no_controls(text: &[u8]) -> bool {
    let Some(last) = text.last_chunk::<8>() else { return text.iter().all(|byte| !byte.is_ascii_control()) };
    let chunks = text.as_chunks::<8>().0.iter().chain([last]);
    chunks.fold(0, |marks, chunk| marks | marks_below(u64::from_le_bytes(*chunk), b' ')) == 0
}

/// The index of the first colon from `from` on, if it comes within 24 bytes, and so many follow.
#[inline]
pub(crate) fn near_colon(buf: &[u8], from: usize) -> Option<usize> {
    const COLON: u64 = u64::from_ne_bytes([b':'; 8]);

    let near = buf.get(from..)?.first_chunk::<24>()?;
    near.as_chunks::<8>().0.iter().enumerate().find_map(|(number, chunk)| {
        let other = u64::from_le_bytes(*chunk) ^ COLON;
        let marks = other.wrapping_sub(LOW) & !other & HIGH;
        (marks != 0).then(|| from + number * 8 + (marks.trailing_zeros() / 8) as usize)
    })
}

/// Whether this can be the value of a field: visible characters, blanks and bytes above ASCII (RFC 9110 section 5.5).
#[inline]
pub(crate) fn is_field_value(value: &[u8]) -> bool {
    let mut at = 0;
    loop {
        at = find_below(value, at, b' ');
        match value.get(at) {
            None => return true,
            Some(b'\t') => at += 1,
            Some(_) => return false,
        }
    }
}

/// `value` without the spaces and tabs at both ends (OWS, RFC 9110 section 5.6.3).
pub(crate) fn trim(value: &[u8]) -> &[u8] {
    let mut value = value;
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The trimmed elements of a comma-separated list, empty ones left out (RFC 9110 section 5.6.1).
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(trim).filter(|element| !element.is_empty())
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8,
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z'
            | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~');
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_colon_nearby() {
        let text = b"a:b: 0123456789012345678901234567890:";
        for from in 0..text.len() + 2 {
            let colon = text.iter().skip(from).position(|byte| *byte == b':').map(|at| from + at);
            let expected = colon.filter(|at| at - from < 24 && from + 24 <= text.len());
            assert_eq!(near_colon(text, from), expected, "{from}");
        }
    }

    #[test]
    fn finds_the_first_low_byte() {
        for bound in [0x20, 0x21] {
            for len in (0..20).chain([31, 32, 33, 47, 64, 71]) {
                for at in 0..len {
                    for byte in 0..=255_u8 {
                        let mut buf = vec![0xFF; len];
                        buf[at] = byte;
                        let expected = if byte < bound || byte == 0x7F { at } else { len };
                        assert_eq!(find_below(&buf, 0, bound), expected, "{byte:#x} at {at} of {len}");
                        assert_eq!(find_below(&buf, at + 1, bound), len);
                        assert_eq!(has_no_controls(&buf), !byte.is_ascii_control(), "{byte:#x} at {at} of {len}");
                    }
                }
            }
        }
    }
}
