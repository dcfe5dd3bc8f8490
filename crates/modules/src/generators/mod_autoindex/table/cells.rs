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

/// A size in four characters, as APR writes it: `973 ` bytes are the first that become `1.0K`.
pub(crate) fn size(size: Option<u64>) -> String {
    let Some(mut size) = size else { return "  - ".into() };
    if size < 973 {
        return format!("{size:3} ");
    }
    for unit in "KMGTPE".chars() {
        let rest = size & 1023;
        size >>= 10;
        if size >= 973 {
            continue;
        }
        if size < 9 || size == 9 && rest < 973 {
            let tenths = (rest * 5 + 256) / 512;
            let (whole, tenths) = if tenths >= 10 { (size + 1, 0) } else { (size, tenths) };
            return format!("{whole}.{tenths}{unit}");
        }
        return format!("{:3}{unit}", size + u64::from(rest >= 512));
    }
    "****".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_apr_writes_them() {
        let table = [
            (None, "  - "),
            (Some(0), "  0 "),
            (Some(972), "972 "),
            (Some(973), "1.0K"),
            (Some(1536), "1.5K"),
            (Some(10 * 1024 - 1), " 10K"),
            (Some(9 * 1024 + 972), "9.9K"),
            (Some(1024 * 972 + 512), "973K"),
            (Some(1024 * 1024), "1.0M"),
            (Some(u64::MAX), " 16E"),
        ];
        for (bytes, want) in table {
            assert_eq!(size(bytes), want, "{bytes:?}");
        }
    }
}
