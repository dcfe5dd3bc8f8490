//! The Huffman code of strings (RFC 7541 section 5.2 and appendix B). All tables come from the lengths of the codes at
//! compile time, because the code is canonical: shorter codes first, and those of one length in the order of the bytes.

use super::form::Broken;

/// The bits of the code of each byte. The end of string (EOS) has the last code of [`LONGEST`] bits, all ones.
static LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0x00
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 0x10
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, // 0x20
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, // 0x30
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // 0x40
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, // 0x50
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, // 0x60
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, // 0x70
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 0x80
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 0x90
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 0xa0
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 0xb0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 0xc0
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 0xd0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 0xe0
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 0xf0
];

/// The most bits of a code.
const LONGEST: usize = 30;
/// The fewest.
const SHORTEST: usize = 5;

/// How many bits one look-up in [`STEPS`] takes: enough for any byte that is common in fields, often for two.
const STEP_BITS: u32 = 11;

/// The bytes of the output that four steps may touch, and some.
const ROUND: usize = 16;

/// The codes in their order.
struct Code {
    /// The code of each byte, in its low bits.
    codes: [u32; 256],
    /// The bytes, by code.
    bytes: [u8; 256],
    /// For each length: one more than the last code, and what to subtract from a code for the place of its byte in
    /// `bytes`, modulo 2^32.
    lengths: [(u32, u32); LONGEST + 1],
}

static CODE: Code = code();

/// By the next bits of the input.
static STEPS: [Step; 1 << STEP_BITS] = steps();

/// What one look-up gives: the one or two bytes whose codes the next bits begin with. If they begin with no whole code,
/// the step has no bytes and takes no bits.
#[derive(Clone, Copy)]
struct Step {
    bytes: [u8; 2],
    count: u8,
    bits: u8,
}

impl Step {
    const NONE: Step = Step { bytes: [0, 0], count: 0, bits: 0 };

    /// The step for the highest bits.
    #[inline(always)]
    fn next(bits: u64) -> Step {
        STEPS[(bits >> (64 - STEP_BITS)) as usize]
    }
}

const fn code() -> Code {
    let mut made = Code { codes: [0; 256], bytes: [0; 256], lengths: [(0, 0); LONGEST + 1] };
    let (mut next, mut placed, mut length) = (0u32, 0usize, SHORTEST);
    while length <= LONGEST {
        let first = next.wrapping_sub(placed as u32);
        let mut byte = 0;
        while byte < 256 {
            if LENGTHS[byte] as usize == length {
                made.codes[byte] = next;
                made.bytes[placed] = byte as u8;
                next += 1;
                placed += 1;
            }
            byte += 1;
        }
        made.lengths[length] = (next, first);
        next <<= 1;
        length += 1;
    }
    made
}

const fn steps() -> [Step; 1 << STEP_BITS] {
    let mut steps = [Step::NONE; 1 << STEP_BITS];
    let mut bits = 0;
    while bits < 1 << STEP_BITS {
        let next = bits << (32 - STEP_BITS);
        if let Some((first, taken)) = find(next, SHORTEST, STEP_BITS as usize) {
            let left = STEP_BITS - taken;
            steps[bits as usize] = match find(next << taken, SHORTEST, left as usize) {
                Some((second, more)) => Step { bytes: [first, second], count: 2, bits: (taken + more) as u8 },
                None => Step { bytes: [first, 0], count: 1, bits: taken as u8 },
            };
        }
        bits += 1;
    }
    steps
}

/// The byte whose code the highest bits are, and the number of these bits, from `least` to `most`.
const fn find(bits: u32, least: usize, most: usize) -> Option<(u8, u32)> {
    let mut length = least;
    while length <= most {
        let code = bits >> (32 - length);
        let (end, first) = CODE.lengths[length];
        // Codes of one length that are before its first have been found: their beginning is a shorter code.
        if code < end {
            return Some((CODE.bytes[code.wrapping_sub(first) as usize], length as u32));
        }
        length += 1;
    }
    None
}

