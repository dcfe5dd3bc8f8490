//! Short texts read as words of eight bytes: a cheap hash of fields, comparison, and lower case. The first word and the
//! last one may overlap, so that no text is read byte by byte.

/// The longest name that can be in a table, in bytes: all registered ones are shorter.
pub(super) const NAME_MAX: usize = 64;

/// Odd, with ones and zeros all over.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of a field. It looks at the length, the first 8 and the last 16 bytes of the value: what a server sends
/// differs there, if not always.
#[inline(always)]
pub(super) fn of_field(name: &[u8], value: &[u8]) -> u64 {
    let hash = of_name(name) ^ value.len() as u64;
    match value.last_chunk() {
        Some(last) => {
            let (first, (second, third)) = (ends(value).0, words(last));
            mix(hash, (first.rotate_left(29) ^ second, third))
        }
        None => mix(hash, ends(value)),
    }
}

/// A hash of a name.
#[inline(always)]
pub(super) const fn of_name(name: &[u8]) -> u64 {
    mix(name.len() as u64, ends(name))
}

/// Are the texts the same? As their words are read here, that is faster than a call of memcmp.
#[inline(always)]
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (Some((first, rest)), Some(last)) = (one.split_first_chunk::<16>(), one.last_chunk::<16>()) else {
        return ends(one) == ends(other);
    };
    let (Some((other_first, other_rest)), Some(other_last)) = (other.split_first_chunk(), other.last_chunk()) else {
        return false;
    };
    first == other_first && last == other_last && (rest.len() <= 16 || rest == other_rest)
}

/// The name in lower case, at the beginning of `buffer`; nothing if it is too long.
pub(super) fn lower<'b>(name: &[u8], buffer: &'b mut [u8; NAME_MAX]) -> &'b [u8] {
    let Some(lower) = buffer.get_mut(..name.len()) else { return &[] };
    lower.copy_from_slice(name);
    for word in buffer.as_chunks_mut().0.iter_mut().take(name.len().div_ceil(8)) {
        *word = lower_word(u64::from_le_bytes(*word)).to_le_bytes();
    }
    &buffer[..name.len()]
}

/// Multiplies two words, so that each bit of one reaches most bits of the result.
#[inline(always)]
const fn mix(hash: u64, (first, second): (u64, u64)) -> u64 {
    let product = (first ^ hash.rotate_left(29)) as u128 * (second ^ FACTOR) as u128;
    (product >> 64) as u64 ^ product as u64
}

/// The first word and the last one, which are all of a text of up to 16 bytes: two such texts of one length are equal
/// if these are.
#[inline(always)]
const fn ends(text: &[u8]) -> (u64, u64) {
    match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => match (text.first_chunk(), text.last_chunk(), text) {
            (Some(first), Some(last), _) => (u32::from_le_bytes(*first) as u64, u32::from_le_bytes(*last) as u64),
            (_, _, [first, .., last]) => (*first as u64 | (text[1] as u64) << 8, *last as u64),
            (_, _, [one]) => (*one as u64, 0),
            _ => (0, 0),
        },
    }
}

#[inline(always)]
const fn words(bytes: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*bytes);
    (both as u64, (both >> 64) as u64)
}

/// The bytes of a word with `A` to `Z` in lower case.
const fn lower_word(word: u64) -> u64 {
    const ALL: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7f * ALL);
    // The highest bit of each byte: is it at least `A`, and at most `Z`? No sum reaches the next byte.
    let upper = (low + (0x80 - b'A' as u64) * ALL) & !(low + (0x7f - b'Z' as u64) * ALL) & !word & (0x80 * ALL);
    word | upper >> 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lowered_like_ascii() {
        let all: Vec<u8> = (0..=255).collect();
        for len in 0..=NAME_MAX {
            for name in all.windows(len.max(1)).map(|name| &name[..len]) {
                assert_eq!(lower(name, &mut [0; NAME_MAX]), name.to_ascii_lowercase());
            }
        }
        assert_eq!(lower(&[b'a'; NAME_MAX + 1], &mut [0; NAME_MAX]), b"");
    }

    #[test]
    fn every_byte_and_the_length_matter() {
        for len in 0..70 {
            let text: Vec<u8> = (0..len).collect();
            let longer: Vec<u8> = (0..=len).collect();
            assert!(is_same(&text, &text.clone()) && !is_same(&text, &longer) && !is_same(&longer, &text));
            assert_ne!(of_field(b"a", &text), of_field(b"a", &longer));
            assert_ne!(of_field(b"a", &text), of_field(b"b", &text));
            assert_ne!(of_name(&text), of_name(&longer));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 1;
                assert!(!is_same(&text, &other), "{at} of {len}");
                assert!(
                    of_field(b"a", &text) != of_field(b"a", &other) || (8..text.len().saturating_sub(16)).contains(&at)
                );
                assert!(of_name(&text) != of_name(&other) || (8..text.len().saturating_sub(8)).contains(&at));
            }
        }
    }
}
