//! Times and sizes as a list shows them.

/// A time of this place, as `2026-01-02 03:04` or `02-Jan-2026 03:04`.
pub(super) fn date(modified: i128, old: bool) -> String {
    let seconds = modified.div_euclid(1_000_000_000) as i64;
    // `21/Nov/2026:20:38:24 +0000`
    let local = http::date::log_date(seconds, sys::time::local_offset(seconds));
    let text = String::from_utf8_lossy(&local);
    let (day, month, year, time) = (&text[..2], &text[3..6], &text[7..11], &text[12..17]);
    if old {
        return format!("{day}-{month}-{year} {time}");
    }
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let number = MONTHS.iter().position(|name| *name == month).map_or(0, |at| at + 1);
    format!("{year}-{number:02}-{day} {time}")
}
