//! Modules that log requests and their results.

pub mod mod_log_config;
pub mod mod_log_debug;
pub mod mod_log_forensic;
pub mod mod_logio;
