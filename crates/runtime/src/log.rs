//! The error log, as code outside the server uses it.

use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use conf::Level;

/// The destination of messages. The server implements it over `ErrorLog` and `LogLevel` of the main server.
pub trait Log: Send + Sync {
    /// Whether a message of that module and level would be written.
    fn enabled(&self, module: &str, level: Level) -> bool;
    /// Writes a message.
    fn write(&self, module: &str, level: Level, text: fmt::Arguments<'_>);
    /// Called when this process has begun its life beside the parent: releases descriptors that were open only for the
    /// start of the server.
    fn begun(&self) {}
}

static LOG: RwLock<Option<Arc<dyn Log>>> = RwLock::new(None);

/// Sets the destination of messages from now on: at the start, and again at every restart.
pub fn set(log: Arc<dyn Log>) {
    *LOG.write().unwrap_or_else(PoisonError::into_inner) = Some(log);
}

/// Tells the log that this process has become a child, or another process beside the parent, without an error.
pub fn begun() {
    if let Some(log) = &*LOG.read().unwrap_or_else(PoisonError::into_inner) {
        log.begun();
    }
}

/// Writes a message of a module (`mpm_prefork`, `core`). Before a log is set, it goes to standard error.
pub fn log(module: &str, level: Level, text: fmt::Arguments<'_>) {
    let log = LOG.read().unwrap_or_else(PoisonError::into_inner).clone();
    match log {
        Some(log) if log.enabled(module, level) => log.write(module, level, text),
        Some(_) => {}
        None if level <= Level::Warn => {
            // Nobody is left to complain to.
            let _ = writeln!(std::io::stderr(), "[{module}:{}] {text}", level.name());
        }
        None => {}
    }
}

/// Whether a message of a module would be written.
pub fn enabled(module: &str, level: Level) -> bool {
    let log = LOG.read().unwrap_or_else(PoisonError::into_inner);
    log.as_ref().is_some_and(|log| log.enabled(module, level))
}

/// `log!("mpm_prefork", Notice, "AH00163: {} configured", name)`: a message of a module at a level.
#[macro_export]
macro_rules! log {
    ($module:expr, $level:ident, $($text:tt)+) => {
        $crate::log::log($module, conf::Level::$level, format_args!($($text)+))
    };
}
