//! Files of this machine: those that are served, and those that configure.

pub(crate) mod absent;
pub(crate) mod htaccess;
pub mod machine;
pub mod static_file;
pub mod survey;
