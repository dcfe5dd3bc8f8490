//! The little statistics that alternating rounds and lists of latencies need.

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

/// The smallest value that `share` (0 to 1) of the values do not exceed; 0 of no values.
pub(crate) fn percentile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| percentile(&values, share)), [100, 198, 200]);
        assert_eq!([0.5, 0.99, 1.0].map(|share| percentile(&[7], share)), [7; 3]);
        assert_eq!(percentile(&[], 0.5), 0);
    }

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
