//! Connections that are encrypted.

pub mod mod_ssl;
