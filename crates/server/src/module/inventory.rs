//! What a module has stored on the disk, for people: `tsubame cache`.

use std::io;
use std::path::{Path, PathBuf};

use crate::site::server::Server;

/// How to show, remove and limit stored responses. The files may be those of a running server: what changes meanwhile is no error.
pub struct Inventory {
    /// The directories in which a server stores responses.
    pub roots: fn(&Server) -> Vec<PathBuf>,
    /// All stored responses of such a directory, sorted by URL.
    pub list: fn(&Path) -> io::Result<Vec<StoredResponse>>,
    /// Removes everything that is stored for a URL. Returns how many responses that were.
    pub purge: fn(&Server, &str) -> io::Result<usize>,
    /// Removes responses of such a directory until the rest has this size in bytes at most: those that are not fresh any more first,
    /// then the oldest.
    pub clean: fn(&Path, u64) -> io::Result<Cleaned>,
}

/// A stored response.
#[derive(Debug)]
pub struct StoredResponse {
    /// Its key: the URL, with characters that are safe to show.
    pub url: String,
    /// Its status.
    pub status: u16,
    /// The size of its files.
    pub bytes: u64,
    /// Its age in seconds.
    pub age: i64,
    /// For how many seconds it is still fresh; negative: since when it is not.
    pub fresh: i64,
    /// Whether it is one of several for its URL.
    pub is_variant: bool,
}

/// What cleaning has removed, and what is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// How many responses were removed.
    pub removed: usize,
    /// How many are left.
    pub left: usize,
    /// Their size, in bytes.
    pub size: u64,
}
