//! What makes content itself.

pub mod mod_autoindex;
pub mod mod_cgi;
pub mod mod_status;
