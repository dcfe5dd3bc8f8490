//! Settings, as modules and the core merge them, and what follows from them for each virtual host.

pub mod core;
pub mod draft;
pub mod http2;
pub mod identity;
pub mod merge;
pub(crate) mod plan;
pub mod read_timeout;
pub mod satisfy;
pub(crate) mod section;
pub mod user;
