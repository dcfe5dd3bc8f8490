//! Points of time in log lines: `%t` and `%{...}t`.

use std::cell::Cell;
use std::io::Write as _;
use std::time::Duration;

use super::escape::number;

/// `%{...}t`.
#[derive(Debug)]
pub(super) struct TimeItem {
    /// When the answer was complete, instead of when the request came in.
    end: bool,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Clf,
    Seconds,
    Millis,
    Micros,
    MilliFraction,
    MicroFraction,
    /// Our own: in UTC, with microseconds.
    Rfc3339,
    Strftime(Vec<Part>),
}

#[derive(Debug)]
enum Part {
    Text(Vec<u8>),
    /// A conversion of strftime(3) with glibc's flags (`_`, `-`, `0`, `^`, `#`) and width.
    Conversion {
        letter: u8,
        pad: Option<u8>,
        case: Option<Case>,
        width: usize,
    },
}

#[derive(Clone, Copy, Debug)]
enum Case {
    Upper,
    /// `#`: the other one.
    Opposite,
}

impl TimeItem {
    pub(super) fn parse(text: &str) -> TimeItem {
        let (end, text) = match text.strip_prefix("end:") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("begin:").unwrap_or(text)),
        };
        let form = match text {
            "" => Form::Clf,
            "sec" => Form::Seconds,
            "msec" => Form::Millis,
            "usec" => Form::Micros,
            "msec_frac" => Form::MilliFraction,
            "usec_frac" => Form::MicroFraction,
            "rfc3339" => Form::Rfc3339,
            other => Form::Strftime(parts(&http1::text::to_bytes(other))),
        };
        TimeItem { end, form }
    }

    /// Whether it is a number, and no text.
    pub(super) fn is_number(&self) -> bool {
        matches!(self.form, Form::Seconds | Form::Millis | Form::Micros)
    }

    /// Writes the time of a request that came in at `begin` since 1970 and took `duration`.
    pub(super) fn write(&self, out: &mut Vec<u8>, begin: Duration, duration: Duration) {
        let time = if self.end { begin + duration } else { begin };
        let micros = u64::from(time.subsec_micros());
        match &self.form {
            Form::Clf => clf(out, time.as_secs() as i64),
            Form::Seconds => _ = number(out, time.as_secs()),
            Form::Millis => _ = number(out, time.as_millis() as u64),
            Form::Micros => _ = number(out, time.as_micros() as u64),
            Form::Rfc3339 => {
                out.extend_from_slice(&http1::date::rfc3339(time.as_secs() as i64, time.subsec_micros()));
            }
            Form::MilliFraction => padded(out, micros / 1000, 3, b'0'),
            Form::MicroFraction => padded(out, micros, 6, b'0'),
            Form::Strftime(parts) => {
                let local = Local::of(time.as_secs() as i64);
                parts.iter().for_each(|part| part.write(out, &local));
            }
        }
    }
}

/// `[10/Oct/2000:13:55:36 -0700]`; made once a second in each thread.
pub(super) fn clf(out: &mut Vec<u8>, seconds: i64) {
    thread_local! {
        static LAST: Cell<(i64, [u8; 26])> = const { Cell::new((i64::MIN, [0; 26])) };
    }
    let (mut second, mut text) = LAST.get();
    if second != seconds {
        (second, text) = (seconds, http1::date::log_date(seconds, sys::time::local_offset(seconds)));
        LAST.set((second, text));
    }
    out.push(b'[');
    out.extend_from_slice(&text);
    out.push(b']');
}

fn parts(mut rest: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = Vec::new();
    while let Some((&first, after)) = rest.split_first() {
        let conversion = if first == b'%' { conversion(after) } else { None };
        match conversion {
            Some((part, used)) => {
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(part);
                rest = &after[used..];
            }
            // What is no conversion stands for itself.
            None => {
                literal.push(first);
                rest = after;
            }
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Text(literal));
    }
    parts
}

fn conversion(text: &[u8]) -> Option<(Part, usize)> {
    let (mut pad, mut case, mut width, mut at) = (None, None, 0usize, 0);
    while let Some(flag @ (b'_' | b'-' | b'0' | b'^' | b'#')) = text.get(at) {
        match flag {
            b'^' => case = Some(Case::Upper),
            b'#' => case = Some(Case::Opposite),
            pad_flag => pad = Some(*pad_flag),
        }
        at += 1;
    }
    while let Some(digit @ b'0'..=b'9') = text.get(at) {
        // A line is not a place for pages of zeros.
        width = (width * 10 + usize::from(digit - b'0')).min(WIDTH_MAX);
        at += 1;
    }
    // Alternative forms are those of other locales.
    if matches!(text.get(at), Some(b'E' | b'O')) {
        at += 1;
    }
    let letter = *text.get(at)?;
    b"aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%"
        .contains(&letter)
        .then_some((Part::Conversion { letter, pad, case, width }, at + 1))
}

/// The widest field of a time, in bytes.
const WIDTH_MAX: usize = 64;

