//! SIGINT, SIGTERM and SIGHUP during a measurement: it ends with an error, and everything it made is removed on the way
//! out. Further signals change nothing: `timeout` and terminals send them twice.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::machine::error::{Context as _, Error, Result};
use crate::machine::procfs;

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on [`check`] answers these signals.
pub(crate) fn catch() -> Result<()> {
    if ASKED.get().is_some() {
        return Ok(());
    }
    let asked = ASKED.get_or_init(Arc::default);
    // `nohup` lets a program continue without its terminal.
    let hang_up = (!procfs::ignores(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        flag::register(signal, Arc::clone(asked)).context(|| "catch SIGINT, SIGTERM and SIGHUP".to_owned())?;
    }
    Ok(())
}

/// Whether the user wants the laboratory to end.
pub(crate) fn is_asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Relaxed))
}

/// Returns an error if the user wants the laboratory to end; long work calls this again and again.
pub(crate) fn check() -> Result<()> {
    match is_asked() {
        true => Err(Error::new("it was interrupted")),
        false => Ok(()),
    }
}
