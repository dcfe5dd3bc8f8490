//! What makes content itself.

pub mod mod_admission;
pub mod mod_autoindex;
pub mod mod_cgi;
pub mod mod_cgid;
pub mod mod_status;
mod script;
