//! A cheap hash of fields, over words of eight bytes, which also brings names to lower case.
//!
//! Its words cover a text from both ends and overlap in the middle, so that none is read byte by byte.

/// The longest name that can be in a table, in bytes: all registered ones are shorter.
pub(super) const NAME_MAX: usize = 64;

/// Odd, with ones and zeros all over.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Writes the name into `buffer` in lower case; that, and its hash. `None` if it is too long.
#[inline(always)]
pub(super) fn lower<'b>(name: &[u8], buffer: &'b mut [u8; NAME_MAX]) -> Option<(&'b [u8], u64)> {
    let len = name.len();
    let mut hash = len as u64;
    if len < 8 {
        let word = lower_word(short(name));
        write_short(word, len, buffer);
        hash = mix(hash, word, 0);
    } else if len <= NAME_MAX {
        let mut at = 0;
        while at + 16 < len {
            let words = (lower_word(word(name, at)), lower_word(word(name, at + 8)));
            buffer[at..at + 8].copy_from_slice(&words.0.to_le_bytes());
            buffer[at + 8..at + 16].copy_from_slice(&words.1.to_le_bytes());
            hash = mix(hash, words.0, words.1);
            at += 16;
        }
        // From 0 to 16 bytes are left, which the last two words of the name cover.
        let start = at.min(len - 8);
        let words = (lower_word(word(name, start)), lower_word(word(name, len - 8)));
        buffer[start..start + 8].copy_from_slice(&words.0.to_le_bytes());
        buffer[len - 8..len].copy_from_slice(&words.1.to_le_bytes());
        hash = mix(hash, words.0, words.1);
    }
    Some((buffer.get(..len)?, hash))
}

/// [`lower`]'s hash of a name that is in lower case already, at compile time.
pub(super) const fn of_known(name: &[u8]) -> u64 {
    hash(name.len() as u64, name)
}

/// The hash of a field, from that of its name.
#[inline(always)]
pub(super) const fn of(name: u64, value: &[u8]) -> u64 {
    hash(name ^ value.len() as u64, value)
}

#[inline(always)]
const fn hash(seed: u64, text: &[u8]) -> u64 {
    let len = text.len();
    if len < 8 {
        return mix(seed, short(text), 0);
    }
    let (mut hash, mut at) = (seed, 0);
    while at + 16 < len {
        hash = mix(hash, word(text, at), word(text, at + 8));
        at += 16;
    }
    let start = if at < len - 8 { at } else { len - 8 };
    mix(hash, word(text, start), word(text, len - 8))
}

/// Are the texts the same? As their words are read here, that is faster than a call of memcmp.
#[inline(always)]
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let len = one.len();
    if len != other.len() {
        return false;
    }
    if len < 8 {
        return short(one) == short(other);
    }
    let mut at = 0;
    while at + 16 < len {
        if (word(one, at) ^ word(other, at)) | (word(one, at + 8) ^ word(other, at + 8)) != 0 {
            return false;
        }
        at += 16;
    }
    let start = at.min(len - 8);
    (word(one, start) ^ word(other, start)) | (word(one, len - 8) ^ word(other, len - 8)) == 0
}

/// Multiplies the words, so that each bit of one reaches most bits of the result.
#[inline(always)]
const fn mix(hash: u64, first: u64, second: u64) -> u64 {
    let product = (first ^ hash.rotate_left(29)) as u128 * (second ^ FACTOR) as u128;
    (product >> 64) as u64 ^ product as u64
}

/// The eight bytes from `at` on, which must be there.
#[inline(always)]
const fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.split_at(at).1.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => 0,
    }
}

/// A text of less than eight bytes as a word: equal for equal texts only, if they have the same length.
#[inline(always)]
const fn short(text: &[u8]) -> u64 {
    match text {
        [a, b, c, d, ..] => {
            let Some(last) = text.last_chunk() else { return 0 };
            u32::from_le_bytes([*a, *b, *c, *d]) as u64 | (u32::from_le_bytes(*last) as u64) << 32
        }
        [first, .., last] => *first as u64 | (text[1] as u64) << 8 | (*last as u64) << 16,
        [one] => *one as u64,
        [] => 0,
    }
}

/// Writes a text that [`short`] has made a word.
#[inline(always)]
fn write_short(word: u64, len: usize, out: &mut [u8; NAME_MAX]) {
    let bytes = word.to_le_bytes();
    if (4..8).contains(&len) {
        out[..4].copy_from_slice(&bytes[..4]);
        out[len - 4..len].copy_from_slice(&bytes[4..]);
    } else {
        out[..3].copy_from_slice(&bytes[..3]);
        if len == 2 {
            out[1] = bytes[1];
        }
    }
}

/// The bytes of a word with `A` to `Z` in lower case.
#[inline(always)]
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
                let mut buffer = [0; NAME_MAX];
                let (lower, hash) = lower(name, &mut buffer).unwrap();
                assert_eq!(lower, name.to_ascii_lowercase());
                assert_eq!(hash, of_known(lower));
            }
        }
        assert_eq!(lower(&[b'a'; NAME_MAX + 1], &mut [0; NAME_MAX]), None);
    }

    #[test]
    fn every_byte_and_the_length_matter() {
        for len in 0..70 {
            let value: Vec<u8> = (0..len).collect();
            let longer: Vec<u8> = (0..=len).collect();
            assert!(is_same(&value, &value.clone()) && !is_same(&value, &longer));
            assert_ne!(of(1, &value), of(1, &longer));
            assert_ne!(of(1, &value), of(2, &value));
            for at in 0..value.len() {
                let mut other = value.clone();
                other[at] ^= 1;
                assert!(!is_same(&value, &other), "{at} of {len}");
                assert_ne!(of(1, &value), of(1, &other), "{at} of {len}");
            }
        }
    }
}
