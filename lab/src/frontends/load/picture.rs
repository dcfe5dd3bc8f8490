//! The results of a load, drawn for a terminal of 80 columns or fewer: how often each latency occurred, and latencies
//! over time.

use std::fmt::{Result, Write as _};

use crate::load::Record;
use crate::load::timeline::Interval;
use crate::screen::blocks;
use crate::screen::style;
use crate::screen::table::screen_width;

/// The bounds of rows, by the number of rows per decade: the Renard series, rounded to short numbers.
const SERIES: [&[f64]; 3] =
    [&[1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0], &[1.0, 1.6, 2.5, 4.0, 6.3], &[1.0, 2.0, 5.0]];
/// More rows than this hide what they show.
const ROWS: usize = 16;
/// The widest bar, and the widest plot, in characters.
const BAR: usize = 30;
const PLOT: usize = 64;
/// The width of the text beside them, and the narrowest bar and plot.
const BESIDE_BAR: usize = 50;
const BESIDE_PLOT: usize = 16;
const NARROWEST: usize = 4;
/// The assumed width of a terminal that does not report one.
const SCREEN: usize = 80;
/// The height of a plot, in lines.
const HEIGHT: usize = 4;
/// The percentiles marked beside the bars.
const MARKS: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// How often each latency occurred: a row for each step of a logarithmic scale, so that both the fastest and the
/// slowest responses are visible.
pub(super) fn distribution(out: &mut String, record: &Record) -> Result {
    distribution_within(screen_width().unwrap_or(SCREEN), out, record)
}

