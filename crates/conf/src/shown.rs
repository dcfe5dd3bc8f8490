//! Converts numbers and flags to text at compile time, so that a table shows the default that the code uses.

/// The digits of a number, as text.
pub struct Digits {
    text: [u8; 20],
    from: usize,
}

impl Digits {
    /// Formats a number.
    pub const fn of(mut number: u64) -> Digits {
        let mut digits = Digits { text: [b'0'; 20], from: 19 };
        while number >= 10 {
            digits.text[digits.from] = b'0' + (number % 10) as u8;
            number /= 10;
            digits.from -= 1;
        }
        digits.text[digits.from] = b'0' + number as u8;
        digits
    }

    /// The digits as a string.
    pub const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.text.split_at(self.from).1) {
            Ok(text) => text,
            Err(_) => unreachable!(),
        }
    }
}

/// The word for a constant flag, for the defaults in a directive table.
pub const fn on_or_off(on: bool) -> &'static str {
    if on { "On" } else { "Off" }
}

/// The text of a constant number, for the defaults in a directive table.
#[macro_export]
macro_rules! shown {
    ($number:expr) => {{
        const DIGITS: &$crate::Digits = &$crate::Digits::of($number as u64);
        const TEXT: &str = DIGITS.as_str();
        TEXT
    }};
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_shown_as_they_are_written() {
        assert_eq!([shown!(0), shown!(9), shown!(10), shown!(8190)], ["0", "9", "10", "8190"]);
        assert_eq!(shown!(u64::MAX), u64::MAX.to_string());
    }

    #[test]
    fn flags_are_shown_as_they_are_written() {
        assert_eq!([true, false].map(super::on_or_off), ["On", "Off"]);
    }
}
