//! Times in log lines: `%t` and `%{...}t`.

use std::cell::Cell;
use std::ffi::CString;
use std::io::Write as _;
use std::time::Duration;

use super::escape::number;

/// `%{...}t`.
#[derive(Debug)]
pub(super) struct TimeItem {
    /// The time the response was complete, instead of the time the request came in.
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
    /// Of strftime(3).
    Strftime(CString),
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
            // No line of a configuration contains a NUL.
            other => Form::Strftime(CString::new(http::text::to_bytes(other)).unwrap_or_default()),
        };
        TimeItem { end, form }
    }

    /// Whether it is a number, not a text.
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
                out.extend_from_slice(&http::date::rfc3339(time.as_secs() as i64, time.subsec_micros()));
            }
            Form::MilliFraction => padded(out, micros / 1000, 3),
            Form::MicroFraction => padded(out, micros, 6),
            Form::Strftime(format) => sys::time::strftime(out, format, time.as_secs() as i64),
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
        (second, text) = (seconds, http::date::log_date(seconds, sys::time::local_offset(seconds)));
        LAST.set((second, text));
    }
    out.push(b'[');
    out.extend_from_slice(&text);
    out.push(b']');
}

/// Appends a number of at least `width` digits.
fn padded(out: &mut Vec<u8>, value: u64, width: usize) {
    write!(out, "{value:0width$}").unwrap_or_else(|_| unreachable!("a vector takes everything"));
}

#[cfg(test)]
mod tests {
    use super::*;

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
