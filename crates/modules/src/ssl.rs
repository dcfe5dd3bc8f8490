//! Encrypted connections.

pub mod mod_ssl;
