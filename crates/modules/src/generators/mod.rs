//! What makes content itself.

pub mod mod_status;
