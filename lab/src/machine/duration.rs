//! Durations as they are written on a command line.

use std::time::Duration;

/// Parses `10s`, `500ms`, `2m`, `1h`; seconds without a unit.
pub(crate) fn duration(text: &str) -> std::result::Result<Duration, String> {
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{unit:?} is not a unit of time: ms, s, m or h")),
    };
    let seconds = number.parse::<f64>().map_err(|_| "a time is a number and a unit, like 10s".to_owned())? * unit;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("a time is longer than nothing, and shorter than the age of the world".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let milliseconds = |text| duration(text).map(|time| time.as_millis());
        assert_eq!(milliseconds("10s"), Ok(10_000));
        assert_eq!(milliseconds("1.5"), Ok(1_500));
        assert_eq!(milliseconds("20ms"), Ok(20));
        assert_eq!(milliseconds("2m"), Ok(120_000));
        assert!(["", "s", "10x", "0", "-1s", "1e99h"].into_iter().all(|text| milliseconds(text).is_err()));
    }
}
