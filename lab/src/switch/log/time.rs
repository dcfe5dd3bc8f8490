//! The time in a line: `%t` and `%{FORMAT}t`, of which a format may have several that add up to one time.

use jiff::civil::{self, Date, DateTime, Time};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::{Offset, TimeZone};

/// How a directive writes the time. Every form tells from its own text where that ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// What stands between the brackets of `%t`: `10/Oct/2000:13:55:36 -0700`.
    Common,
    /// `%t` with its brackets, or `-` instead of them: it has a condition (`%400t`).
    Bracketed,
    /// Parts of a second since 1970, as many as this in a second: `%{sec}t`, `%{msec}t`, `%{usec}t`.
    Since1970(i64),
    /// The fraction of the second, in so many digits: `%{msec_frac}t`, `%{usec_frac}t`.
    Fraction(usize),
    /// A pattern of strftime without `%Z`.
    Pattern(String),
    /// `%Z`: the abbreviation of a time zone.
    Zone,
}

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

/// The length of [`Form::Common`]; Apache pads its numbers.
const COMMON: usize = "10/Oct/2000:13:55:36 -0700".len();

/// Patterns that depend on a locale, and their meaning in that of C, which servers run with.
const LOCALE: [(&str, &str); 4] =
    [("%c", "%a %b %e %H:%M:%S %Y"), ("%x", "%m/%d/%y"), ("%X", "%H:%M:%S"), ("%r", "%I:%M:%S %p")];

/// The forms of `%{argument}t` in turn.
pub(super) fn forms(argument: &str) -> Vec<Form> {
    let format = ["begin:", "end:"].iter().find_map(|begin| argument.strip_prefix(begin)).unwrap_or(argument);
    match format {
        "" => vec![Form::Common],
        "sec" => vec![Form::Since1970(1)],
        "msec" => vec![Form::Since1970(1_000)],
        "usec" => vec![Form::Since1970(SECOND)],
        "msec_frac" => vec![Form::Fraction(3)],
        "usec_frac" => vec![Form::Fraction(6)],
        _ => patterns(format),
    }
}

fn patterns(format: &str) -> Vec<Form> {
    let format = LOCALE.iter().fold(format.to_owned(), |format, (short, long)| format.replace(short, long));
    let mut forms = Vec::new();
    for (index, part) in format.split("%Z").enumerate() {
        if index > 0 {
            forms.push(Form::Zone);
        }
        if !part.is_empty() {
            forms.push(Form::Pattern(part.to_owned()));
        }
    }
    forms
}

/// What the directives of a line told of its time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The parts of a second that this was told in, and microseconds since 1970.
    since_1970: Option<(i64, i64)>,
    /// Microseconds.
    fraction: Option<i64>,
    date: Option<Date>,
    time: Option<Time>,
    offset: Option<Offset>,
}

impl Clock {
    /// Reads the beginning of `text`, and tells how long that is.
    pub(super) fn read(&mut self, form: &Form, text: &[u8]) -> Option<usize> {
        match form {
            Form::Common => {
                self.set(1, common(text.get(..COMMON)?)?);
                Some(COMMON)
            }
            Form::Bracketed if text.starts_with(b"-") => Some(1),
            Form::Bracketed => {
                self.read(&Form::Common, text.strip_prefix(b"[")?)?;
                (text.get(COMMON + 1) == Some(&b']')).then_some(COMMON + 2)
            }
            Form::Since1970(parts) => {
                // Seconds may stand directly before their fraction; they have ten digits from 2001 to 2286.
                let limit = if *parts == 1 { 10 } else { 18 };
                let digits = text.iter().take(limit).take_while(|byte| byte.is_ascii_digit()).count();
                self.set(*parts, number(&text[..digits])?.checked_mul(SECOND / parts)?);
                Some(digits)
            }
            Form::Fraction(digits) => {
                let scale = if *digits == 3 { 1_000 } else { 1 };
                self.fraction = Some(number(text.get(..*digits)?)? * scale);
                Some(*digits)
            }
            Form::Pattern(pattern) => self.read_pattern(pattern, text),
            Form::Zone => {
                let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-');
                let length = text.iter().take_while(is_part).count();
                if matches!(&text[..length], b"Z" | b"UTC" | b"GMT") {
                    self.offset = Some(Offset::UTC);
                }
                (length > 0).then_some(length)
            }
        }
    }

    fn read_pattern(&mut self, pattern: &str, text: &[u8]) -> Option<usize> {
        let (told, length) = BrokenDownTime::parse_prefix(pattern, text).ok()?;
        if let Some(timestamp) = told.timestamp() {
            self.set(1, timestamp.as_microsecond());
        }
        self.date = told.to_date().ok().or(self.date);
        // Without an hour, this would be midnight.
        self.time = told.hour().and_then(|_| told.to_time().ok()).or(self.time);
        self.offset = told.offset().or(self.offset);
        Some(length)
    }

    /// Keeps the finest of times since 1970.
    fn set(&mut self, parts: i64, microseconds: i64) {
        if self.since_1970.is_none_or(|(known, _)| known < parts) {
            self.since_1970 = Some((parts, microseconds));
        }
    }

