//! The progress of a long run: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of this many steps.
pub(crate) fn bar(length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {eta} left  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length as u64).with_style(style)
}

/// Announces the next step: in the bar, or line by line if there is no terminal.
pub(crate) fn announce(progress: &ProgressBar, text: &str) {
    if std::io::stderr().is_terminal() {
        progress.set_message(text.to_owned());
    } else {
        warn_line!("[{}/{}] {text}", progress.position() + 1, progress.length().unwrap_or(0));
    }
}
