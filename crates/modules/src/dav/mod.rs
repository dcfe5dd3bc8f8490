//! WebDAV (RFC 4918): clients that write files, name properties of them and lock them.
//!
//! `mod_dav` has the methods, `mod_dav_fs` the files below them. What both need lies beside them: XML, properties, locks, the
//! `If` field, and the answer for many resources at once.

mod claim;
mod failure;
mod if_header;
mod locks;
pub mod mod_dav;
pub mod mod_dav_fs;
pub mod mod_dav_lock;
mod multistatus;
mod properties;
mod store;
mod tree;
mod xml;
