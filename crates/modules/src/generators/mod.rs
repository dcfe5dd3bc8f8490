//! What makes content itself.

pub mod mod_cgi;
pub mod mod_status;
