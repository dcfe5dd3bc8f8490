//! The running site: the server with its virtual hosts, and the caches that they own.

pub(crate) mod directory_cache;
pub mod file_cache;
pub(crate) mod htaccess_cache;
pub mod links;
pub mod server;
pub(crate) mod start_error;
pub mod vhost;
pub(crate) mod watched;
