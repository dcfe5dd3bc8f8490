//! Waiting for what must happen: with a deadline, never for a fixed time. The one place where a test may sleep.

use std::time::{Duration, Instant};

/// Everything that must happen does so within this time, on the slowest machine.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// The first and the longest pause between two looks. A long wait leaves the processor to what is waited for.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Asks again and again until there is an answer.
pub fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, ask).unwrap_or_else(|| panic!("waited in vain for: {what}"))
}

/// Asks until there is an answer or the time is over.
#[expect(clippy::disallowed_methods, reason = "between two looks a test does nothing else")]
pub fn within<T>(time: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + time;
    let mut pause = PAUSES.0;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 5 / 4).min(PAUSES.1);
    }
}
