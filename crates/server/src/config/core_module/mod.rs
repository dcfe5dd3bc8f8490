//! The core module: its tables of directives, and what sets its [settings](crate::config::core).

pub mod mutex;
mod sections;
mod set;
mod table;

pub use set::{NO_ROOT_CHECK, SHOWN, is_url};
pub use table::{CORE, HTTP_CORE, MACRO, SO, VERSION, WATCHDOG};
