//! From URLs to files.

pub mod mod_dir;