/// Decodes a string into the first bytes of `out`, which grows as necessary; the number of these bytes.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<usize, Broken> {
    let most = coded.len() * 8 / SHORTEST + ROUND;
    if out.len() < most {
        out.resize(most, 0);
    }
    let out = &mut out[..most];
    let (mut rest, mut written) = (coded, 0);
    // The next bits of the input, the first of them highest, and how many of them are known to be there.
    let (mut next, mut known) = (0u64, 0u32);
    while let Some(eight) = rest.first_chunk::<8>()
        && let Some(window) = out.get_mut(written..).and_then(|out| out.first_chunk_mut::<ROUND>())
    {
        next |= u64::from_be_bytes(*eight) >> known;
        let bytes = (63 - known) / 8;
        rest = &rest[bytes as usize..];
        known += bytes * 8;
        // At least 56 bits are known: enough for one long code, or for four steps.
        let mut step = Step::next(next);
        if step.count == 0 {
            let (byte, bits) = long(next)?;
            window[0] = byte;
            written += 1;
            next <<= bits;
            known -= bits;
            continue;
        }
        let mut count = 0;
        for _ in 0..4 {
            // Up to six bytes are there already.
            let at = count & 7;
            window[at..at + 2].copy_from_slice(&step.bytes);
            count += usize::from(step.count);
            next <<= step.bits & 63;
            known = known.wrapping_sub(u32::from(step.bits));
            step = Step::next(next);
        }
        written += count;
    }
    // Less than eight bytes, and what is left of those before.
    let mut left = rest.len() as u32 * 8;
    let mut last = match coded.last_chunk() {
        // A shift of 64 bits is one of none.
        Some(eight) => u64::from_be_bytes(*eight).wrapping_shl(64 - left) & !(u64::MAX >> left),
        None => rest.iter().rev().fold(0, |bits, byte| bits >> 8 | u64::from(*byte) << 56),
    };
    loop {
        if known < 32 {
            let more = left.min(63 - known);
            next |= last >> known;
            last <<= more;
            known += more;
            left -= more;
        }
        // Ones follow the last bit, as in valid padding, which is the beginning of EOS and less than a byte.
        let padded = next | u64::MAX >> known;
        let step = Step::next(padded);
        let (count, bits) = if u32::from(step.bits) <= known && step.count != 0 {
            out[written..written + 2].copy_from_slice(&step.bytes);
            (usize::from(step.count), u32::from(step.bits))
        } else {
            // The second code of the step is not there, or the first is longer or not there.
            let (byte, bits) = match step.count {
                0 if known < 8 => (0, u32::MAX),
                0 => long(padded)?,
                _ => (step.bytes[0], u32::from(LENGTHS[usize::from(step.bytes[0])])),
            };
            if bits > known {
                return if known < 8 && padded == u64::MAX { Ok(written) } else { Err(Broken) };
            }
            out[written] = byte;
            (1, bits)
        };
        written += count;
        next <<= bits;
        known -= bits;
    }
}

/// The byte whose code, too long for a step, the highest bits are, and the length of the code. An error for EOS.
#[cold]
fn long(bits: u64) -> Result<(u8, u32), Broken> {
    find((bits >> 32) as u32, STEP_BITS as usize + 1, LONGEST).ok_or(Broken)
}