/// A moment in the local time zone.
struct Local {
    /// Seconds since 1970.
    moment: i64,
    offset: i32,
    year: i64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    /// From Sunday on.
    weekday: u64,
    /// From 0 on.
    yearday: u64,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Local {
    fn of(moment: i64) -> Local {
        Local::at(moment, sys::time::local_offset(moment))
    }

    fn at(moment: i64, offset: i32) -> Local {
        let seconds = moment + i64::from(offset);
        let days = seconds.div_euclid(86_400);
        let of_day = seconds.rem_euclid(86_400) as u64;
        let (mut year, mut yearday) = (1970 + days.div_euclid(366), 0);
        // The estimate is early by a year per century and a half at most.
        loop {
            let first = first_day(year);
            if days < first_day(year + 1) {
                yearday += (days - first) as u64;
                break;
            }
            year += 1;
        }
        let (mut month, mut day) = (0, yearday);
        while day >= days_of(month, year) {
            day -= days_of(month, year);
            month += 1;
        }
        Local {
            moment,
            offset,
            year,
            month,
            day: day + 1,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            weekday: (days + 4).rem_euclid(7) as u64,
            yearday,
        }
    }

    /// Year and number of the ISO 8601 week.
    fn week(&self) -> (i64, u64) {
        // The week belongs to the year of its Thursday.
        let thursday = self.yearday as i64 + 3 - (self.weekday as i64 + 6) % 7;
        let length = |year| first_day(year + 1) - first_day(year);
        if thursday < 0 {
            (self.year - 1, ((thursday + length(self.year - 1)) / 7 + 1) as u64)
        } else if thursday >= length(self.year) {
            (self.year + 1, 1)
        } else {
            (self.year, (thursday / 7 + 1) as u64)
        }
    }

    fn hour12(&self) -> u64 {
        (self.hour + 11) % 12 + 1
    }
}

/// The number of a year's first day, from 1 January 1970 on.
fn first_day(year: i64) -> i64 {
    let before = year - 1;
    365 * (year - 1970) + (before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400)) - 477
}

