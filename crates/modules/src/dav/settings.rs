//! The settings of WebDAV: of the methods, and of the files below them.

use conf::{Setting, settings};
use server::Request;

use super::locks::Database;

pub(super) const DEPTH_INFINITY: bool = false;
pub(super) const LOCK_DISCOVERY: bool = true;

settings! {
    /// The module's settings of a section.
    pub(super) struct DavDir {
        pub(super) enabled: Setting<bool> = false,
        pub(super) min_timeout: Setting<u64> = 0,
        pub(super) depth_infinity: Setting<bool> = DEPTH_INFINITY,
        pub(super) lock_discovery: Setting<bool> = LOCK_DISCOVERY,
    }
}

settings! {
    /// The module's settings of a virtual host.
    pub(super) struct FsServer {
        pub(super) lock_database: Setting<String>,
    }
}

impl FsServer {
    /// The file of locks, if there is one.
    pub(super) fn lock_database(&self) -> Option<Database> {
        self.lock_database.get().map(|path| Database::new(path))
    }
}

/// The file of locks of a request, if there is one.
pub(super) fn lock_database(request: &Request) -> Option<Database> {
    request.host::<FsServer>().lock_database()
}
