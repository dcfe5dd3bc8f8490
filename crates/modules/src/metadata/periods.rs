//! Periods in words, `plus 1 month 2 days`, for mod_expires and mod_usertrack.

use conf::values::atoi;
use conf::words::next_word;

/// Why a period is invalid.
pub(super) enum Fault {
    /// A number is expected instead of this.
    NoNumber(String),
    /// The last number has no unit.
    NoUnit,
    /// This word is no unit.
    UnknownUnit(String),
}

/// The units: how many letters have to match, the name, and the seconds.
const UNITS: [(usize, &str, i32); 7] = [
    (1, "years", 365 * 24 * 60 * 60),
    (2, "months", 30 * 24 * 60 * 60),
    (1, "weeks", 7 * 24 * 60 * 60),
    (1, "days", 24 * 60 * 60),
    (1, "hours", 60 * 60),
    (2, "minutes", 60),
    (1, "seconds", 1),
];

/// The seconds of a period: an optional `plus`, then pairs of number and unit. As in Apache they are counted in 32
/// bits.
pub(super) fn seconds(mut rest: &str) -> Result<i32, Fault> {
    let begins = |word: &str, with: &str| word.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    let mut word = next_word(&mut rest);
    if begins(&word, "p") {
        word = next_word(&mut rest);
    }
    let mut seconds = 0_i32;
    while !word.is_empty() {
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Fault::NoNumber(word));
        }
        let count = atoi(&word);
        let unit = next_word(&mut rest);
        if unit.is_empty() {
            return Err(Fault::NoUnit);
        }
        let known = UNITS.iter().find(|(letters, name, _)| begins(&unit, &name[..*letters]));
        let Some((_, _, factor)) = known else { return Err(Fault::UnknownUnit(unit)) };
        seconds = seconds.wrapping_add(factor.wrapping_mul(count));
        word = next_word(&mut rest);
    }
    Ok(seconds)
}
