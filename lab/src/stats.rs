//! The little statistics that alternating rounds need.

/// The middle value; between two middle values, their mean.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// How far apart the extremes are, as a share of the median; nothing can be said about fewer than two values.
pub(crate) fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values).filter(|middle| values.len() > 1 && *middle > 0.0)?;
    let highest = values.iter().copied().fold(f64::MIN, f64::max);
    let lowest = values.iter().copied().fold(f64::MAX, f64::min);
    Some((highest - lowest) / middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_order_and_outliers() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[900.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn the_spread_is_relative() {
        assert_eq!(spread(&[100.0]), None);
        assert_eq!(spread(&[90.0, 100.0, 110.0]), Some(0.2));
        assert_eq!(spread(&[0.0, 0.0]), None);
    }
}
