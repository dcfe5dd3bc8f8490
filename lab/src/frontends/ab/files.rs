//! The files of ab: percentiles as CSV (`-e`), all requests for gnuplot (`-g`).

use std::time::Duration;

use jiff::{SignedDuration, Zoned};

use crate::load::Record;

/// The time that each percentage of the requests did not exceed.
pub(super) fn csv(record: &Record) -> String {
    let mut out = "Percentage served,Time in ms\n".to_owned();
    for percent in 0..=100 {
        // If there are no requests, this is the shortest time.
        let share = f64::from(percent) / 100.0;
        out.push_str(&format!("{percent},{:.3}\n", record.total.milliseconds(share)));
    }
    out
}

/// One line for each response, the fastest first: when it began, and milliseconds to the connection, from there to its
/// end, in total, and to its first byte.
pub(super) fn gnuplot(record: &Record) -> String {
    let mut samples = record.samples.clone();
    samples.sort_by_key(|times| times.done - times.began);
    let (now, now_here) = (Zoned::now(), std::time::Instant::now());
    let milliseconds = |duration: Duration| (duration.as_micros() + 500) / 1000;
    let mut out = "starttime\tseconds\tctime\tdtime\tttime\twait\n".to_owned();
    for times in samples {
        let ago = SignedDuration::try_from(now_here - times.began).unwrap_or_default();
        let began = now.saturating_sub(ago);
        out.push_str(&format!(
            "{}\t{}\t{}\t{}\t{}\t{}\n",
            began.strftime("%a %b %d %H:%M:%S %Y"),
            began.timestamp().as_second(),
            milliseconds(times.connected - times.began),
            milliseconds(times.done - times.connected),
            milliseconds(times.done - times.began),
            milliseconds(times.first.saturating_duration_since(times.sent)),
        ));
    }
    out
}
