//! Numbers in digits, without the machinery of [`std::fmt`]: each response has some.

/// A number in decimal.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    digits: [u8; Decimal::MAX_LEN],
    start: usize,
}

impl Decimal {
    /// The most digits that a number has.
    pub const MAX_LEN: usize = 20;

    /// The digits of a number.
    #[must_use]
    pub fn of(number: u64) -> Decimal {
        let mut decimal = Decimal { digits: [b'0'; Decimal::MAX_LEN], start: Decimal::MAX_LEN };
        let mut rest = number;
        while rest > 0 || decimal.start == Decimal::MAX_LEN {
            decimal.start -= 1;
            decimal.digits[decimal.start] += (rest % 10) as u8;
            rest /= 10;
        }
        decimal
    }

    /// The digits, at least one.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }

    /// The digits, at least one.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_are_right() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, 1_000_000_007, u64::MAX / 10, u64::MAX] {
            assert_eq!(Decimal::of(number).as_str(), number.to_string());
        }
    }
}
