//! Logs: the error log with its levels and format, and the files and programs that log lines go to.

mod error;
mod file;
mod format;
mod keeper;
mod levels;
mod lost;
mod open;
mod os_error;
mod program;
mod rotation;

pub use crate::log::error::{ErrorLog, MainLog};
pub use crate::log::os_error::os_prefix;
pub(crate) use error::DEFAULT_NAME;
pub(crate) use file::new_configuration;
pub use file::{LogFile, check_own_logs, every_second, flush_all, flush_last, never_open, parent_ends};
pub use format::{About, Format};
pub use keeper::{be_keeper_if_asked, keep};
pub use levels::{Levels, LogLevels};
pub use lost::lines_lost;
pub(crate) use open::has_own_name;
pub use program::reaped;
pub use rotation::{find_hanging, hangs, reopen_renamed};
