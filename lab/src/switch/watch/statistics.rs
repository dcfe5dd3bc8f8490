//! The statistics: how likely it is that chance alone makes a difference, with the days before as the yardstick.

/// What is known of the variation between days before any day was looked at counts like this many days.
const PRIOR_DAYS: f64 = 6.0;

/// How many times more than chance alone days vary if there are too few of them to see that.
pub(super) const ASSUMED_DISPERSION: f64 = 4.0;

/// So many of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) part: u64,
    pub(super) all: u64,
}

impl Share {
    /// As a number from 0 to 1; 0 of nothing is 0.
    pub(super) fn value(self) -> f64 {
        self.part as f64 / self.all.max(1) as f64
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self { part: self.part + other.part, all: self.all + other.all }
    }
}

/// What a mean and a variance are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    pub(super) number: u64,
    sum: f64,
    squares: f64,
}

impl Moments {
    /// Of no value.
    pub(super) const NONE: Self = Self { number: 0, sum: 0.0, squares: 0.0 };

    /// Adds a value.
    pub(super) fn add(&mut self, value: f64) {
        *self = self.and(Self { number: 1, sum: value, squares: value * value });
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self { number: self.number + other.number, sum: self.sum + other.sum, squares: self.squares + other.squares }
    }

    /// The same values, each less by this.
    pub(super) fn less(self, by: f64) -> Self {
        let number = self.number as f64;
        Self { sum: self.sum - number * by, squares: self.squares - 2.0 * by * self.sum + number * by * by, ..self }
    }

    /// The mean; 0 of nothing.
    pub(super) fn mean(self) -> f64 {
        self.sum / self.number.max(1) as f64
    }

    /// The sum of the squared distances from the mean.
    fn scatter(self) -> f64 {
        (self.squares - self.sum * self.mean()).max(0.0)
    }
}

/// What speaks for a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evidence {
    /// The probability of such a difference if all requests were independent of each other.
    pub(super) chance: f64,
    /// The difference in standard deviations, if all requests were independent.
    pub(super) deviations: f64,
    /// How many times more the days before vary than independent requests would make them; none if they cannot tell.
    pub(super) dispersion: Option<f64>,
    /// How many days there are before.
    pub(super) days: usize,
}

impl Evidence {
    /// For a share.
    pub(super) fn of_shares(days: &[Share], after: Share) -> Self {
        let before = days.iter().copied().fold(Share::default(), Share::and);
        let both = before.and(after);
        let variance = both.value() * (1.0 - both.value()) * (1.0 / after.all as f64 + 1.0 / before.all as f64);
        let deviations = if variance > 0.0 { (after.value() - before.value()) / variance.sqrt() } else { 0.0 };
        let usual = before.value();
        let expected = usual * (1.0 - usual);
        let distance = |day: &Share| (day.part as f64 - day.all as f64 * usual).powi(2) / (day.all as f64 * expected);
        let full: Vec<&Share> = days.iter().filter(|day| day.all > 0).collect();
        let dispersion = (full.len() > 1 && expected > 0.0)
            .then(|| full.iter().map(|day| distance(day)).sum::<f64>() / (full.len() - 1) as f64);
        Self { chance: exact(before, after), deviations, dispersion, days: full.len() }
    }

    /// For a mean, whose values vary by at least `least` as standard deviation.
    pub(super) fn of_means(days: &[Moments], after: Moments, least: f64) -> Self {
        let full: Vec<Moments> = days.iter().copied().filter(|day| day.number > 0).collect();
        let before = full.iter().copied().fold(Moments::default(), Moments::and);
        let within = full.iter().copied().chain([after]).map(Moments::scatter).sum::<f64>();
        let freedom = (before.number + after.number).saturating_sub(full.len() as u64 + 1).max(1) as f64;
        let variance = (within / freedom).max(least * least);
        let error = variance * (1.0 / before.number.max(1) as f64 + 1.0 / after.number.max(1) as f64);
        let deviations = (after.mean() - before.mean()) / error.sqrt();
        let distance = |day: &Moments| day.number as f64 * (day.mean() - before.mean()).powi(2) / variance;
        let dispersion = (full.len() > 1).then(|| full.iter().map(distance).sum::<f64>() / (full.len() - 1) as f64);
        Self { chance: student(deviations, freedom), deviations, dispersion, days: full.len() }
    }

