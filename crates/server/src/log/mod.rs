//! Logs: the error log with its levels and format, and the files that access logs go to.

mod error;
mod file;
mod format;

use conf::{Level, Setting};

pub(crate) use error::{DEFAULT_NAME, check_directories};
pub use error::{ErrorLog, MainLog, os_prefix};
pub(crate) use file::new_configuration;
pub use file::{LogFile, flush_all, reaped, revive};
pub use format::Format;

use crate::core::{CoreDir, LogLevels};
use crate::request::Request;

/// `LogLevel` of a virtual host, resolved.
#[derive(Clone, Debug)]
pub struct Levels {
    all: Level,
    modules: Vec<(String, Level)>,
}

impl Levels {
    /// From the directive's values; the default is `warn`.
    pub fn new(setting: &Setting<LogLevels>) -> Levels {
        let levels = setting.get();
        Levels {
            all: levels.and_then(|levels| levels.all).unwrap_or(Level::Warn),
            modules: levels.map(|levels| levels.modules.clone()).unwrap_or_default(),
        }
    }

    /// The level of a module: messages up to it are written.
    pub fn of(&self, module: &str) -> Level {
        if let Some(level) = seam::log_levels::of(module) {
            return level;
        }
        self.modules.iter().find(|(name, _)| name == module).map_or(self.all, |(_, level)| *level)
    }
}

/// The level of a module for a request: its sections', or the virtual host's.
pub(crate) fn level_for(request: &Request, module: &str) -> Level {
    if let Some(level) = seam::log_levels::of(module) {
        return level;
    }
    let own = request.dir::<CoreDir>().log_level.get();
    let named = own.and_then(|levels| levels.modules.iter().find(|(name, _)| name == module)).map(|(_, level)| *level);
    named.or(own.and_then(|levels| levels.all)).unwrap_or_else(|| request.vhost.levels.of(module))
}
