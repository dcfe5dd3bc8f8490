//! Messages to the user who starts a server: to standard error, to the file of `-E`, or to the process that started a
//! daemon, which waits until the daemon serves.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use conf::Level;
use runtime::log::Log;

use crate::cli::{self, Options};

/// The byte that the daemon sends when it serves; no message contains it.
pub(crate) const SERVES: u8 = 0;

/// The destination of messages until the server serves: a pipe to the process that started the daemon, or the original
/// standard error, which the error log replaces. `None`: the server serves, or has not begun to start.
static STARTER: Mutex<Option<Arc<OwnedFd>>> = Mutex::new(None);

/// Writes a line to standard error, or to the `-E` file. A relative name starts at `ServerRoot`, as in Apache.
pub(crate) fn print(options: &Options, text: &str) {
    let file = options.errors.as_ref().and_then(|name| {
        let path = conf::paths::join(&cli::server_root(options), name);
        std::fs::OpenOptions::new().create(true).append(true).open(path).ok()
    });
    match file {
        None => print_line(text),
        Some(mut file) => {
            use std::io::Write;
            // There is no other place to report an error.
            let _ = writeln!(file, "{text}");
        }
    }
}

/// From now on, sends the messages of this process to `starter`.
pub(crate) fn redirect(starter: Option<OwnedFd>) {
    *lock() = starter.map(Arc::new);
    runtime::log::set(Arc::new(StartLog(None)));
}

/// Reports that the server serves, and stops sending messages.
pub(crate) fn serving(detached: bool) {
    if let Some(starter) = lock().take().filter(|_| detached) {
        // The process that started it may have exited.
        let _ = sys::file::write(&*starter, &[SERVES]);
    }
}

/// Writes a line to the destination of messages.
fn print_line(line: &str) {
    let line = format!("{line}\n");
    // There is no other place to report an error.
    let _ = match lock().clone() {
        Some(starter) => sys::file::write(&*starter, line.as_bytes()).map(drop),
        None => io::stderr().write_all(line.as_bytes()),
    };
}

fn lock() -> std::sync::MutexGuard<'static, Option<Arc<OwnedFd>>> {
    STARTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The log of a starting server: errors before it serves also go to where it was started.
pub(crate) struct StartLog(pub(crate) Option<Arc<dyn Log>>);

impl Log for StartLog {
    fn enabled(&self, module: &str, level: Level) -> bool {
        self.0.as_ref().map_or(level <= Level::Warn, |log| log.enabled(module, level))
    }

    fn write(&self, module: &str, level: Level, text: fmt::Arguments<'_>) {
        let Some(log) = &self.0 else { return print_line(&text.to_string()) };
        log.write(module, level, text);
        if level <= Level::Error && lock().is_some() {
            print_line(&text.to_string());
        }
    }

    fn begun(&self) {
        *lock() = None;
    }
}