/// The length of the encoded text, in bytes.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the encoded text.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    // Bits that are not written yet, the last of them lowest; less than 32 after every byte.
    let (mut bits, mut count) = (0u64, 0u32);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODE.codes[usize::from(byte)]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    let padded = (bits << 32 | 0xffff_ffff) >> count;
    out.extend_from_slice(&(padded as u32).to_be_bytes()[..count.div_ceil(8) as usize]);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::LazyLock;

    use super::*;

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, Broken> {
        let mut out = Vec::new();
        let len = decode(coded, &mut out)?;
        out.truncate(len);
        Ok(out)
    }

    /// Decodes bit by bit, as appendix B reads.
    fn slowly(coded: &[u8]) -> Result<Vec<u8>, Broken> {
        static BYTES: LazyLock<HashMap<(u8, u32), u8>> = LazyLock::new(|| {
            (0..=255).map(|byte| ((LENGTHS[byte as usize], CODE.codes[byte as usize]), byte)).collect()
        });
        let (mut out, mut code, mut length) = (Vec::new(), 0u32, 0u8);
        for at in 0..coded.len() * 8 {
            code = code << 1 | u32::from(coded[at / 8] >> (7 - at % 8) & 1);
            length += 1;
            if length == 30 && code == 0x3fff_ffff {
                return Err(Broken);
            }
            if let Some(byte) = BYTES.get(&(length, code)) {
                out.push(*byte);
                (code, length) = (0, 0);
            }
        }
        if length < 8 && code == (1 << length) - 1 { Ok(out) } else { Err(Broken) }
    }

    #[test]
    fn the_code_is_that_of_the_rfc() {
        assert_eq!((CODE.codes[0], CODE.codes[b'\n' as usize], CODE.codes[22]), (0x1ff8, 0x3fff_fffc, 0x3fff_fffe));
        assert_eq!((CODE.codes[b'0' as usize], CODE.codes[b'~' as usize], CODE.codes[255]), (0, 0x1ffd, 0x3ff_ffee));
        // With EOS, the code is complete.
        let sum: u64 = LENGTHS.iter().map(|length| 1 << (30 - length)).sum();
        assert_eq!(sum + 1, 1 << 30);
    }

    #[test]
    fn every_byte_and_all_together() {
        for first in 0..=255 {
            for second in 0..=255 {
                let text = [first, second, first];
                let mut coded = Vec::new();
                encode(&text, &mut coded);
                assert_eq!(coded.len(), encoded_len(&text));
                assert_eq!(decoded(&coded), Ok(text.to_vec()));
            }
        }
        let text: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        let mut coded = b"before".to_vec();
        encode(&text, &mut coded);
        assert_eq!(decoded(&coded[6..]), Ok(text));
        assert_eq!((encoded_len(b""), decoded(b"")), (0, Ok(vec![])));
    }

    #[test]
    fn any_bits_decode_as_bit_by_bit() {
        let mut random = super::super::tests::Random(7);
        for round in 0..20_000 {
            let mut coded: Vec<u8> = (0..random.below(24)).map(|_| random.below(256) as u8).collect();
            // Ones lead to long codes and to padding.
            for _ in 0..round % 4 {
                let at = random.below(coded.len().max(1));
                if let Some(byte) = coded.get_mut(at) {
                    *byte = 0xff;
                }
            }
            assert_eq!(decoded(&coded), slowly(&coded), "{coded:x?}");
        }
    }

    #[test]
    fn padding_and_eos() {
        for broken in [
            // A byte of padding, alone and after `a`; zeros; EOS; EOS and `?`; EOS after `a`.
            &[0xff][..],
            &[0x1f, 0xff],
            &[0x1f, 0xff, 0xff, 0xff],
            &[0x18],
            &[0x00],
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xff, 0xfc],
            &[0x1f, 0xff, 0xff, 0xff, 0xff],
            // A code of 28 bits that is cut off.
            &[0xff, 0xff, 0xfe],
        ] {
            assert_eq!(decoded(broken), Err(Broken), "{broken:x?}");
            assert_eq!(slowly(broken), Err(Broken), "{broken:x?}");
        }
        assert_eq!(decoded(&[0x1f]), Ok(b"a".to_vec()));
        // Seven bits of padding, and one.
        assert_eq!(decoded(&[0x00, 0x00, 0x00, 0x7f]), Ok(b"00000".to_vec()));
        assert_eq!(decoded(&[0x00, 0x01]), Ok(b"000".to_vec()));
    }
}
