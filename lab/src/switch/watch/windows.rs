//! The windows that are compared: the hours after Tsubame took over, and the same hours of the days before.

use jiff::{ToSpan as _, Zoned};

use crate::machine::error::{Error, Result};

/// The most days before that are kept: five weeks, for five days of one weekday.
pub(super) const DAYS_MAX: usize = 35;

/// How many days of the same weekday are enough to leave all others out.
const SAME_WEEKDAYS: usize = 3;

/// Days of a week.
const WEEK: usize = 7;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// The windows, from their first microsecond since 1970 to the one behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// The one after, then those before: the number is that of days.
    spans: Vec<(i64, i64)>,
    /// How many hours are meant, of which not all need have passed.
    hours: u32,
}

/// The days that are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Days {
    /// How many days before each of them is.
    pub(super) numbers: Vec<usize>,
    /// Whether all are of the weekday of the switch.
    pub(super) is_same_weekday: bool,
}

impl Windows {
    /// Those of so many hours from `since`, or until now.
    ///
    /// # Errors
    /// `since` has not come yet.
    pub(super) fn new(since: &Zoned, now: &Zoned, hours: u32) -> Result<Self> {
        let begin = since.timestamp().as_microsecond();
        let length = (now.timestamp().as_microsecond() - begin).min(i64::from(hours) * DAY / 24);
        if length <= 0 {
            let shown = since.strftime("%Y-%m-%d %H:%M");
            return Err(Error::new(format!("{shown} has not come yet, so there is nothing to compare")));
        }
        let mut spans = vec![(begin, begin + length)];
        for day in 1..=DAYS_MAX {
            // A day of the clock, which may have an hour more or less.
            let Ok(before) = since.checked_sub((day as i64).days()) else { break };
            let first = before.timestamp().as_microsecond();
            spans.push((first, (first + length).min(spans[day - 1].0)));
        }
        Ok(Self { spans, hours })
    }

    /// When Tsubame took over.
    pub(super) fn since(&self) -> i64 {
        self.spans[0].0
    }

    /// The begin of the earliest window.
    pub(super) fn earliest(&self) -> i64 {
        self.spans.last().map_or(0, |span| span.0)
    }

    /// The length of the window after, in minutes.
    pub(super) fn minutes(&self) -> f64 {
        (self.spans[0].1 - self.spans[0].0) as f64 / 60e6
    }

    /// How many hours are meant.
    pub(super) fn hours(&self) -> u32 {
        self.hours
    }

    /// Whether logs with this last line end long before the window after does.
    pub(super) fn is_beyond(&self, last_line: i64) -> bool {
        let (from, to) = self.spans[0];
        last_line < to - (to - from) / 10
    }

    /// The window of a moment: 0 is after, other numbers are days before.
    pub(super) fn of(&self, time: i64) -> Option<usize> {
        let day = usize::try_from((self.since() - time).max(0) / DAY).unwrap_or(usize::MAX);
        let near = day..=day.saturating_add(2);
        near.into_iter().find(|day| self.spans.get(*day).is_some_and(|(from, to)| (*from..*to).contains(&time)))
    }

    /// The days that logs hold whose first line is of this moment, and that have so many requests: without any, the logs of
    /// that day are not there.
    pub(super) fn held(&self, first_line: i64, requests: &[u64]) -> Days {
        // The first line need not come at once.
        let is_held = |(from, to): &(i64, i64)| first_line <= from + (to - from) / 10;
        let has_requests = |day: usize| requests.get(day).is_some_and(|count| *count > 0);
        let days = (1..self.spans.len()).filter(|day| is_held(&self.spans[*day]) && has_requests(*day));
        let numbers: Vec<usize> = days.collect();
        let same: Vec<usize> = numbers.iter().copied().filter(|day| day.is_multiple_of(WEEK)).collect();
        match same.len() >= SAME_WEEKDAYS {
            true => Days { numbers: same, is_same_weekday: true },
            false => Days { numbers, is_same_weekday: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::DateTime;
    use jiff::tz::TimeZone;

    use super::*;

    fn at(text: &str) -> Zoned {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a time zone");
        text.parse::<DateTime>().and_then(|time| time.to_zoned(berlin)).expect("a time")
    }

    fn moment(text: &str) -> i64 {
        at(text).timestamp().as_microsecond()
    }

    #[test]
    fn hours_are_those_of_the_clock() {
        // Summer time began on 31 March.
        let windows = Windows::new(&at("2024-04-02T22:15"), &at("2024-04-03T09:00"), 1).expect("windows");
        let cases = [
            ("2024-04-02T22:14:59", None),
            ("2024-04-02T22:15", Some(0)),
            ("2024-04-02T23:14:59", Some(0)),
            ("2024-04-02T23:15", None),
            ("2024-04-01T22:15", Some(1)),
            ("2024-03-30T22:30", Some(3)),
            ("2024-03-30T21:30", None),
            ("2024-03-20T23:00", Some(13)),
            ("2023-03-20T23:00", None),
        ];
        for (text, expected) in cases {
            assert_eq!(windows.of(moment(text)), expected, "{text}");
        }
        assert!((windows.minutes() - 60.0).abs() < 1e-9);
        assert!(windows.is_beyond(moment("2024-04-02T23:00")) && !windows.is_beyond(moment("2024-04-02T23:10")));
    }

    #[test]
    fn a_window_ends_now_and_before_the_next_one() {
        let windows = Windows::new(&at("2024-04-02T22:15"), &at("2024-04-02T22:25"), 1).expect("windows");
        assert_eq!(windows.of(moment("2024-04-01T22:24")), Some(1));
        assert_eq!(windows.of(moment("2024-04-01T22:26")), None);
        // A day of 23 hours.
        let day = Windows::new(&at("2024-04-01T00:00"), &at("2024-04-09T00:00"), 24).expect("windows");
        assert_eq!(day.of(moment("2024-03-31T23:59")), Some(1));
        assert_eq!(day.of(moment("2024-04-01T00:00")), Some(0));
        assert!(Windows::new(&at("2024-04-02T22:15"), &at("2024-04-02T22:15"), 1).is_err());
    }

    #[test]
    fn three_days_of_the_weekday_are_enough() {
        let windows = Windows::new(&at("2024-06-02T22:15"), &at("2024-06-03T22:15"), 1).expect("windows");
        let held = |first: &str| windows.held(moment(first), &[1; DAYS_MAX + 1]);
        assert_eq!(held("2024-05-30T22:17").numbers, [1, 2, 3]);
        assert_eq!(held("2024-05-30T22:45").numbers, [1, 2]);
        assert_eq!(held("2024-05-13T00:00").numbers.len(), 20);
        assert_eq!(held("2024-05-12T00:00"), Days { numbers: vec![7, 14, 21], is_same_weekday: true });
        assert!(held("2024-06-02T22:15").numbers.is_empty());
        assert_eq!(windows.held(moment("2024-01-01T00:00"), &[9, 0, 1, 0, 5]).numbers, [2, 4]);
    }
}
