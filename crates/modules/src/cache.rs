//! Caches.

pub mod mod_file_cache;
pub mod mod_socache_shmcb;
pub(crate) mod shared;
