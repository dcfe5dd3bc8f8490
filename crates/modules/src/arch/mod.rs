//! What depends on the operating system.

pub mod mod_unixd;
