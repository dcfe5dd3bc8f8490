//! WebDAV (RFC 4918): clients write files, give them properties, and lock them.
//!
//! `mod_dav` implements the methods, `mod_dav_fs` the files below them. Shared parts are beside them: XML, properties,
//! locks, the `If` field, and the response for many resources at once.

mod claim;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod if_header;
mod locks;
pub mod mod_dav;
pub mod mod_dav_fs;
pub mod mod_dav_lock;
mod multistatus;
mod properties;
mod settings;
mod store;
mod target;
mod tree;
mod xml;