    /// For one value of each day, which varies by at least `least` as standard deviation.
    pub(super) fn of_days(days: &[f64], after: f64, least: f64) -> Self {
        let number = days.len().max(1) as f64;
        let mean = days.iter().sum::<f64>() / number;
        let freedom = (number - 1.0).max(1.0);
        let deviation = (days.iter().map(|day| (day - mean).powi(2)).sum::<f64>() / freedom).sqrt().max(least);
        let deviations = (after - mean) / (deviation * (1.0 + 1.0 / number).sqrt());
        Self { chance: student(deviations, freedom), deviations, dispersion: Some(1.0), days: days.len() }
    }

    /// For requests that are no more: the logarithm of their number is compared, as traffic varies by factors.
    pub(super) fn of_absence(days: &[u64]) -> Self {
        let number = days.len() as f64;
        let all: f64 = days.iter().map(|count| *count as f64).sum();
        let usual = (all / number.max(1.0)).max(f64::MIN_POSITIVE);
        let logarithm = |count: &u64| (*count as f64 + 0.5).ln();
        let mean = days.iter().map(logarithm).sum::<f64>() / number.max(1.0);
        let deviations = (0.5_f64.ln() - mean) / ((1.0 + 1.0 / number.max(1.0)) / usual).sqrt();
        let scatter = days.iter().map(|count| (logarithm(count) - mean).powi(2)).sum::<f64>();
        let dispersion = (days.len() > 1).then(|| usual * scatter / (number - 1.0));
        // Each of the requests could have come in this window as well as in one of the others.
        Self { chance: (number / (number + 1.0)).powf(all), deviations, dispersion, days: days.len() }
    }

    /// The probability of such a difference without a cause, by the more careful of two yardsticks: independent requests,
    /// and the variation between days. The latter is estimated from few days, so the usual variation of other
    /// differences of this kind supports it, if there is one; but it never becomes less than what these days show
    /// themselves.
    pub(super) fn probability(&self, usual_dispersion: Option<f64>) -> f64 {
        let own_days = self.days.saturating_sub(1).max(1) as f64;
        let (usual, usual_days) = usual_dispersion.map_or((1.0, 0.0), |usual| (usual, PRIOR_DAYS));
        let own = self.dispersion.unwrap_or(usual);
        let supported = (usual_days * usual + own_days * own) / (usual_days + own_days);
        let dispersion = supported.max(own).max(1.0);
        self.chance.max(student(self.deviations / dispersion.sqrt(), usual_days + own_days)).min(1.0)
    }
}

/// The median, the upper one of two; none of nothing.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Fisher's exact test: twice the probability that the part is at least as far off, if it is divided by lot.
fn exact(before: Share, after: Share) -> f64 {
    let (part, all) = (before.part + after.part, before.all + after.all);
    let choose = |from: u64, number: u64| ln_factorial(from) - ln_factorial(number) - ln_factorial(from - number);
    let (least, most) = ((part + after.all).saturating_sub(all), part.min(after.all));
    if after.part < least || after.part > most {
        return 1.0;
    }
    let first = choose(part, after.part) + choose(all - part, after.all - after.part) - choose(all, after.all);
    let is_more = after.part as f64 * all as f64 >= part as f64 * after.all as f64;
    let (mut term, mut sum, mut at) = (1.0, 1.0, after.part);
    while at != if is_more { most } else { least } && term > sum * 1e-16 {
        let [drawn, left, others, rest] =
            [at, part - at, after.all - at, all - part + at - after.all].map(|n| n as f64);
        if is_more {
            term *= left * others / ((drawn + 1.0) * (rest + 1.0));
            at += 1;
        } else {
            term *= drawn * rest / ((left + 1.0) * (others + 1.0));
            at -= 1;
        }
        sum += term;
    }
    (2.0 * first.exp() * sum).min(1.0)
}

