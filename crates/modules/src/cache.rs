//! Caches.

mod complaint;
mod control;
mod entry;
mod hashed;
pub mod mod_cache;
pub mod mod_cache_disk;
pub mod mod_file_cache;
pub mod mod_socache_shmcb;
mod storage;
