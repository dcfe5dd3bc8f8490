//! Prints text for people. The reader of a pipe may have exited (`tsubame -V | head -1`). That is no reason to panic,
//! so clippy forbids `println!` in this crate, which would.

use std::io::Write as _;

/// Writes a text to standard output.
pub(crate) fn print(text: &str) {
    write(text.as_bytes());
}

/// Prints text of a configuration with its original bytes.
pub(crate) fn dump(text: &str) {
    write(&http::text::to_bytes(text));
}

fn write(bytes: &[u8]) {
    let mut output = std::io::stdout().lock();
    // There is nobody left to report an error to.
    let _ = output.write_all(bytes).and_then(|()| output.flush());
}

/// Writes a line to standard output.
pub(crate) fn line(text: &str) {
    print(&format!("{text}\n"));
}

/// Prints a line to standard error.
pub(crate) fn complain(text: &str) {
    // There is no other place to report an error.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
