//! Prints to standard output and standard error.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Like `print!`, for a reader that may leave; see [`say`].
macro_rules! say {
    ($($part:tt)*) => { $crate::screen::say::say(format_args!($($part)*)) };
}

/// Like `println!`, for a reader that may leave; see [`say`].
macro_rules! say_line {
    ($($part:tt)*) => { $crate::screen::say::say(format_args!("{}\n", format_args!($($part)*))) };
}

/// Like `eprintln!`, for a reader that may leave, too (`2>&1 | head`).
macro_rules! warn_line {
    ($($part:tt)*) => { $crate::screen::say::warn(format_args!("{}\n", format_args!($($part)*))) };
}

/// Writes to standard error.
pub(crate) fn warn(text: fmt::Arguments<'_>) {
    // If this fails, there is nowhere left to report it.
    let _ = std::io::stderr().write_fmt(text);
}

/// Whether an error on standard output was reported. Once is enough: a full disk stays full.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Writes to standard output. `head` and pagers leave when they have seen enough, which is not reported; the current
/// work ends as usual, so that nothing stays behind.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    match std::io::stdout().write_fmt(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe && !REPORTED.swap(true, Ordering::Relaxed) => {
            warn_line!("cannot write the output: {error}");
        }
        _ => {}
    }
}
