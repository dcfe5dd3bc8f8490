//! A terminal that does not show what is typed while something is drawn on it: a `^C` at the end of a line would move the cursor on,
//! and a line of what was drawn would stay.

use std::io::Stderr;

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// The terminal shows what is typed again when this is dropped.
#[derive(Debug)]
pub(crate) struct Hush(Option<Termios>);

impl Hush {
    /// From now on. Nothing happens where standard error is no terminal, or another program has it.
    pub(crate) fn new() -> Self {
        let before = tcgetattr(std::io::stderr()).ok();
        if let Some(before) = &before {
            let mut modes = before.clone();
            modes.local_modes.remove(LocalModes::ECHO);
            set(&std::io::stderr(), &modes);
        }
        Self(before)
    }
}

impl Drop for Hush {
    fn drop(&mut self) {
        self.0.iter().for_each(|before| set(&std::io::stderr(), before));
    }
}

/// Who does not have the terminal would be stopped for this.
fn set(terminal: &Stderr, modes: &Termios) {
    if tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()) {
        // What is drawn is not worth an error.
        let _ = tcsetattr(terminal, OptionalActions::Now, modes);
    }
}
