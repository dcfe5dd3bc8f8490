//! Errors of the system, as log lines show them.

use std::io;

/// A system error, in Apache's form before a message: `(13)Permission denied: `.
pub fn os_prefix(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    match error.raw_os_error() {
        Some(number) => format!("({number}){text}: "),
        None => format!("{text}: "),
    }
}
