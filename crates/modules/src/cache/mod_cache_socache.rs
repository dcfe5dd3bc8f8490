//! Responses stored in a cache of objects: `CacheEnable socache`.
//!
//! Apache manual: mod_cache_socache. The objects are those of Apache, under its keys, so that both servers may use one server of
//! objects.

mod object;
mod settings;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use conf::directive::Args::Take1;
use conf::values::number;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, row, shown};
use runtime::HelperProcess;
use server::module::{NamedCache, OBJECT_MAX, Unchanged, shared_caches};
use server::{Account, HelperHook, Hook, Module, Request, Server, Waiting};
use sys::cred::Identity;

use self::object::{Keeper, ObjectDraft, StoredObject, USER, name, variant};
use self::settings::{MAX_SIZE, MAX_TIME, MIN_TIME, READ_SIZE, READ_TIME, SocacheDir, SocacheServer};
use super::complaint::complain;
use super::entry::{Entry, SECOND};
use super::format::{Head, Layout, Stored};
use super::storage::{Content, Draft, Found, Job, Missing, Storage, Watch};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "cache_socache_module",
        source: "mod_cache_socache.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[Hook::Mutex("cache-socache"), Hook::Provider("cache", "socache"), Hook::HelperProcess(&OPEN)],
};

static OPEN: HelperHook = open;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("CacheSocache", Allowed::SERVER, Take1(set_cache), "", "The shared object cache to store cache files"),
    row("CacheSocacheMaxTime", Allowed::CONF, Take1(set_max_time), shown!(MAX_TIME), "The maximum cache expiry age to cache a document in seconds"),
    row("CacheSocacheMinTime", Allowed::CONF, Take1(set_min_time), shown!(MIN_TIME), "The minimum cache expiry age to cache a document in seconds"),
    row("CacheSocacheMaxSize", Allowed::CONF, Take1(set_max_size), shown!(MAX_SIZE), "The maximum cache entry size (headers and body) to cache a document").differs("More than 16 MB counts as 16 MB. `shmcb` stores nothing larger than a quarter of its memory, or about 110 KB; of more than 32 MB, a 300th part."),
    row("CacheSocacheReadSize", Allowed::CONF, Take1(set_read_size), shown!(READ_SIZE), "The maximum quantity of data to attempt to read and cache in one go"),
    row("CacheSocacheReadTime", Allowed::CONF, Take1(set_read_time), shown!(READ_TIME), "The maximum time taken to attempt to read and cache in go"),
];

pub(crate) static SOCACHE: Storage = Storage { name: "socache", find, begin, remove, gather };

/// The smallest limit of a size that the configuration may name, in bytes.
const SIZE_MIN: i64 = 1024;

fn set_cache(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let cache = NamedCache::read(text, shared_caches(cmd.context.language.loaded())).map_err(|name| {
        format!("Unknown socache provider '{name}'. Maybe you need to load the appropriate socache module (mod_socache_{name}?)")
    })??;
    cmd.server_set(|s: &mut SocacheServer| &mut s.cache, cache)
}

fn set_max_size(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let error = "CacheSocacheMaxSize argument must be a integer representing the max size of a cached entry (headers and body), \
                 at least 1024 and at most (4294967295U)";
    let bytes = number(text).filter(|bytes| (SIZE_MIN..=i64::from(u32::MAX)).contains(bytes)).ok_or(error)?;
    cmd.set(|d: &mut SocacheDir| &mut d.max_size, bytes.unsigned_abs().min(OBJECT_MAX as u64))
}

fn set_max_time(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let seconds =
        natural(text, "CacheSocacheMaxTime argument must be the maximum amount of time in seconds to cache an entry.")?;
    cmd.set(|d: &mut SocacheDir| &mut d.max_time, seconds)
}

fn set_min_time(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let seconds =
        natural(text, "CacheSocacheMinTime argument must be the minimum amount of time in seconds to cache an entry.")?;
    cmd.set(|d: &mut SocacheDir| &mut d.min_time, seconds)
}

fn set_read_size(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    const ERROR: &str = "CacheSocacheReadSize argument must be a non-negative integer representing the max amount of data to cache in go.";
    let bytes = natural(text, ERROR)?;
    cmd.set(|d: &mut SocacheDir| &mut d.read_size, bytes)
}

fn set_read_time(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    const ERROR: &str = "CacheSocacheReadTime argument must be a non-negative integer representing the max amount of time taken to \
                         cache in go.";
    let milliseconds = natural(text, ERROR)?;
    cmd.set(|d: &mut SocacheDir| &mut d.read_time, milliseconds)
}

