//! The core module: its tables of directives, and the functions that set its [settings](crate::settings::core).

mod limits;
pub mod mutex;
mod overrides;
mod protocol;
mod response;
mod sections;
mod set;
mod table;

pub use response::is_url;
pub use set::{NO_ROOT_CHECK, SHOWN};
pub use table::{CORE, HTTP_CORE, MACRO, SO, VERSION, WATCHDOG};
