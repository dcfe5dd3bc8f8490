//! The few statistics that alternating rounds and lists of latencies need.

use std::fmt;

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

/// The distance of the extremes, as a share of the median; `None` for fewer than two values.
pub(crate) fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values).filter(|middle| values.len() > 1 && *middle > 0.0)?;
    let highest = values.iter().copied().fold(f64::MIN, f64::max);
    let lowest = values.iter().copied().fold(f64::MAX, f64::min);
    Some((highest - lowest) / middle)
}

/// The smallest value that `share` (0 to 1) of the values do not exceed; 0 if there are none.
pub(crate) fn percentile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0)
}

/// A ratio, and its 95 % interval; there is none after a single round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) middle: f64,
    pub(crate) bounds: Option<[f64; 2]>,
}

impl Ratio {
    /// Whether the ratio is at least `bar`. `None`: the interval holds the bar, or there is no interval.
    pub(crate) fn reaches(&self, bar: f64) -> Option<bool> {
        match self.bounds? {
            [low, _] if low >= bar => Some(true),
            [_, high] if high < bar => Some(false),
            _ => None,
        }
    }

    /// The ratio of the other to the one.
    pub(crate) fn inverse(&self) -> Ratio {
        Ratio { middle: 1.0 / self.middle, bounds: self.bounds.map(|[low, high]| [1.0 / high, 1.0 / low]) }
    }

    /// Whether the ratio is at most `bar`; likewise.
    pub(crate) fn stays_below(&self, bar: f64) -> Option<bool> {
        match self.bounds? {
            [_, high] if high <= bar => Some(true),
            [low, _] if low > bar => Some(false),
            _ => None,
        }
    }
}

impl fmt::Display for Ratio {
    /// `1.86 (1.80–1.93)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |ratio: f64| if ratio < 100.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") };
        f.write_str(&told(self.middle))?;
        match self.bounds {
            Some([low, high]) => write!(f, " ({}–{})", told(low), told(high)),
            None => Ok(()),
        }
    }
}

/// The ratio of `one` to `other`, which were measured in turn: that of their medians, so that it says what a table of
/// medians says, with the [`interval`] of the ratios of each round. `None` if there is no median of `other` above 0.
pub(crate) fn ratio(one: &[f64], other: &[f64]) -> Option<Ratio> {
    let middle = median(one)? / median(other).filter(|median| *median > 0.0)?;
    let ratios: Vec<f64> = one.iter().zip(other).map(|(one, other)| one / other).collect();
    // A few rounds with an outlier could leave the medians outside.
    let bounds = interval(&ratios).map(|[low, high]| [low.min(middle), high.max(middle)]);
    Some(Ratio { middle, bounds })
}

/// The 95 % interval for the mean of the distribution of these values: Student's, for the logarithms, because
/// disturbances multiply a measurement. Needs two values, all of them above 0.
pub(crate) fn interval(values: &[f64]) -> Option<[f64; 2]> {
    let (mean, deviation) = logarithms(values)?;
    let quantile = STUDENT.get(values.len().checked_sub(2)?).copied().unwrap_or(1.96);
    let reach = quantile * deviation / (values.len() as f64).sqrt();
    Some([(mean - reach).exp(), (mean + reach).exp()])
}

/// Mean and deviation of the logarithms; `None` without values. The deviation of one value is 0.
fn logarithms(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() || values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let logarithms = || values.iter().map(|value| value.ln());
    let count = values.len() as f64;
    let mean = logarithms().sum::<f64>() / count;
    let squares: f64 = logarithms().map(|logarithm| (logarithm - mean).powi(2)).sum();
    Some((mean, (squares / (count - 1.0).max(1.0)).sqrt()))
}

/// Quantiles of Student's distribution for 95 % on both sides, by degrees of freedom from 1 (any table of it).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_bounds() {
        assert_eq!(ratio(&[], &[]), None);
        assert_eq!(ratio(&[1.0], &[0.0]), None);
        assert_eq!(ratio(&[4.0], &[2.0]).map(|ratio| (ratio.bounds, ratio.reaches(1.0))), Some((None, None)));
        let same = ratio(&[4.0, 8.0], &[2.0, 4.0]).unwrap();
        let [low, high] = same.bounds.unwrap();
        assert!([same.middle, low, high].into_iter().all(|ratio| (ratio - 2.0).abs() < 1e-9));
        // Logarithms of 1, 2 and 4: their mean is ln 2, their deviation too; 4.303 / sqrt 3 of it is the reach.
        let wide = ratio(&[1.0, 2.0, 4.0], &[1.0, 1.0, 1.0]).unwrap();
        let [low, high] = wide.bounds.unwrap();
        let reach = 2_f64.powf(4.303 / 3_f64.sqrt());
        assert!(
            (wide.middle - 2.0).abs() < 1e-9 && (high - 2.0 * reach).abs() < 1e-9 && (low - 2.0 / reach).abs() < 1e-9
        );
    }

    /// A round that went wrong moves the mean of the ratios, not the medians that a table shows.
    #[test]
    fn a_ratio_agrees_with_the_medians() {
        let found = ratio(&[3250.0, 3300.0, 3200.0], &[3340.0, 1500.0, 3400.0]).unwrap();
        assert!((found.middle - 3250.0 / 3340.0).abs() < 1e-9);
        assert_eq!((found.reaches(1.0), found.stays_below(1.0)), (None, None));
        let clear = ratio(&[4.0, 4.1, 4.2], &[2.0, 2.0, 2.0]).unwrap();
        assert_eq!((clear.reaches(1.9), clear.reaches(2.5), clear.reaches(2.05)), (Some(true), Some(false), None));
        assert_eq!((clear.stays_below(1.9), clear.stays_below(2.5)), (Some(false), Some(true)));
        assert_eq!(clear.to_string(), "2.05 (1.93–2.18)");
    }

    #[test]
    fn one_series_has_bounds() {
        assert_eq!([interval(&[]), interval(&[5.0]), interval(&[5.0, 0.0])], [None; 3]);
        let [low, high] = interval(&[100.0, 200.0, 400.0]).unwrap();
        let reach = 2_f64.powf(4.303 / 3_f64.sqrt());
        assert!((high - 200.0 * reach).abs() < 1e-6 && (low - 200.0 / reach).abs() < 1e-6);
    }

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
