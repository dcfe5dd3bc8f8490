//! What is kept for later.

pub mod mod_socache_shmcb;
