//! The format of figures.

/// A count with thousands separated; below ten with one decimal.
pub(crate) fn count(value: f64) -> String {
    if value < 9.95 && value.fract() > 0.05 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(" ")
}

/// Bytes, with three digits at most.
pub(crate) fn size(bytes: f64) -> String {
    let (mut value, mut units) = (bytes, "BKMGTP".chars());
    let mut unit = units.next();
    while value >= 1000.0
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = Some(next);
    }
    let unit = unit.filter(|_| bytes > 0.0).map(String::from).unwrap_or_default();
    if unit != "B" && value > 0.0 && value < 9.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

/// Milliseconds, with three digits at most.
pub(crate) fn milliseconds(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => count(value),
    }
}

/// Seconds as people say them.
pub(crate) fn time(seconds: f64) -> String {
    let seconds = seconds as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Reduces values to at most this many: of neighbours, the highest. The grouping of neighbours stays the same when the
/// oldest go: `gone` have gone.
pub(crate) fn peaks(values: &[f64], gone: usize, width: usize) -> Vec<f64> {
    let together = values.len().div_ceil(width.saturating_sub(1).max(1)).max(1);
    let numbered: Vec<(usize, f64)> =
        values.iter().enumerate().map(|(at, value)| ((gone + at) / together, *value)).collect();
    let groups = numbered.chunk_by(|(one, _), (other, _)| one == other);
    groups.map(|group| group.iter().map(|(_, value)| *value).fold(0.0, f64::max)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [0.0, 3.0, 3.25, 42.4, 1234.0, 1_234_567.0].map(count),
            ["0", "3", "3.2", "42", "1 234", "1 234 567"]
        );
        let sizes = [0.0, 12.0, 1000.0, 5.5 * 1024.0, 999.0 * 1024.0, 23.4 * 1_073_741_824.0].map(size);
        assert_eq!(sizes, ["0", "12B", "1.0K", "5.5K", "999K", "23G"]);
        assert_eq!([0.815, 12.34, 123.4, 12_345.0].map(milliseconds), ["0.81", "12.3", "123", "12 345"]);
        assert_eq!([59.0, 61.0, 7260.0, 180_000.0].map(time), ["59 s", "1 min", "2 h 1 min", "2 d 2 h"]);
    }

    #[test]
    fn many_values_become_peaks() {
        assert_eq!(peaks(&[1.0, 2.0, 3.0], 0, 4), [1.0, 2.0, 3.0]);
        let values: Vec<f64> = (0..12).map(f64::from).collect();
        assert_eq!(peaks(&values, 0, 5), [2.0, 5.0, 8.0, 11.0]);
        assert_eq!(peaks(&values, 1, 5), [1.0, 4.0, 7.0, 10.0, 11.0], "the same neighbours, one later");
    }
}
