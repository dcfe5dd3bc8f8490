//! The settings of mod_cache_disk.

use conf::{Setting, settings};

/// How deep the files are, and how long the names of their directories.
pub(super) const DIR_LEVELS: i32 = 2;
pub(super) const DIR_LENGTH: i32 = 2;
/// The sizes of bodies that are stored, in bytes.
pub(super) const MIN_FILE_SIZE: u64 = 1;
pub(super) const MAX_FILE_SIZE: u64 = 1_000_000;
/// How much of a body is stored before it goes out, in bytes and milliseconds.
pub(super) const READ_SIZE: u64 = 0;
pub(super) const READ_TIME: u64 = 0;

settings! {
    /// The module's settings of a server.
    pub struct DiskServer {
        pub(super) root: Setting<String>,
        pub(super) levels: Setting<i32> = DIR_LEVELS,
        pub(super) length: Setting<i32> = DIR_LENGTH,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct DiskDir {
        pub(super) min_file_size: Setting<u64> = MIN_FILE_SIZE,
        pub(super) max_file_size: Setting<u64> = MAX_FILE_SIZE,
        pub(super) read_size: Setting<u64> = READ_SIZE,
        pub(super) read_time: Setting<u64> = READ_TIME,
    }
}
