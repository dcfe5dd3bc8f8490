//! Reads the key size of a certificate (RFC 5280). Pure.

/// A DER value: its type, and its content.
type Value<'d> = (u8, &'d [u8]);

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
/// `[0]`, the tag of a certificate's version.
const VERSION: u8 = 0xA0;

/// The value at the beginning, and the rest.
fn value(der: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let (kind, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        short @ ..0x80 => (usize::from(short), rest),
        long => {
            let (bytes, rest) =
                rest.split_at_checked(usize::from(long & 0x7F)).filter(|(bytes, _)| bytes.len() <= 4)?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some(((*kind, content), rest))
}

/// The content of the value of this type at the beginning, and the rest.
fn expect(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    value(der).filter(|((kind, _), _)| *kind == wanted).map(|((_, content), rest)| (content, rest))
}

/// The size of a certificate's public key in bits; `None` if that is neither an RSA nor an elliptic-curve key.
pub(super) fn key_bits(certificate: &[u8]) -> Option<u32> {
    let (signed, _) = expect(expect(certificate, SEQUENCE)?.0, SEQUENCE)?;
    let mut rest = match value(signed)? {
        ((VERSION, _), rest) => rest,
        _ => signed,
    };
    // Serial number, algorithm, issuer, validity, subject.
    for _ in 0..5 {
        rest = value(rest)?.1;
    }
    let (key, _) = expect(rest, SEQUENCE)?;
    let (_, rest) = expect(key, SEQUENCE)?;
    // The first byte counts the unused bits of the last one.
    let bits = expect(rest, BIT_STRING)?.0.get(1..)?;
    match bits {
        // A point: both coordinates (RFC 5480 section 2.2).
        [4, point @ ..] if point.len().is_multiple_of(2) => match point.len() / 2 {
            66 => Some(521),
            bytes => u32::try_from(bytes * 8).ok(),
        },
        // The modulus comes first (RFC 8017 appendix A.1.1).
        [SEQUENCE, ..] => {
            let (modulus, _) = expect(expect(bits, SEQUENCE)?.0, INTEGER)?;
            let modulus = &modulus[modulus.iter().take_while(|byte| **byte == 0).count()..];
            Some(u32::try_from(modulus.len() * 8).ok()? - modulus.first()?.leading_zeros())
        }
        // As OpenSSL counts them.
        _ if bits.len() == 32 => Some(253),
        _ => None,
    }
}
