//! The settings of mod_cache_socache.

use conf::{Setting, settings};
use server::module::NamedCache;

/// The largest object, head and body, in bytes.
pub(super) const MAX_SIZE: u64 = 102_400;
/// How long a response is stored at most, and longer than it is fresh, in seconds.
pub(super) const MAX_TIME: u64 = 86_400;
pub(super) const MIN_TIME: u64 = 600;
/// How much of a body is stored before it goes out, in bytes and milliseconds.
pub(super) const READ_SIZE: u64 = 0;
pub(super) const READ_TIME: u64 = 0;

settings! {
    /// The module's settings of a server.
    pub struct SocacheServer {
        pub(super) cache: Setting<NamedCache>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct SocacheDir {
        pub(super) max_size: Setting<u64> = MAX_SIZE,
        pub(super) max_time: Setting<u64> = MAX_TIME,
        pub(super) min_time: Setting<u64> = MIN_TIME,
        pub(super) read_size: Setting<u64> = READ_SIZE,
        pub(super) read_time: Setting<u64> = READ_TIME,
    }
}
