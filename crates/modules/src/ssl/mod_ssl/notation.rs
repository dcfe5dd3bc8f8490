//! Serial numbers and times of certificates, written as OpenSSL does.

use x509_parser::time::ASN1Time;

use super::names;

/// Formats a serial number as OpenSSL prints it.
pub(super) fn serial(bytes: &[u8]) -> String {
    let (sign, bytes) = magnitude(bytes);
    format!("{sign}{}", names::hex(&bytes))
}

/// Formats the number in decimal.
pub(super) fn decimal(bytes: &[u8]) -> String {
    let (sign, mut bytes) = magnitude(bytes);
    let mut digits = Vec::new();
    while bytes.iter().any(|byte| *byte != 0) {
        let mut rest = 0;
        for byte in &mut bytes {
            let part = rest << 8 | u32::from(*byte);
            (*byte, rest) = ((part / 10) as u8, part % 10);
        }
        digits.push(char::from_digit(rest, 10).unwrap_or('0'));
    }
    let digits: String = digits.iter().rev().collect();
    format!("{sign}{}", if digits.is_empty() { "0" } else { &digits })
}

/// The sign of a DER INTEGER, and the bytes of its absolute value.
fn magnitude(bytes: &[u8]) -> (&'static str, Vec<u8>) {
    let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let mut carry = is_negative;
    let mut all: Vec<u8> = bytes.to_vec();
    if is_negative {
        for byte in all.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let zeros = all.iter().take(all.len().saturating_sub(1)).take_while(|byte| **byte == 0).count();
    all.drain(..zeros);
    (if is_negative { "-" } else { "" }, all)
}

/// Formats a time as OpenSSL prints it (ASN1_TIME_print(3)).
pub(super) fn date(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let month = &time.month().to_string()[..3];
    let (hour, minute, second) = time.to_hms();
    format!("{month} {:2} {hour:02}:{minute:02}:{second:02} {} GMT", time.day(), time.year())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_by_openssl() {
        let cases: [(&[u8], &str, &str); 6] = [
            (&[0], "00", "0"),
            (&[0x7f], "7F", "127"),
            (&[0, 0x80], "80", "128"),
            (&[0x80], "-80", "-128"),
            (&[0xff, 0x7f], "-81", "-129"),
            (&[1, 0, 0, 0, 0, 0, 0, 0, 0], "010000000000000000", "18446744073709551616"),
        ];
        for (bytes, hex, digits) in cases {
            assert_eq!((serial(bytes).as_str(), decimal(bytes).as_str()), (hex, digits));
        }
    }
}