    /// Microseconds since 1970. A time without an offset is one of `zone`.
    pub(super) fn microseconds(&self, zone: &TimeZone) -> Option<i64> {
        match self.since_1970 {
            Some((1, microseconds)) => Some(microseconds + self.fraction.unwrap_or(0)),
            Some((_, microseconds)) => Some(microseconds),
            None => {
                let local = DateTime::from_parts(self.date?, self.time?);
                let instant = match self.offset {
                    Some(offset) => offset.to_timestamp(local),
                    None => zone.to_ambiguous_timestamp(local).compatible(),
                };
                Some(instant.ok()?.as_microsecond() + self.fraction.unwrap_or(0))
            }
        }
    }
}

/// Microseconds since 1970 of `10/Oct/2000:13:55:36 -0700`.
fn common(text: &[u8]) -> Option<i64> {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let separators = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':'), (20, b' ')];
    if separators.iter().any(|&(at, separator)| text[at] != separator) {
        return None;
    }
    let part = |from: usize, to: usize| i16::try_from(number(&text[from..to])?).ok();
    let month = MONTHS.chunks(3).position(|name| name == &text[3..6])?;
    let narrow = |value: i16| i8::try_from(value).ok();
    let date = Date::new(part(7, 11)?, i8::try_from(month).ok()? + 1, narrow(part(0, 2)?)?).ok()?;
    let second = narrow(part(18, 20)?)?.min(59);
    let time = civil::Time::new(narrow(part(12, 14)?)?, narrow(part(15, 17)?)?, second, 0).ok()?;
    let offset = (i32::from(part(22, 24)?) * 60 + i32::from(part(24, 26)?)) * 60;
    let offset = match text[21] {
        b'+' => offset,
        b'-' => -offset,
        _ => return None,
    };
    let instant = Offset::from_seconds(offset).ok()?.to_timestamp(DateTime::from_parts(date, time)).ok()?;
    Some(instant.as_microsecond())
}

/// A number of at most 18 digits, and nothing else.
pub(super) fn number(digits: &[u8]) -> Option<i64> {
    let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time that the forms of these arguments read in this text, with anything between them.
    fn read(arguments: &[&str], text: &str) -> Option<i64> {
        let mut clock = Clock::default();
        let mut rest = text.as_bytes();
        for argument in arguments {
            for form in forms(argument) {
                rest = &rest[clock.read(&form, rest)?..];
            }
            rest = rest.strip_prefix(b"|").unwrap_or(rest);
        }
        assert_eq!(rest.escape_ascii().to_string(), "");
        clock.microseconds(&TimeZone::UTC)
    }

    #[test]
    fn each_form_is_read() {
        const SECONDS: i64 = 971_211_336 * SECOND;
        let cases: [(&[&str], &str, i64); 14] = [
            (&[""], "10/Oct/2000:13:55:36 -0700", SECONDS),
            (&[""], "10/Oct/2000:23:25:36 +0230", SECONDS),
            (&["sec"], "971211336", SECONDS),
            (&["begin:msec"], "971211336789", SECONDS + 789_000),
            (&["end:usec"], "971211336789123", SECONDS + 789_123),
            (&["sec", "usec_frac"], "1796062834518123", 1_796_062_834_518_123),
            (&["", "msec_frac"], "10/Oct/2000:13:55:36 -0700|789", SECONDS + 789_000),
            (&["usec", ""], "971211336789123|10/Oct/2000:13:55:36 -0700", SECONDS + 789_123),
            (&["%Y-%m-%dT%H:%M:%S%z"], "2000-10-10T13:55:36-0700", SECONDS),
            (&["%d/%b/%Y %T", "msec_frac", "%z"], "10/Oct/2000 13:55:36|789|-0700", SECONDS + 789_000),
            (&["%F", "%T"], "2000-10-10|20:55:36", SECONDS),
            (&["%c"], "Tue Oct 10 20:55:36 2000", SECONDS),
            (&["%F %T %Z"], "2000-10-10 20:55:36 GMT", SECONDS),
            (&["%s"], "971211336", SECONDS),
        ];
        for (arguments, text, expected) in cases {
            assert_eq!(read(arguments, text), Some(expected), "{arguments:?} {text}");
        }
    }

    #[test]
    fn what_is_no_time_is_not_read() {
        let cases: [(&str, &str); 8] = [
            ("", "10/Okt/2000:13:55:36 -0700"),
            ("", "31/Feb/2000:13:55:36 -0700"),
            ("", "10/Oct/2000:13:55:36 00700"),
            ("", "10/Oct/2000:13:55"),
            ("", "\u{e9}0/Oct/2000:13:55:36 -070"),
            ("sec", "-"),
            ("msec_frac", "7"),
            ("%F", "yesterday"),
        ];
        for (argument, text) in cases {
            assert_eq!(read(&[argument], text), None, "{argument:?} {text}");
        }
    }

    #[test]
    fn a_time_without_a_date_is_none() {
        assert_eq!(read(&["%T"], "13:55:36"), None);
    }

    #[test]
    fn a_condition_leaves_a_dash() {
        let mut clock = Clock::default();
        assert_eq!(clock.read(&Form::Bracketed, b"- x"), Some(1));
        assert_eq!(clock.read(&Form::Bracketed, b"[10/Oct/2000:13:55:36 -0700] x"), Some(COMMON + 2));
        assert_eq!(clock.microseconds(&TimeZone::UTC), Some(971_211_336 * SECOND));
    }
}