fn distribution_within(screen: usize, out: &mut String, record: &Record) -> Result {
    let wide = screen.saturating_sub(BESIDE_BAR).clamp(NARROWEST, BAR);
    let all = &record.total.0;
    let bounds = bounds(all.min(), all.max());
    let mut counts = vec![0; bounds.len()];
    let row = |value: u64| bounds.partition_point(|bound| *bound <= value).saturating_sub(1);
    for value in all.iter_recorded() {
        counts[row(value.value_iterated_to())] += value.count_at_value();
    }
    let highest = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    let milliseconds = |micros: u64| micros as f64 / 1000.0;
    writeln!(out, "{}", style::heading("Distribution"))?;
    writeln!(out, "  {:>9}  {:wide$}  {:>10}  {:>9}", "from ms", "", "responses", "in all")?;
    let mut sum = 0;
    for (index, count) in counts.iter().enumerate() {
        sum += count;
        let marks = MARKS.iter().filter(|(_, share)| row(all.value_at_quantile(*share)) == index);
        let marks: Vec<&str> = marks.map(|(name, _)| *name).collect();
        let text = format!(
            "  {:>9.3}  {}  {count:>10}  {:>7.3} %  {}",
            milliseconds(bounds[index]),
            blocks::bar(*count as f64 / highest, wide),
            sum as f64 / all.len() as f64 * 100.0,
            marks.join(" "),
        );
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// The bounds of the rows of a distribution, in microseconds: as fine as [`ROWS`] allows.
fn bounds(least: u64, most: u64) -> Vec<u64> {
    let of = |series: &[f64]| {
        let powers = (0..10).map(|power| 10_f64.powi(power));
        let steps = powers.flat_map(|power| series.iter().map(move |step| (step * power).round() as u64));
        let mut all: Vec<u64> = std::iter::once(0).chain(steps).collect();
        all.dedup();
        let first = all.partition_point(|bound| *bound <= least).saturating_sub(1);
        let last = all.partition_point(|bound| *bound <= most).max(first + 1);
        all[first..last].to_vec()
    };
    let mut rows = SERIES.map(of).into_iter();
    rows.find(|rows| rows.len() <= ROWS).unwrap_or_else(|| of(SERIES[SERIES.len() - 1]))
}

/// Responses, median and 99th percentile in each interval, if there are enough of them.
pub(super) fn over_time(out: &mut String, record: &Record) -> Result {
    over_time_within(screen_width().unwrap_or(SCREEN), out, record)
}

fn over_time_within(screen: usize, out: &mut String, record: &Record) -> Result {
    let wide = screen.saturating_sub(BESIDE_PLOT).clamp(NARROWEST, PLOT);
    let length = record.timeline.length;
    // The last interval is rarely complete.
    let whole = (record.elapsed.as_nanos() / length.as_nanos()) as usize;
    let intervals = &record.timeline.intervals[..whole.min(record.timeline.intervals.len())];
    if intervals.len() < 3 {
        return Ok(());
    }
    let per_second = |one: &Interval| (one.responses as f64 / length.as_secs_f64()) as u64;
    let quantile = |share: f64| move |one: &Interval| one.total.value_at_quantile(share);
    let time = |micros: u64| format!("{:.3}", micros as f64 / 1000.0);
    plot(out, wide, "Responses per second", &intervals.iter().map(per_second).collect::<Vec<_>>(), |count| {
        count.to_string()
    })?;
    plot(out, wide, "p50, ms", &intervals.iter().map(quantile(0.5)).collect::<Vec<_>>(), time)?;
    plot(out, wide, "p99, ms", &intervals.iter().map(quantile(0.99)).collect::<Vec<_>>(), time)?;
    let seconds = (length * intervals.len() as u32).as_secs_f64();
    let width = blocks::fit(&vec![0; intervals.len()], wide).len();
    writeln!(out, "{:>12} 0{:>width$} s", "", seconds, width = width.saturating_sub(2).max(1))
}

/// A plot over an axis that begins at 0, with the highest value at its top.
fn plot(out: &mut String, wide: usize, name: &str, values: &[u64], written: impl Fn(u64) -> String) -> Result {
    let highest = values.iter().copied().max().unwrap_or(0);
    let rows = blocks::plot(&blocks::fit(values, wide), HEIGHT);
    writeln!(out, "\n{}", style::heading(name))?;
    for (index, row) in rows.iter().enumerate() {
        let label = match index {
            0 => written(highest),
            _ if index + 1 == rows.len() => "0".to_owned(),
            _ => String::new(),
        };
        writeln!(out, "{}", format!("{label:>11} │{row}").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn rows_are_as_fine_as_may_be() {
        assert_eq!(bounds(100, 199), [100, 125, 160]);
        assert_eq!(bounds(0, 0), [0]);
        assert_eq!(bounds(90, 5_000), [63, 100, 160, 250, 400, 630, 1000, 1600, 2500, 4000]);
        assert!(bounds(0, 3_600_000_000).len() <= 30);
    }

    #[test]
    fn a_picture_fits_a_terminal_and_shows_every_response() {
        let mut record = Record::new(Instant::now());
        for (micros, times) in [(120, 900), (900, 95), (2_000_000, 4), (59_000_000, 1)] {
            (0..times).for_each(|_| record.total.record(Duration::from_micros(micros)));
        }
        record.responses = record.total.0.len();
        record.elapsed = Duration::from_millis(200_250);
        for second in 0..=200 {
            let interval = record.timeline.at(Duration::from_secs(second));
            interval.responses = second + 1;
            interval.total.record(second * 1000).unwrap();
        }
        let mut out = String::new();
        let drawn = |screen: usize, out: &mut String| {
            distribution_within(screen, out, &record).unwrap();
            over_time_within(screen, out, &record).unwrap();
        };
        let mut narrow = String::new();
        drawn(60, &mut narrow);
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        drawn(80, &mut out);
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
        let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
        let full = "█".repeat(BAR);
        assert!(rows.contains(&vec!["0.100", &full, "900", "90.000", "%", "p50", "p90"]), "{out}");
        assert!(rows.contains(&vec!["50000.000", "▏", "1", "100.000", "%"]), "{out}");
        assert!(rows.iter().any(|row| row.starts_with(&["400", "│"])), "the last interval is not whole: {out}");
        assert!(rows.last().unwrap().join(" ").ends_with("0 200 s"), "{out}");
    }
}
