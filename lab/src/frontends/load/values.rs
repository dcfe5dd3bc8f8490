//! The values of options: numbers, rates and fields.

/// Parses `1000`, or `1k` as in wrk; at least 1.
pub(super) fn number(text: &str) -> std::result::Result<u64, String> {
    let (digits, times) = match text.strip_suffix(['k', 'K', 'M', 'm']) {
        Some(digits) if text.ends_with(['k', 'K']) => (digits, 1000),
        Some(digits) => (digits, 1_000_000),
        None => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(times)).filter(|number| *number > 0);
    number.ok_or_else(|| "a number from 1 on, as 1000 or 1k".into())
}

/// The same, for numbers of simultaneous things.
pub(super) fn positive(text: &str) -> std::result::Result<usize, String> {
    let few =
        |number: u64| u32::try_from(number).map(|number| number as usize).map_err(|_| "that is too many".to_owned());
    number(text).and_then(few)
}

pub(super) fn rate(text: &str) -> std::result::Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "a rate is a number of requests per second".to_owned())?;
    let is_possible = rate.is_finite() && (0.001..=1_000_000.0).contains(&rate);
    is_possible.then_some(rate).ok_or_else(|| "a rate is from 0.001 to 1000000 requests per second".into())
}

pub(super) fn field(text: &str) -> std::result::Result<String, String> {
    let name = text.split_once(':').map(|(name, _)| name).unwrap_or_default();
    let is_field = !name.trim().is_empty() && !text.contains(['\r', '\n', '\0']);
    is_field.then(|| text.to_owned()).ok_or_else(|| "a field is `Name: value`, on one line".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_fields_are_checked() {
        assert_eq!(rate("0.5"), Ok(0.5));
        assert!(["0", "-1", "nan", "inf", "fast"].into_iter().all(|text| rate(text).is_err()));
        assert!(field("X-A: b").is_ok());
        assert!(["X-A", ": b", "X: a\r\nY: b"].into_iter().all(|text| field(text).is_err()));
    }
}
