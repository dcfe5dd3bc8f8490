//! The storages of responses, and which of them a request's response belongs to.

use server::Request;

use super::key::path_of;
use super::settings::{CacheDir, CacheServer};
use crate::cache::mod_cache_disk::DISK;
use crate::cache::mod_cache_socache::SOCACHE;
use crate::cache::storage::Storage;

/// All storages.
static STORAGES: [&Storage; 2] = [&DISK, &SOCACHE];

/// The storage with this name.
pub(super) fn named(name: &str) -> Option<&'static Storage> {
    STORAGES.into_iter().find(|storage| storage.name == name)
}

/// Whether there may be any for a request.
pub(super) fn are_any(request: &Request) -> bool {
    !request.host::<CacheServer>().enabled.is_empty() || !request.dir::<CacheDir>().enabled.is_empty()
}

/// Those for a request, in the order in which they are asked.
pub(super) fn of(request: &Request) -> Vec<&'static Storage> {
    let (conf, dir) = (request.host::<CacheServer>(), request.dir::<CacheDir>());
    let target = request.data.sent_target();
    let sent = path_of(&target);
    // Another spelling of a path must not escape `CacheDisable`.
    let is_disabled = || {
        let decoded = http::decode_path(&http::text::to_bytes(sent), &http::PathOptions::default());
        decoded.map_or(true, |decoded| conf.disabled.iter().any(|scope| scope.has(sent) || scope.has(&decoded)))
    };
    if dir.disabled() || !conf.disabled.is_empty() && is_disabled() {
        return Vec::new();
    }
    let outside = conf.enabled.iter().filter(|enabled| enabled.scope.has(sent)).map(|enabled| enabled.storage);
    let mut storages: Vec<&'static Storage> = Vec::new();
    for storage in dir.enabled.iter().copied().chain(outside) {
        if !storages.iter().any(|known| std::ptr::eq(*known, storage)) {
            storages.push(storage);
        }
    }
    storages
}
