//! The history on the live page: ten minutes of counters, URLs and virtual hosts of the last minutes, the last lines of
//! the error logs.

use std::fmt::Write;

use runtime::recent::Line;
use runtime::scoreboard::{Moment, VisitStats};
use serde_json::{Value, json};

/// The maximum numbers of URLs in each of the two orders, and of virtual hosts and lines.
const URLS: usize = 12;
const HOSTS: usize = 20;
const LINES: usize = 20;

/// The last ten minutes as JSON: a list of lists of numbers, oldest first. Each list holds the increments to the one
/// before, without the zeros at its end, so a quiet second takes ten bytes.
pub(super) fn history(moments: &[Moment]) -> String {
    let mut out = String::from("[");
    let mut before = Moment::default().words();
    for (index, moment) in moments.iter().enumerate() {
        let words = moment.words();
        let used = words.iter().zip(&before).rposition(|(now, then)| now != then).map_or(0, |last| last + 1);
        out.push_str(if index == 0 { "[" } else { ",[" });
        for (place, (now, then)) in words.iter().zip(&before).take(used).enumerate() {
            // Values may decrease; the difference of two counters fits.
            let _ = write!(out, "{}{}", if place == 0 { "" } else { "," }, now.wrapping_sub(*then) as i64);
        }
        out.push(']');
        before = words;
    }
    out.push(']');
    out
}

/// The URLs with the most requests, and those with the most time.
pub(super) fn urls(mut places: Vec<VisitStats>) -> Vec<Value> {
    places.sort_by_key(|place| std::cmp::Reverse((place.time, place.requests)));
    let rest = places.split_off(places.len().min(URLS));
    let mut often = rest;
    often.sort_by_key(|place| std::cmp::Reverse(place.requests));
    places.into_iter().chain(often.into_iter().take(URLS)).map(|place| figures(&place)).collect()
}

/// The virtual hosts with the most requests.
pub(super) fn hosts(mut places: Vec<VisitStats>) -> Vec<Value> {
    places.sort_by_key(|place| std::cmp::Reverse(place.requests));
    places.iter().take(HOSTS).map(figures).collect()
}

fn figures(place: &VisitStats) -> Value {
    json!({
        "host": place.host,
        "path": place.path,
        "requests": place.requests,
        "failures": place.failures,
        "scripts": place.scripts,
        "time": place.time,
        "slowest": place.slowest,
    })
}

/// The last lines of the error logs.
pub(super) fn lines(lines: &[Line]) -> Vec<Value> {
    let shown = |line: &Line| json!({"at": line.at / 1000, "level": line.level.name(), "text": line.text});
    lines.iter().take(LINES).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_reported_as_differences() {
        assert_eq!(history(&[]), "[]");
        let first = Moment { at: 5_000_000, accesses: 3, connections: 2, ..Moment::default() };
        let quiet = Moment { at: 6_000_000, ..first };
        let fewer = Moment { at: 7_000_000, connections: 1, ..first };
        assert_eq!(history(&[first, quiet, fewer]), "[[5000000,3,0,0,0,2],[1000000],[1000000,0,0,0,0,-1]]");
    }

    #[test]
    fn both_orders_have_their_first() {
        let place = |path: usize, requests, time| VisitStats {
            path: path.to_string(),
            requests,
            time,
            ..VisitStats::default()
        };
        let slow = (0..URLS).map(|number| place(number, 1, 1_000_000));
        let often = (URLS..3 * URLS).map(|number| place(number, 1000 + number as u64, 10));
        let urls = urls(slow.chain(often).collect());
        assert_eq!(urls.len(), 2 * URLS);
        assert!(urls[..URLS].iter().all(|url| url["time"] == 1_000_000));
        assert!(urls[URLS..].iter().all(|url| url["requests"].as_u64() >= Some(1000 + 2 * URLS as u64)));
    }
}
