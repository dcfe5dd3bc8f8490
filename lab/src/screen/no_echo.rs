//! Stops a terminal from showing typed characters while something is drawn on it: a `^C` at the end of a line would
//! move the cursor on, and a line of the drawing would stay.

use std::io::Stderr;

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// Dropping this makes the terminal show typed characters again.
#[derive(Debug)]
pub(crate) struct NoEcho(Option<Termios>);

impl NoEcho {
    /// Takes effect at once. Does nothing if standard error is no terminal, or another program has it.
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

impl Drop for NoEcho {
    fn drop(&mut self) {
        self.0.iter().for_each(|before| set(&std::io::stderr(), before));
    }
}

/// A process in the background would be stopped for this.
fn set(terminal: &Stderr, modes: &Termios) {
    if tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()) {
        // A failed drawing is not worth an error.
        let _ = tcsetattr(terminal, OptionalActions::Now, modes);
    }
}
