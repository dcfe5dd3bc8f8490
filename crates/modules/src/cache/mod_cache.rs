//! Stores responses, and answers with them (RFC 9111).
//!
//! Apache manual: mod_cache. Before all other phases, or with `CacheQuickHandler Off` after them, a request may be answered
//! with a [stored response](recall). Otherwise [its response](pending) is examined on its way out, behind the filters of the
//! content, and stored.

mod examine;
mod fields;
mod freshness;
mod invalidate;
mod key;
mod lasting;
mod lock;
mod mark;
mod passed;
mod pending;
mod queue;
mod recall;
mod renewal;
mod report;
mod saving;
mod set;
mod settings;
mod storable;
mod storages;

use conf::directive::Args::{Flag, Iterate, Take1, Take12};
use conf::{Allowed, Directive, ModuleInfo, on_or_off, row, shown};
use server::{Hook, Module, Moment, Order, QuickHandler, Request, RequestKind};

use self::settings::{CacheDir, CacheServer, DEFAULT_EXPIRE, LOCK_MAX_AGE, MAX_EXPIRE, MIN_EXPIRE, QUICK};
use super::entry::SECOND;
use crate::cache_counts;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "cache_module", source: "mod_cache.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::QuickHandler(
            Order::First,
            QuickHandler { claims: is_asked, run: |request, moment| Box::pin(recall::recall(request, moment)) },
        ),
        Hook::Start(cache_counts::start),
        Hook::Examine(examine::examine),
        Hook::NamedFilter(&mark::CACHE),
    ],
};

const SERVER: Allowed = Allowed::SERVER;
const CONF: Allowed = Allowed::CONF;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("CacheEnable", CONF, Take12(set::enable), "", "A cache type and partial URL prefix below which caching is enabled"),
    row("CacheDisable", CONF, Take1(set::disable), "", "A partial URL prefix below which caching is disabled"),
    row("CacheMaxExpire", CONF, Take1(|c, v| c.set(|d: &mut CacheDir| &mut d.max_expire, set::period(v))), shown!(MAX_EXPIRE / SECOND), "The maximum time in seconds to cache a document"),
    row("CacheMinExpire", CONF, Take1(|c, v| c.set(|d: &mut CacheDir| &mut d.min_expire, set::period(v))), shown!(MIN_EXPIRE / SECOND), "The minimum time in seconds to cache a document"),
    row("CacheDefaultExpire", CONF, Take1(|c, v| c.set(|d: &mut CacheDir| &mut d.default_expire, set::period(v))), shown!(DEFAULT_EXPIRE / SECOND), "The default time in seconds to cache a document"),
    row("CacheQuickHandler", SERVER, Flag(|c, on| c.server_set(|s: &mut CacheServer| &mut s.quick, on)), on_or_off(QUICK), "Run the cache in the quick handler, default on"),
    row("CacheIgnoreNoLastMod", CONF, Flag(|c, on| c.set(|d: &mut CacheDir| &mut d.ignore_no_last_mod, on)), "Off", "Ignore Responses where there is no Last Modified Header"),
    row("CacheIgnoreCacheControl", SERVER, Flag(|c, on| c.server_set(|s: &mut CacheServer| &mut s.ignore_cache_control, on)), "Off", "Ignore requests from the client for uncached content"),
    row("CacheStoreExpired", CONF, Flag(|c, on| c.set(|d: &mut CacheDir| &mut d.store_expired, on)), "Off", "Ignore expiration dates when populating cache, resulting in an If-Modified-Since request to the backend on retrieval"),
    row("CacheStorePrivate", CONF, Flag(|c, on| c.set(|d: &mut CacheDir| &mut d.store_private, on)), "Off", "Ignore 'Cache-Control: private' and store private content"),
    row("CacheStoreNoStore", CONF, Flag(|c, on| c.set(|d: &mut CacheDir| &mut d.store_no_store, on)), "Off", "Ignore 'Cache-Control: no-store' and store sensitive content"),
    row("CacheIgnoreHeaders", SERVER, Iterate(set::ignore_header), "None", "A space separated list of headers that should not be stored by the cache"),
    row("CacheIgnoreQueryString", SERVER, Flag(|c, on| c.server_set(|s: &mut CacheServer| &mut s.ignore_query, on)), "Off", "Ignore query-string when caching"),
    row("CacheIgnoreURLSessionIdentifiers", SERVER, Iterate(set::ignore_session), "None", "A space separated list of session identifiers that should be ignored for creating the key of the cached entity."),
    row("CacheLastModifiedFactor", CONF, Take1(set::factor), "0.1", "The factor used to estimate Expires date from LastModified date"),
    row("CacheLock", SERVER, Flag(|c, on| c.server_set(|s: &mut CacheServer| &mut s.lock, on)), "Off", "Enable or disable the thundering herd lock."),
    row("CacheLockPath", SERVER, Take1(set::lock_path), "", "The thundering herd lock path. Defaults to the '/mod_cache-lock' directory in the system temp directory."),
    row("CacheLockMaxAge", SERVER, Take1(set::lock_max_age), shown!(LOCK_MAX_AGE), "Maximum age of any thundering herd lock."),
    row("CacheHeader", CONF, Flag(|c, on| c.set(|d: &mut CacheDir| &mut d.header, on)), "Off", "Add a X-Cache header to responses. Default is off."),
    row("CacheDetailHeader", CONF, Flag(|c, on| c.set(|d: &mut CacheDir| &mut d.detail_header, on)), "Off", "Add a X-Cache-Detail header to responses. Default is off."),
    row("CacheStatusHeader", SERVER, Flag(|c, on| c.server_set(|s: &mut CacheServer| &mut s.status_header, on)), "Off", "Append to the field Cache-Status what the cache has done (RFC 9211)").syntax("On|Off"),
    row("CacheKeyBaseURL", SERVER, Take1(set::key_base), "", "Override the base URL of reverse proxied cache keys."),
    row("CacheStaleOnError", CONF, Flag(|c, on| c.set(|d: &mut CacheDir| &mut d.stale_on_error, on)), "On", "Serve stale content on 5xx errors if present. Defaults to on."),
];

/// Whether a request may have a stored response, or its response may be stored.
fn is_asked(request: &Request, moment: Moment) -> bool {
    let own = if request.host::<CacheServer>().quick() { Moment::BeforePhases } else { Moment::BeforeHandler };
    // One that renews a stored response brings along what is to become of it.
    moment == own
        && storages::are_any(request)
        && matches!(request.kind, RequestKind::Main)
        && request.caching.is_none()
}
