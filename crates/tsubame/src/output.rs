//! What is printed for people. The other side of a pipe may have gone (`tsubame -V | head -1`): that is no reason to panic,
//! and clippy keeps this crate from `println!`, which would.

use std::io::Write as _;

/// Prints text.
pub(crate) fn print(text: &str) {
    write(text.as_bytes());
}

/// Prints what a configuration has, with the bytes that it has there.
pub(crate) fn dump(text: &str) {
    write(&http1::text::to_bytes(text));
}

fn write(bytes: &[u8]) {
    let mut output = std::io::stdout().lock();
    // Nobody is left to be told.
    let _ = output.write_all(bytes).and_then(|()| output.flush());
}

/// Prints a line.
pub(crate) fn line(text: &str) {
    print(&format!("{text}\n"));
}

/// Says a line on standard error.
pub(crate) fn complain(text: &str) {
    // Nowhere is left to complain to.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
