//! Numbers and times in the wording of Apache's status page.

/// A number as APR's `%g` writes it: `digits` significant ones, no zero before the point, none at the end.
pub(super) fn general(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !value.is_finite() {
        return "inf".into();
    }
    // `d.dddde±x`
    let text = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let all: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let kept = all.trim_end_matches('0');
    let count = i32::try_from(kept.len()).unwrap_or(i32::MAX);
    let sign = if value < 0.0 { "-" } else { "" };
    if point - count > 4 || point < -3 {
        let exponent = point - 1;
        return format!("{sign}{}.{}e{exponent:+}", &kept[..1], &kept[1..]);
    }
    if point <= 0 {
        return format!("{sign}.{}{kept}", "0".repeat(point.unsigned_abs() as usize));
    }
    match usize::try_from(point).unwrap_or(0) {
        point if point >= kept.len() => format!("{sign}{kept}{}", "0".repeat(point - kept.len())),
        point => format!("{sign}{}.{}", &kept[..point], &kept[point..]),
    }
}

/// Hundredths of seconds as seconds.
pub(super) fn seconds(ticks: u64) -> String {
    general(ticks as f64 / 100.0, 6)
}

const KIB: f64 = 1024.0;

/// A number of bytes.
pub(super) fn bytes(count: u64) -> String {
    let value = count as f64;
    match count {
        0..5120 => format!("{count} B"),
        5120..524_288 => format!("{:.1} kB", value / KIB),
        524_288..536_870_912 => format!("{:.1} MB", value / KIB / KIB),
        _ => format!("{:.1} GB", value / KIB / KIB / KIB),
    }
}

/// A number of kilobytes.
pub(super) fn kilobytes(count: u64) -> String {
    let value = count as f64;
    match count {
        0..1024 => format!("{count} kB"),
        1024..1_048_576 => format!("{:.1} MB", value / KIB),
        _ => format!("{:.1} GB", value / KIB / KIB),
    }
}

/// A time span, each part with a blank in front; empty for less than a second.
pub(super) fn span(seconds: u64) -> String {
    let parts = [
        (seconds / 86400, "day"),
        (seconds / 3600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let mut out = String::new();
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count > 0) {
        out.push_str(&format!(" {count} {unit}{}", if count == 1 { "" } else { "s" }));
    }
    out
}

/// `Saturday, 21-Nov-2026 21:51:14 UTC`, in local time.
pub(super) fn date(seconds: i64) -> String {
    let mut out = Vec::new();
    sys::time::strftime(&mut out, c"%A, %d-%b-%Y %H:%M:%S %Z", seconds);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_numbers_as_apr_writes_them() {
        let cases = [
            (0.0, "0"),
            (0.5, ".5"),
            (1.0, "1"),
            (0.101367, ".101367"),
            (25392.9, "25392.9"),
            (0.0671982, ".0671982"),
            (2574.0, "2574"),
            (4.168539, "4.16854"),
            (100.0, "100"),
            (1_234_567.0, "1234570"),
            (0.00012, ".00012"),
            (0.000012, "1.2e-5"),
            (100_000.0, "1.e+5"),
        ];
        for (value, want) in cases {
            assert_eq!(general(value, 6), want, "{value}");
        }
        assert_eq!((general(0.0671982, 3), general(0.1034, 3)), (".0672".into(), ".103".into()));
    }

    #[test]
    fn sizes_and_spans() {
        let cases = [(5025, "5025 B"), (25_100, "24.5 kB"), (5_242_880, "5.0 MB"), (1 << 30, "1.0 GB")];
        for (count, want) in cases {
            assert_eq!(bytes(count), want);
        }
        assert_eq!((kilobytes(1), kilobytes(2207)), ("1 kB".into(), "2.2 MB".into()));
        assert_eq!((span(0), span(878)), (String::new(), " 14 minutes 38 seconds".into()));
        assert_eq!(span(90061), " 1 day 1 hour 1 minute 1 second");
        assert!(date(1_795_297_874).starts_with("Saturday, 21-Nov-2026 ") || sys::time::local_offset(0) != 0);
    }
}
