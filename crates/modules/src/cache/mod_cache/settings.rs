//! The settings of mod_cache.

use conf::{Gathered, Listed, Setting, settings};

use crate::cache::entry::{Micros, SECOND};
use crate::cache::storage::Storage;

/// Whether the cache answers before all other phases.
pub(super) const QUICK: bool = true;
/// The default limits of lifetimes.
pub(super) const MAX_EXPIRE: Micros = 86_400 * SECOND;
pub(super) const MIN_EXPIRE: Micros = 0;
pub(super) const DEFAULT_EXPIRE: Micros = 3600 * SECOND;
/// The part of a response's age that it probably stays as it is.
pub(super) const FACTOR: f64 = 0.1;
/// How long a lock holds, in seconds.
pub(super) const LOCK_MAX_AGE: i64 = 5;

settings! {
    /// The module's settings of a server.
    pub struct CacheServer {
        pub(super) enabled: Listed<Enabled>,
        pub(super) disabled: Listed<Scope>,
        pub(super) quick: Setting<bool> = QUICK,
        pub(super) ignore_cache_control: Setting<bool> = false,
        pub(super) ignore_query: Setting<bool> = false,
        pub(super) ignore_headers: Gathered<Vec<String>>,
        pub(super) ignore_sessions: Gathered<Vec<String>>,
        pub(super) key_base: Setting<KeyBase>,
        pub(super) lock: Setting<bool> = false,
        pub(super) lock_path: Setting<String>,
        pub(super) status_header: Setting<bool> = false,
        pub(super) lock_max_age: Setting<i64> = LOCK_MAX_AGE,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct CacheDir {
        /// The storages of `CacheEnable` in a `<Location>`.
        pub(super) enabled: Listed<&'static Storage>,
        pub(super) disabled: Setting<bool> = false,
        pub(super) max_expire: Setting<Micros> = MAX_EXPIRE,
        pub(super) min_expire: Setting<Micros> = MIN_EXPIRE,
        pub(super) default_expire: Setting<Micros> = DEFAULT_EXPIRE,
        pub(super) factor: Setting<f64> = FACTOR,
        pub(super) ignore_no_last_mod: Setting<bool> = false,
        pub(super) store_expired: Setting<bool> = false,
        pub(super) store_private: Setting<bool> = false,
        pub(super) store_no_store: Setting<bool> = false,
        pub(super) header: Setting<bool> = false,
        pub(super) detail_header: Setting<bool> = false,
        pub(super) stale_on_error: Setting<bool> = true,
    }
}

/// `CacheEnable` outside sections.
#[derive(Clone, Debug)]
pub(super) struct Enabled {
    pub(super) storage: &'static Storage,
    pub(super) scope: Scope,
}

/// URLs of this server that begin with a path. `None`: URLs that only a forward proxy is asked for, which this server is not.
#[derive(Clone, Debug)]
pub(super) struct Scope(Option<String>);

impl Scope {
    /// The URLs that begin with this one.
    pub(super) fn of(url: &str) -> Scope {
        let is_foreign = !url.starts_with('/') && url.contains(':');
        Scope((!is_foreign).then(|| url.to_string()))
    }

    /// Whether some of them may be below a path.
    pub(super) fn meets(&self, path: &str) -> bool {
        self.0.as_deref().is_some_and(|prefix| path.starts_with(prefix) || prefix.starts_with(path))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.0.as_deref().is_some_and(|prefix| path.starts_with(prefix))
    }
}

/// `CacheKeyBaseURL`: what replaces the parts of our own URLs in keys.
#[derive(Clone, Debug)]
pub(super) struct KeyBase {
    pub(super) scheme: Option<String>,
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
}
