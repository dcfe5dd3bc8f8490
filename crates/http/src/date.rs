//! HTTP dates, and the time of the common log format. No time zones beyond an offset, no leap seconds, no libc.

/// Seconds in a day.
const DAY: i64 = 86_400;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The days from Thursday on, the weekday of 1 January 1970.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// The last second that has a year of four digits: 31 December 9999, 23:59:59.
const LAST: i64 = 253_402_300_799;

/// An IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7), as bytes for a response head.
pub type HttpDate = [u8; 29];

/// The IMF-fixdate of `seconds` since 1970; times outside the years 0000 to 9999 become the nearest in them.
#[must_use]
pub fn http_date(seconds: i64) -> HttpDate {
    let civil = Civil::of(seconds);
    let mut out = *b"Thu, 00 Jan 0000 00:00:00 GMT";
    out[..3].copy_from_slice(civil.weekday().as_bytes());
    digits(&mut out[5..7], civil.day);
    out[8..11].copy_from_slice(civil.month_name().as_bytes());
    digits(&mut out[12..16], civil.year);
    civil.write_time(&mut out[17..25]);
    out
}

/// `seconds` as in the access log, `[10/Oct/2000:13:55:36 -0700]` without the brackets, in a zone `offset_seconds` east
/// of Greenwich.
#[must_use]
pub fn log_date(seconds: i64, offset_seconds: i32) -> [u8; 26] {
    let civil = Civil::of(seconds.saturating_add(i64::from(offset_seconds)));
    let mut out = *b"00/Jan/0000:00:00:00 +0000";
    digits(&mut out[0..2], civil.day);
    out[3..6].copy_from_slice(civil.month_name().as_bytes());
    digits(&mut out[7..11], civil.year);
    civil.write_time(&mut out[12..20]);
    if offset_seconds < 0 {
        out[21] = b'-';
    }
    let minutes = offset_seconds.unsigned_abs() / 60;
    digits(&mut out[22..24], minutes / 60);
    digits(&mut out[24..26], minutes % 60);
    out
}

/// `seconds` and `micros` since 1970 in UTC, in the form of RFC 3339 section 5.6: `2026-11-22T09:33:34.123456Z`.
#[must_use]
pub fn rfc3339(seconds: i64, micros: u32) -> [u8; 27] {
    let civil = Civil::of(seconds);
    let mut out = *b"0000-00-00T00:00:00.000000Z";
    digits(&mut out[0..4], civil.year);
    digits(&mut out[5..7], civil.month);
    digits(&mut out[8..10], civil.day);
    civil.write_time(&mut out[11..19]);
    digits(&mut out[20..26], micros);
    out
}

/// Parses any of the three forms of RFC 9110 section 5.6.7 into seconds since 1970.
///
/// As lenient as Apache: the name of the day is not compared with the date, a day may have one digit, and anything may
/// follow (`GMT`, `; length=12`), except that an IMF-fixdate needs its zone. Two-digit years from 70 on are 19xx.
#[must_use]
pub fn parse_http_date(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim_start();
    let (first, rest) = text.split_once(' ')?;
    if first.ends_with(',') { parse_after_comma(rest) } else { parse_asctime(rest) }
}

/// Keeps the text of the current second, so that a busy server formats its Date field once a second.
#[derive(Clone, Debug)]
pub struct DateCache {
    second: i64,
    text: HttpDate,
}

impl Default for DateCache {
    fn default() -> Self {
        DateCache { second: 0, text: http_date(0) }
    }
}

impl DateCache {
    /// The IMF-fixdate of `now`, in seconds since 1970.
    pub fn text(&mut self, now: i64) -> &HttpDate {
        if now != self.second {
            *self = DateCache { second: now, text: http_date(now) };
        }
        &self.text
    }
}

/// `06 Nov 1994 08:49:37 GMT` or `06-Nov-94 08:49:37 GMT`.
fn parse_after_comma(text: &str) -> Option<i64> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    let (day, month, year) = match first.split_once('-') {
        Some((day, rest)) => {
            let (month, year) = rest.split_once('-')?;
            (day, month, short_year(year)?)
        }
        None => (first, words.next()?, number(words.next()?, 4, 4)?),
    };
    let time = words.next()?;
    words.next()?;
    seconds(year, month, day, time)
}

/// `Nov  6 08:49:37 1994`
fn parse_asctime(text: &str) -> Option<i64> {
    let mut words = text.split_ascii_whitespace();
    let (month, day, time, year) = (words.next()?, words.next()?, words.next()?, words.next()?);
    seconds(number(year, 4, 4)?, month, day, time)
}

fn short_year(text: &str) -> Option<u32> {
    match number(text, 2, 4)? {
        year @ 0..70 if text.len() == 2 => Some(2000 + year),
        year if text.len() == 2 => Some(1900 + year),
        year => Some(year),
    }
}

