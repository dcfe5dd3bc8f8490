//! Random numbers that are the same on every machine.
//!
//! The logarithms of a system's C library differ in their last digits from those of another, so the one here uses nothing but
//! additions, multiplications and divisions, whose results IEEE 754 prescribes.

use std::f64::consts::{LN_2, SQRT_2};

/// A stream of random numbers (SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number from 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of the exponential distribution with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -logarithm(1.0 - self.unit())
    }
}

/// The natural logarithm of a positive, normal number.
fn logarithm(x: f64) -> f64 {
    // x = m · 2^e with m from √½ to √2, and ln m = 2 · artanh((m - 1) / (m + 1)).
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    // The series 1 + s²/3 + s⁴/5 + …; s² is below 0.03, so ten terms are as good as all.
    let series = (0..10).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    2.0 * s * series + exponent as f64 * LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0; 3].map(|_| random.bits()), expected);
    }

    #[test]
    fn logarithms_are_right() {
        for x in [1.0, 0.5, 2.0, 1e-16, 0.999_999, 1.41, 1.42, 123.456, f64::MIN_POSITIVE] {
            assert!((logarithm(x) - x.ln()).abs() <= 4.0 * f64::EPSILON * x.ln().abs(), "{x}: {}", logarithm(x));
        }
    }

    #[test]
    fn exponential_numbers_have_mean_and_variance_one() {
        let mut random = Random::new(1);
        let numbers: Vec<f64> = (0..200_000).map(|_| random.exponential()).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let variance =
            numbers.iter().map(|number| (number - mean) * (number - mean)).sum::<f64>() / numbers.len() as f64;
        assert!((mean - 1.0).abs() < 0.01 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