fn days_of(month: u64, year: i64) -> u64 {
    match month {
        1 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

impl Part {
    fn write(&self, out: &mut Vec<u8>, t: &Local) {
        let (letter, pad, case, width) = match self {
            Part::Text(text) => return out.extend_from_slice(text),
            Part::Conversion { letter, pad, case, width } => (*letter, *pad, *case, *width),
        };
        if let Some((value, digits, fill)) = numeric(letter, t) {
            return match pad {
                Some(b'-') => _ = number(out, value),
                Some(b'_') => padded(out, value, digits.max(width), b' '),
                Some(_) => padded(out, value, digits.max(width), b'0'),
                None => padded(out, value, digits.max(width), if width > digits { b'0' } else { fill }),
            };
        }
        let mut text = text(letter, t);
        match case {
            Some(Case::Opposite) if matches!(letter, b'Z' | b'p') => text.make_ascii_lowercase(),
            Some(_) => text.make_ascii_uppercase(),
            None => {}
        }
        let fill = if pad == Some(b'0') { b'0' } else { b' ' };
        out.resize(out.len() + width.saturating_sub(text.len()), fill);
        out.extend_from_slice(text.as_bytes());
    }
}

/// The value of a conversion that is a number, its digits, and what fills it up.
fn numeric(letter: u8, t: &Local) -> Option<(u64, usize, u8)> {
    let year = |year: i64| year.unsigned_abs();
    Some(match letter {
        b'C' => (year(t.year) / 100, 2, b'0'),
        b'd' => (t.day, 2, b'0'),
        b'e' => (t.day, 2, b' '),
        b'g' => (year(t.week().0) % 100, 2, b'0'),
        b'G' => (year(t.week().0), 1, b'0'),
        b'H' => (t.hour, 2, b'0'),
        b'I' => (t.hour12(), 2, b'0'),
        b'j' => (t.yearday + 1, 3, b'0'),
        b'k' => (t.hour, 2, b' '),
        b'l' => (t.hour12(), 2, b' '),
        b'm' => (t.month + 1, 2, b'0'),
        b'M' => (t.minute, 2, b'0'),
        b's' => (t.moment.unsigned_abs(), 1, b'0'),
        b'S' => (t.second, 2, b'0'),
        b'u' => ((t.weekday + 6) % 7 + 1, 1, b'0'),
        b'U' => ((t.yearday + 7 - t.weekday) / 7, 2, b'0'),
        b'V' => (t.week().1, 2, b'0'),
        b'w' => (t.weekday, 1, b'0'),
        b'W' => ((t.yearday + 7 - (t.weekday + 6) % 7) / 7, 2, b'0'),
        b'y' => (year(t.year) % 100, 2, b'0'),
        b'Y' => (year(t.year), 1, b'0'),
        _ => return None,
    })
}

/// The value of a conversion that is a text, in the C locale.
fn text(letter: u8, t: &Local) -> String {
    let (day, month) = (DAYS[t.weekday as usize], MONTHS[t.month as usize]);
    let Local { year, hour, minute, second, .. } = *t;
    let clock = format!("{hour:02}:{minute:02}:{second:02}");
    let noon = if hour < 12 { "AM" } else { "PM" };
    match letter {
        b'a' => day[..3].into(),
        b'A' => day.into(),
        b'b' | b'h' => month[..3].into(),
        b'B' => month.into(),
        b'c' => format!("{} {} {:2} {clock} {year}", &day[..3], &month[..3], t.day),
        b'D' | b'x' => format!("{:02}/{:02}/{:02}", t.month + 1, t.day, year % 100),
        b'F' => format!("{year}-{:02}-{:02}", t.month + 1, t.day),
        b'n' => "\n".into(),
        b'p' => noon.into(),
        b'P' => noon.to_ascii_lowercase(),
        b'r' => format!("{:02}:{minute:02}:{second:02} {noon}", t.hour12()),
        b'R' => format!("{hour:02}:{minute:02}"),
        b't' => "\t".into(),
        b'T' | b'X' => clock,
        b'z' => {
            let minutes = t.offset.unsigned_abs() / 60;
            format!("{}{:02}{:02}", if t.offset < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
        }
        b'Z' => sys::time::local_zone(t.moment),
        _ => "%".into(),
    }
}

/// Appends a number of at least `width` characters.
fn padded(out: &mut Vec<u8>, value: u64, width: usize, fill: u8) {
    match fill {
        b'0' => write!(out, "{value:0width$}"),
        _ => write!(out, "{value:width$}"),
    }
    .unwrap_or_else(|_| unreachable!("a vector takes everything"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strftime(format: &str, moment: i64, offset: i32) -> String {
        let local = Local::at(moment, offset);
        let mut out = Vec::new();
        parts(format.as_bytes()).iter().for_each(|part| part.write(&mut out, &local));
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn conversions_as_measured() {
        let format = "%a %A %b %B %c %C %d %D %e %F %g %G %h %H %I %j %k %l %m %M %n %p %P %r %R %s %S %t %T %u %U %V %w %W %x %X %y %Y %% %E %Q %Ey %Od %_d %-d %^a";
        let want = "Sat Saturday Nov November Sat Nov 21 21:41:16 2026 20 21 11/21/26 21 2026-11-21 26 2026 Nov 21 09 325 21  9 11 41 \n PM pm 09:41:16 PM 21:41 1795297276 16 \t 21:41:16 6 46 47 6 46 11/21/26 21:41:16 26 2026 % %E %Q 26 21 21 21 SAT";
        assert_eq!(strftime(format, 1_795_297_276, 0), want);
        assert_eq!(
            strftime("%^a|%3N|%#a %05d %5d %_5d %:z %z", 1_795_297_276, 0),
            "SAT|%3N|SAT 00021 00021    21 %:z +0000"
        );
        assert_eq!(strftime("%T %z", 1_795_297_276, -12_600), "18:11:16 -0330");
        assert_eq!(strftime("%s%usec %S.msec_frac %", 1_795_297_276, 0), "17952972766sec 16.msec_frac %");
    }

    #[test]
    fn weeks_and_leap_years() {
        let table = [
            (946_684_800, "2000-01-01 6 52 1999 001"),
            (951_782_400, "2000-02-29 2 09 2000 060"),
            (1_230_768_000, "2009-01-01 4 01 2009 001"),
            (1_262_304_000, "2010-01-01 5 53 2009 001"),
            (1_356_912_000, "2012-12-31 1 01 2013 366"),
            (0, "1970-01-01 4 01 1970 001"),
            (4_107_542_400, "2100-03-01 1 09 2100 060"),
        ];
        for (moment, want) in table {
            assert_eq!(strftime("%F %u %V %G %j", moment, 0), want);
        }
    }

    #[test]
    fn tokens_stand_alone() {
        let at = Duration::new(1_795_297_276, 7_517_000);
        let write = |text: &str| {
            let mut out = Vec::new();
            TimeItem::parse(text).write(&mut out, at, Duration::from_millis(1500));
            String::from_utf8_lossy(&out).into_owned()
        };
        let table = [
            ("sec", "1795297276"),
            ("msec", "1795297276007"),
            ("usec", "1795297276007517"),
            ("msec_frac", "007"),
            ("usec_frac", "007517"),
            ("begin:msec_frac", "007"),
            ("end:msec_frac", "507"),
            ("end:sec", "1795297277"),
            ("rfc3339", "2026-11-21T21:41:16.007517Z"),
            ("end:rfc3339", "2026-11-21T21:41:17.507517Z"),
            ("SEC", "SEC"),
            ("Begin:x", "Begin:x"),
        ];
        for (text, want) in table {
            assert_eq!(write(text), want, "{text}");
        }
        assert_eq!((write("").len(), write("end:").len()), (28, 28));
    }
}