/// The probability that Student's t is at least this far from 0, on either side.
fn student(t: f64, freedom: f64) -> f64 {
    if t.is_nan() { 1.0 } else { incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) }
}

fn ln_factorial(number: u64) -> f64 {
    ln_gamma(number as f64 + 1.0)
}

/// The logarithm of the gamma function, by Lanczos' approximation.
fn ln_gamma(x: f64) -> f64 {
    const FACTORS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let terms = FACTORS.iter().zip(1..).map(|(factor, index)| factor / (x + f64::from(index)));
    let sum = 0.999_999_999_999_809_9 + terms.sum::<f64>();
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The regularized incomplete beta function I_x(a, b), by its continued fraction (Numerical Recipes, 6.4).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    match x < (a + 1.0) / (a + b + 2.0) {
        true => front * beta_fraction(x, a, b) / a,
        false => 1.0 - front * beta_fraction(1.0 - x, b, a) / b,
    }
}

/// The continued fraction, by Lentz's method.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const ROUNDS: u32 = 500;
    let no_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / no_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for round in 1..=ROUNDS {
        let m = f64::from(round);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for factor in [even, odd] {
            d = 1.0 / no_zero(1.0 + factor * d);
            c = no_zero(1.0 + factor / c);
            step = d * c;
            fraction *= step;
        }
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// Holm's correction: the probability that any of so many comparisons without a cause looks like this one.
pub(super) fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|one, other| probabilities[*one].total_cmp(&probabilities[*other]));
    let mut corrected = vec![1.0; probabilities.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max(probabilities[index] * (probabilities.len() - rank) as f64).min(1.0);
        corrected[index] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= expected.abs() * 1e-6 + 1e-14, "{value} is not {expected}");
    }

    fn share(part: u64, all: u64) -> Share {
        Share { part, all }
    }

    #[test]
    fn students_t_has_the_values_of_the_tables() {
        let cases = [
            (2.228_138_852, 10.0, 0.05),
            (4.317_791_3, 6.0, 0.004_999_999),
            (1.959_963_985, 1e9, 0.05),
            (12.706_204_74, 1.0, 0.05),
            (0.0, 5.0, 1.0),
        ];
        for (t, freedom, expected) in cases {
            let value = student(t, freedom);
            assert!((value - expected).abs() < 1e-5, "{t} {freedom}: {value}");
            assert_near(student(-t, freedom), value);
        }
    }

    #[test]
    fn factorials_are_exact_enough() {
        for (number, expected) in [(0, 1.0_f64), (1, 1.0), (5, 120.0), (10, 3_628_800.0), (20, 2.432_902_008_176_64e18)]
        {
            assert!((ln_factorial(number) - expected.ln()).abs() < 1e-12, "{number}");
        }
        // Stirling's series for 1e6!.
        assert_near(ln_factorial(1_000_000), 12_815_518.384_658_169);
    }

    #[test]
    fn fishers_test_has_known_values() {
        // Fisher's tea: 3 of 4 right has 17/70 on one side.
        assert_near(exact(share(1, 4), share(3, 4)), 34.0 / 70.0);
        assert_near(exact(share(0, 4), share(4, 4)), 2.0 / 70.0);
        assert_near(exact(share(4, 4), share(0, 4)), 2.0 / 70.0);
        // All ten fall into an eighth: nearly (1/8)^10.
        let rare = exact(share(0, 3500), share(10, 500));
        assert!((rare / (2.0 * 0.125_f64.powi(10)) - 1.0).abs() < 0.1, "{rare}");
        assert_near(exact(share(5, 10), share(5, 10)), 1.0);
        assert_near(exact(share(0, 10), share(0, 10)), 1.0);
        assert!(exact(share(300_000, 1_000_000), share(30_000, 100_000)) > 0.9);
    }

    #[test]
    fn days_that_vary_are_the_yardstick() {
        let after = share(60, 1000);
        let calm = Evidence::of_shares(&[share(30, 1000), share(31, 1000), share(29, 1000), share(30, 1000)], after);
        let wild = Evidence::of_shares(&[share(5, 1000), share(70, 1000), share(2, 1000), share(43, 1000)], after);
        assert!(calm.probability(Some(1.0)) < 2e-3, "{calm:?}");
        assert!(wild.probability(Some(1.0)) > 0.05, "{wild:?}");
        assert!(wild.chance < 1e-3 && wild.dispersion.is_some_and(|dispersion| dispersion > 10.0), "{wild:?}");
        // Four days alone are less sure than with the support of others.
        assert!(calm.probability(None) > calm.probability(Some(1.0)), "{calm:?}");
        // What varies elsewhere makes calm days less sure.
        assert!(calm.probability(Some(5.0)) > calm.probability(Some(1.0)));
    }

    #[test]
    fn means_are_compared() {
        let of = |values: &[f64]| {
            let mut moments = Moments::default();
            values.iter().for_each(|value| moments.add(*value));
            moments
        };
        // Two samples with t = -1 and 8 degrees of freedom: p = 0.3466.
        let evidence = Evidence::of_means(&[of(&[2.0, 3.0, 4.0, 5.0, 6.0])], of(&[1.0, 2.0, 3.0, 4.0, 5.0]), 0.0);
        assert_near(evidence.deviations, -1.0);
        assert_near(evidence.chance, 0.346_593_507_087_32);
        // Values that are all the same differ by their least variation.
        let same = Evidence::of_means(&[of(&[1.0; 50]), of(&[1.0; 50])], of(&[2.0; 50]), 0.01);
        assert!(same.chance < 1e-12 && same.dispersion == Some(0.0), "{same:?}");
    }

    #[test]
    fn days_are_compared_as_they_are() {
        // The mean is 3, the standard deviation the root of 2.5; t = 2.5 sqrt(2) / sqrt(2.5 * 1.2).
        let evidence = Evidence::of_days(&[1.0, 2.0, 3.0, 4.0, 5.0], 8.0, 0.0);
        assert_near(evidence.deviations, 5.0 / 3.0_f64.sqrt());
        assert!((evidence.chance - 0.044_71).abs() < 1e-5, "{evidence:?}");
        let mut moments = Moments::default();
        [3.0, 5.0, 10.0].into_iter().for_each(|value| moments.add(value));
        assert_near(moments.less(2.0).mean(), 4.0);
        assert_near(moments.less(2.0).scatter(), moments.scatter());
    }

    #[test]
    fn absence_is_told_by_the_least_days() {
        assert!(Evidence::of_absence(&[2900, 3600, 2500, 3100, 2800]).probability(Some(1.0)) < 1e-6);
        assert!(Evidence::of_absence(&[3, 2, 4]).probability(Some(1.0)) > 1e-3);
        assert!(Evidence::of_absence(&[4000, 1, 90, 2]).probability(Some(1.0)) > 1e-3);
    }

    #[test]
    fn holms_correction_has_known_values() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (value, expected) in corrected.into_iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert_near(value, expected);
        }
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn medians_are_in_the_middle() {
        let cases = [(vec![9.0, 2.0, 3.0], Some(3.0)), (vec![2.0, 1.0], Some(2.0)), (vec![], None)];
        cases.into_iter().for_each(|(values, expected)| assert_eq!(median(values), expected));
    }
}
