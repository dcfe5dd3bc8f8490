//! Random choices among the values of a key.

/// One of several values separated by `|`.
pub(super) fn choice(value: &str) -> &str {
    choice_of(value.split('|').count()).and_then(|number| value.split('|').nth(number)).unwrap_or(value)
}

/// A random index below `count`; `None` if that is 0.
pub(super) fn choice_of(count: usize) -> Option<usize> {
    match count {
        0 | 1 => count.checked_sub(1),
        _ => Some((u64::from_le_bytes(sys::random::bytes()) % count as u64) as usize),
    }
}
