//! Files of this machine: those that are served, and those that configure.

pub(crate) mod absent;
pub(crate) mod directory_cache;
pub mod file_cache;
pub(crate) mod htaccess;
pub(crate) mod htaccess_cache;
pub mod links;
pub mod machine;
pub mod static_file;
pub mod survey;
pub(crate) mod watched;