/// A number that is not negative. As in Apache, a text that is none counts as 0.
fn natural(text: &str, error: &'static str) -> Result<u64, &'static str> {
    u64::try_from(conf::values::strtol(text)).map_err(|_| error)
}

/// Opens the caches. That needs no process: only this hook knows the children's user.
fn open(server: &Arc<Server>, children: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    for host in &server.hosts {
        let Some(cache) = host.settings.get::<SocacheServer>().cache.get() else { continue };
        cache
            .open(USER, server, host, children)
            .map_err(|error| format!("CacheSocache: the cache cannot be opened: {}", sys::describe(&error)))?;
    }
    Ok(None)
}

fn find<'a>(request: &'a Request, key: &'a str) -> Waiting<'a, Result<Found, Missing>> {
    Box::pin(async move {
        let bytes = http::text::to_bytes(key);
        let keeper = keeper(request, &bytes, None).ok_or(Missing::Key)?;
        look(request, keeper).await.unwrap_or_else(|error| {
            complain(request.vhost, "cache_socache", Some(&error), "the shared object cache is out of reach");
            Err(Missing::Key)
        })
    })
}

async fn look(request: &Request, keeper: Keeper) -> io::Result<Result<Found, Missing>> {
    let mut own = name(&keeper.key);
    // Before they are read: a later change is seen.
    let mut watched = vec![keeper.cache.watch(&own)];
    let mut object = keeper.cache.get(&own).await?;
    let mut missing = Missing::Key;
    if let Some((Head::Variants(names), _)) = object.as_deref().and_then(|bytes| Head::decode(Layout::Object, bytes)) {
        own = variant(&names, &keeper.key, |name| request.header_joined(name));
        watched.push(keeper.cache.watch(&own));
        object = keeper.cache.get(&own).await?;
        missing = Missing::Variant;
    }
    let watched: Option<Vec<Unchanged>> = watched.into_iter().collect();
    let watch = watched.map(|all| Box::new(move |_: &Account| all.iter().all(|is_same| is_same())) as Watch);
    Ok(object.and_then(|object| read(request, keeper, own, &object, watch)).ok_or(missing))
}

/// The response in an object, if it is the one for this key.
fn read(request: &Request, keeper: Keeper, own: Vec<u8>, object: &Bytes, watch: Option<Watch>) -> Option<Found> {
    let (Head::Response(stored), body) = Head::decode(Layout::Object, object)? else { return None };
    let Stored { key, entry, .. } = *stored;
    let body = object.slice_ref(body);
    let length: Option<u64> = entry.fields.get("Content-Length").and_then(|text| text.parse().ok());
    let is_whole = entry.header_only || length.is_none_or(|length| length == body.len() as u64);
    if key != keeper.key || !is_whole || entry.header_only && !request.data.header_only {
        return None;
    }
    let content = if entry.header_only { Content::Unsent(length) } else { Content::Bytes(body.clone()) };
    let keeper = Keeper { lifetime: lifetime(request, &entry), ..keeper };
    let place = StoredObject { keeper, name: own, vary: entry.fields.joined("Vary"), body };
    Some(Found { entry, content, place: Box::new(place), watch })
}

fn begin(request: &Request, key: &str, entry: Entry, length: Option<u64>) -> Option<Box<dyn Draft>> {
    let keeper = keeper(request, &http::text::to_bytes(key), Some(&entry))?;
    // Parts of responses are not stored.
    if entry.status == 206 || length.is_some_and(|length| length > keeper.max_size as u64 && !entry.header_only) {
        return None;
    }
    Some(Box::new(ObjectDraft { keeper, entry, expected: length, body: Vec::new() }))
}

fn remove(request: &Request, key: &str) -> Job {
    let keeper = keeper(request, &http::text::to_bytes(key), None);
    // What varies is not found again without its list.
    Box::pin(async move {
        match keeper {
            Some(keeper) => keeper.cache.remove(&name(&keeper.key)).await,
            None => Ok(()),
        }
    })
}

fn gather(request: &Request) -> (u64, u64) {
    let dir = request.dir::<SocacheDir>();
    (dir.read_size(), dir.read_time())
}

/// What stores responses under a key; `entry`: this one.
fn keeper(request: &Request, key: &[u8], entry: Option<&Entry>) -> Option<Keeper> {
    let named = request.host::<SocacheServer>().cache.get();
    let Some(cache) = named.and_then(NamedCache::shared) else {
        complain(request.vhost, "cache_socache", None, "Cannot cache responses without a CacheSocache specified.");
        return None;
    };
    let max_size = request.dir::<SocacheDir>().max_size() as usize;
    let lifetime = entry.map_or(Duration::ZERO, |entry| lifetime(request, entry));
    Some(Keeper { cache, key: key.to_vec(), max_size, lifetime })
}

/// How long a response is stored: for a while longer than it is fresh, so that the origin can confirm it.
fn lifetime(request: &Request, entry: &Entry) -> Duration {
    let dir = request.dir::<SocacheDir>();
    let fresh = u64::try_from(entry.expire.saturating_sub(entry.response_time) / SECOND).unwrap_or(0);
    let seconds = if fresh > dir.max_time() { dir.max_time() } else { fresh.saturating_add(dir.min_time()) };
    // Nobody counts beyond a century.
    Duration::from_secs(seconds.min(100 * 365 * 86_400))
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        let size = "CacheSocacheMaxSize argument must be a integer representing the max size of a cached entry (headers and \
                    body), at least 1024 and at most (4294967295U)";
        crate::testing::check(&[
            (
                "CacheSocache shmcb:x(100000)\nCacheSocache shmcb\nCacheSocache redis:localhost,b:7\nCacheSocache dbm",
                "",
            ),
            (
                "CacheSocache foo:x",
                "Unknown socache provider 'foo'. Maybe you need to load the appropriate socache module (mod_socache_foo?)",
            ),
            ("CacheSocache redis", "List of server names required to create redis socache."),
            ("CacheSocache memcache:", "List of server names required to create memcache socache."),
            ("CacheSocacheMaxSize 5k", size),
            ("CacheSocacheMaxSize 1023", size),
            (
                "CacheSocacheMinTime -1",
                "CacheSocacheMinTime argument must be the minimum amount of time in seconds to cache an entry.",
            ),
            ("<Location />\nCacheSocacheMaxSize 4294967295\nCacheSocacheReadTime x\n</Location>", ""),
        ]);
    }
}
