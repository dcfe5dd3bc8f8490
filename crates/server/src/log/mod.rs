//! Logs: the error log with its levels and format, and the files and programs that log lines go to.

mod error;
mod file;
mod format;
mod lost;
mod program;

use conf::Level;

pub(crate) use error::{DEFAULT_NAME, check_directories};
pub use error::{ErrorLog, MainLog, os_prefix};
pub(crate) use file::new_configuration;
pub use file::{LogFile, alone, flush_all, flush_last, tend, tend_last};
pub use format::{About, Format};
pub use lost::lines_lost;
pub use program::reaped;

use crate::config::core::LogLevels;

/// `LogLevel` of a virtual host, resolved.
#[derive(Clone, Debug)]
pub struct Levels {
    named: LogLevels,
}

impl Levels {
    /// From the directive's values; the default is `warn`.
    pub fn new(named: &LogLevels) -> Levels {
        Levels { named: named.clone() }
    }

    /// The level of a module: messages up to it are written.
    pub fn of(&self, module: &str) -> Level {
        if let Some(level) = seam::log_levels::of(module) {
            return level;
        }
        self.named.of(module).unwrap_or(Level::Warn)
    }
}
