//! The parsers of values; no other module parses values. Some are as lenient as Apache's own (measured on 2.4.71).

use std::time::Duration;

/// Parses leading digits with an optional sign, like C's `strtol`: `5x` is 5, `abc` is 0, and a number that is too
/// large becomes the largest one.
pub fn strtol(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let sign = if negative { -1 } else { 1 };
    digits
        .bytes()
        .take_while(u8::is_ascii_digit)
        .fold(0i64, |value, digit| value.saturating_mul(10).saturating_add(sign * i64::from(digit - b'0')))
}

/// Like `strtol`, but truncated to 32 bits as by C's `atoi`: 3000000000 becomes negative, 5000000000 does not.
pub fn atoi(text: &str) -> i32 {
    strtol(text) as i32
}

/// Parses a decimal integer, without anything after it.
pub fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Parses `On` or `Off`, ignoring case.
pub fn on_off(text: &str) -> Option<bool> {
    one_of(text, &[("on", true), ("off", false)])
}

/// Finds a keyword in a table, ignoring case.
pub fn one_of<T: Copy>(text: &str, table: &[(&str, T)]) -> Option<T> {
    table.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, value)| *value)
}

/// Parses a time with an optional unit: `ms`, `s`, `mi`/`min`, `h`; the default is `unit`. `None` for anything else,
/// including negative numbers.
pub fn duration(text: &str, unit: Duration) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let value: u32 = text[..digits].parse().ok()?;
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" => unit,
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "mi" | "min" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        _ => return None,
    };
    unit.checked_mul(value)
}

/// Parses a size in bytes, with an optional unit of 1024 (`K`), 1024² (`M`) or 1024³ (`G`) bytes. `None` for anything
/// else.
pub fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let value: u64 = text[..digits].parse().ok()?;
    let shift = one_of(&text[digits..], &[("", 0), ("k", 10), ("m", 20), ("g", 30)])?;
    value.checked_mul(1 << shift)
}

/// Parses seconds leniently, as for `Timeout`: text that is not a number is 0, and so are negative numbers.
pub fn seconds(text: &str) -> Duration {
    Duration::from_secs(u64::try_from(atoi(text)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenient_and_strict_numbers() {
        let cases = [("5x", 5, None), ("abc", 0, None), ("-3", -3, Some(-3)), ("", 0, None), ("12", 12, Some(12))];
        for (text, lenient, strict) in cases {
            assert_eq!((strtol(text), number(text)), (lenient, strict), "{text}");
        }
        let large = [
            ("99999999999999999999", i64::MAX, -1),
            ("-99999999999999999999", i64::MIN, 0),
            ("3000000000", 3_000_000_000, -1_294_967_296),
            ("5000000000", 5_000_000_000, 705_032_704),
        ];
        for (text, long, short) in large {
            assert_eq!((strtol(text), atoi(text)), (long, short), "{text}");
        }
    }

    #[test]
    fn sizes_with_units() {
        for (text, bytes) in [("0", 0), ("512", 512), ("64k", 65536), ("2M", 2 << 20), ("1G", 1 << 30)] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for bad in ["", "M", "-1", "1.5M", "1MB", "99999999999G"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations_with_units() {
        let second = Duration::from_secs(1);
        assert_eq!(duration("100ms", second), Some(Duration::from_millis(100)));
        assert_eq!(duration("2min", second), Some(Duration::from_secs(120)));
        assert_eq!(duration("5", second), Some(Duration::from_secs(5)));
        for bad in ["-5", "abc", "5d", ""] {
            assert_eq!(duration(bad, second), None, "{bad}");
        }
    }
}
