//! Caches.

mod complaint;
mod control;
mod entry;
mod format;
mod hashed;
pub mod mod_cache;
pub mod mod_cache_disk;
pub mod mod_cache_socache;
pub mod mod_file_cache;
pub mod mod_socache_dbm;
pub mod mod_socache_memcache;
pub mod mod_socache_redis;
pub mod mod_socache_shmcb;
mod object_servers;
mod storage;
