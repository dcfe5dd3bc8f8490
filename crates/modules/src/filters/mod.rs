//! What changes a request or an answer on its way.

pub mod mod_deflate;
pub mod mod_dialup;
pub mod mod_filter;
pub mod mod_include;
pub mod mod_reqtimeout;
