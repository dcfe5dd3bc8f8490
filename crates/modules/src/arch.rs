//! Modules that depend on the operating system.

pub mod mod_bumpy_life;
pub mod mod_unixd;
