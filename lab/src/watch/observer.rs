//! Threads that observe beside the one that draws.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use crate::machine::error::{Context as _, Result};

/// A thread that observes as long as its results are wanted. It is not waited for: an observation may take long.
pub(crate) fn spawn<T: Send + 'static>(sender: Sender<T>, work: impl FnOnce(Sender<T>) + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().spawn(move || work(sender));
    started.map(drop).context(|| "start a thread".to_owned())
}

/// Does something at regular intervals, skipping those that are past, until it fails.
pub(crate) fn rhythm(interval: Duration, first: Duration, mut act: impl FnMut() -> bool) {
    let mut due = Instant::now() + first;
    loop {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if !act() {
            return;
        }
        due = (due + interval).max(Instant::now());
    }
}