fn seconds(year: u32, month: &str, day: &str, time: &str) -> Option<i64> {
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? as u32 + 1;
    let day = number(day, 1, 2)?;
    let mut parts = time.split(':');
    let (hour, minute, second) =
        (number(parts.next()?, 2, 2)?, number(parts.next()?, 2, 2)?, number(parts.next()?, 2, 2)?);
    let is_valid = (1..=days_in(year, month)).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !is_valid || parts.next().is_some() {
        return None;
    }
    let time = hour * 3600 + minute * 60 + second;
    Some(days_from_civil(year, month, day) * DAY + i64::from(time))
}

/// A number of `least` to `most` decimal digits.
fn number(text: &str, least: usize, most: usize) -> Option<u32> {
    let is_number = (least..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn days_in(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A time split into its parts, in the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// 0 to 9999.
    pub year: u32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 86 399.
    pub second_of_day: u32,
    /// Since 1 January 1970.
    days: i64,
}

impl Civil {
    /// The date of `seconds` since 1970 in UTC, or in a zone if its offset is added; times outside the years 0000 to 9999
    /// become the nearest in them.
    #[must_use]
    pub fn of(seconds: i64) -> Civil {
        let first = days_from_civil(0, 1, 1) * DAY;
        let seconds = seconds.clamp(first, LAST);
        let days = seconds.div_euclid(DAY);
        // Days since 1 March of the year -400, so that leap days end years, and eras of 400 years are whole.
        let shifted = days + 719_468 + 146_097;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 - 400 + i64::from(month <= 2);
        Civil {
            year: year as u32,
            month: month as u32,
            day: day as u32,
            second_of_day: seconds.rem_euclid(DAY) as u32,
            days,
        }
    }

    /// The day of the week, counted from Sunday, which is 0.
    #[must_use]
    pub fn day_of_week(&self) -> u32 {
        // 1 January 1970 was a Thursday.
        (self.days + 4).rem_euclid(7) as u32
    }

    /// `Sun` to `Sat`.
    #[must_use]
    pub fn weekday(&self) -> &'static str {
        WEEKDAYS[self.days.rem_euclid(7) as usize]
    }

    /// `Jan` to `Dec`.
    #[must_use]
    pub fn month_name(&self) -> &'static str {
        MONTHS[self.month as usize - 1]
    }

    /// Writes `hh:mm:ss` over `out`, whose colons are in place.
    fn write_time(&self, out: &mut [u8]) {
        digits(&mut out[0..2], self.second_of_day / 3600);
        digits(&mut out[3..5], self.second_of_day / 60 % 60);
        digits(&mut out[6..8], self.second_of_day % 60);
    }
}

/// Days from 1 January 1970 to a date, negative before it.
fn days_from_civil(year: u32, month: u32, day: u32) -> i64 {
    let (month, day) = (i64::from(month), i64::from(day));
    // Years start in March, and 400 of them are added so that nothing is negative.
    let year = i64::from(year) + 400 - i64::from(month <= 2);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468 - 146_097
}

/// Writes `number` into all of `out`, with leading zeros.
fn digits(out: &mut [u8], number: u32) {
    let mut rest = number;
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let table: &[(i64, &str)] = &[
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (-62_167_219_200, "Sat, 01 Jan 0000 00:00:00 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (seconds, text) in table {
            assert_eq!(std::str::from_utf8(&http_date(*seconds)), Ok(*text));
            assert_eq!(parse_http_date(text.as_bytes()), Some((*seconds).min(LAST)), "{text}");
        }
        assert_eq!(&log_date(971_186_136, -7 * 3600), b"10/Oct/2000:06:55:36 -0700");
        assert_eq!(&log_date(971_186_136, 0), b"10/Oct/2000:13:55:36 +0000");
        assert_eq!(&log_date(971_186_136, 19_800), b"10/Oct/2000:19:25:36 +0530");
        assert_eq!(DateCache::default().text(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn every_day_comes_back() {
        for day in (-719_528..2_932_897).step_by(17) {
            let seconds = day * DAY + 12_345;
            assert_eq!(parse_http_date(&http_date(seconds)), Some(seconds));
            let civil = Civil::of(seconds);
            let named = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][civil.day_of_week() as usize];
            assert_eq!(civil.weekday(), named);
        }
    }

    #[test]
    fn parses_what_apache_parses() {
        let same = [
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Mon, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 08:49:37 GMT; length=12",
        ];
        for text in same {
            assert_eq!(parse_http_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        for (text, year) in [("69", 2069), ("70", 1970), ("099", 99), ("1970", 1970)] {
            let seconds = parse_http_date(format!("Sunday, 06-Nov-{text} 08:49:37 GMT").as_bytes());
            assert_eq!(seconds.map(|seconds| Civil::of(seconds).year), Some(year), "{text}");
        }
        for (year, is_leap) in [(1900, false), (1996, true), (1999, false), (2000, true)] {
            let seconds = parse_http_date(format!("Thu, 29 Feb {year} 08:49:37 GMT").as_bytes());
            assert_eq!(seconds.is_some(), is_leap, "{year}");
        }
        let none = [
            "",
            "junk",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
        ];
        for text in none {
            assert_eq!(parse_http_date(text.as_bytes()), None, "{text}");
        }
    }
}
