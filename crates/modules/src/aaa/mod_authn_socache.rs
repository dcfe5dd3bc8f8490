//! Passwords found by other sources, cached for all children.
//!
//! Apache manual: mod_authn_socache.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use conf::directive::Args::{Iterate, None as NoArgs, Take1};
use conf::values::atoi;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, Setting, row, settings};
use runtime::HelperProcess;
use server::authz::{Authn, AuthnProvider, RealmDigest};
use server::module::{NamedCache, ObjectCache, shared_caches};
use server::paths::dir_name;
use server::{HelperHook, Hook, Module, Request, Server};
use sys::cred::Identity;

use super::passwords::{check_stored, digits};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "authn_socache_module",
        source: "mod_authn_socache.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[Hook::Mutex("authn-socache"), Hook::HelperProcess(&OPEN), Hook::Authn(&SOCACHE)],
};

static OPEN: HelperHook = open;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthnCacheSOCache", Allowed::GLOBAL, Take1(set_cache), "", "socache provider for authn cache"),
    row("AuthnCacheEnable", Allowed::GLOBAL, NoArgs(|c| c.server_set(|s: &mut CacheServer| &mut s.enabled, true)), "", "enable socache configuration in htaccess even if not enabled anywhere else"),
    row("AuthnCacheProvideFor", Allowed::AUTH, Iterate(add_provider), "", "Determine what authn providers to cache for"),
    row("AuthnCacheTimeout", Allowed::AUTH, Take1(|c, v| { let seconds = atoi(v); c.set(|d: &mut CacheDir| &mut d.timeout, seconds) }), "300", "Timeout (secs) for cached credentials"),
    row("AuthnCacheContext", Allowed::SECTION, Take1(|c, v| c.set(|d: &mut CacheDir| &mut d.context, v.to_string())), "directory", "Context for authn cache"),
];

/// What precedes every key: the name of this user of a cache.
const USER: &str = "authn-socache";
/// The longest password, as it is stored, that is cached, in bytes; no digest is as long.
const STORED_MAX: usize = 1024;

/// The cache of this server, if it has one.
static CACHE: RwLock<Option<Arc<dyn ObjectCache>>> = RwLock::new(None);

settings! {
    /// The module's settings of the server.
    pub struct CacheServer {
        enabled: Setting<bool>,
        cache: Setting<NamedCache>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct CacheDir {
        providers: Gathered<Vec<String>>,
        timeout: Setting<i32> = 300,
        context: Setting<String>,
    }
}

static SOCACHE: AuthnProvider = AuthnProvider {
    name: "socache",
    check: |request, user, password| Box::pin(check(request, user, password)),
    realm_hash: Some(|request, user, realm, digest| Box::pin(realm_hash(request, user, realm, digest))),
};

fn set_cache(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let cache = NamedCache::read(text, shared_caches(cmd.context.language.loaded())).map_err(|name| {
        format!(
            "AuthnCacheSOCache: Unknown socache provider '{name}'. Maybe you need to load the appropriate socache module \
             (mod_socache_{name}?)"
        )
    })?;
    let cache = cache.map_err(|why| format!("AuthnCacheSOCache: {why}"))?;
    cmd.server_set(|s: &mut CacheServer| &mut s.enabled, true)?;
    cmd.server_set(|s: &mut CacheServer| &mut s.cache, cache)
}

fn add_provider(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    if !cmd.place.htaccess {
        cmd.server_set(|s: &mut CacheServer| &mut s.enabled, true)?;
    }
    let origin = cmd.origin();
    cmd.dir.edit::<CacheDir>().providers.edit(&origin).push(name.to_string());
    Ok(())
}

/// Opens the cache. That needs no process: only this hook knows the children's user.
fn open(server: &Arc<Server>, children: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    let is_wanted = |host: &server::VirtualHost| host.settings.get::<CacheServer>().enabled.value_or(false);
    let mut opened = None;
    if server.hosts.iter().any(is_wanted) {
        let default = || shared_caches(server.infos()).find(|cache| cache.names.contains(&"default"));
        let named = server.main().settings.get::<CacheServer>().cache.get().cloned();
        let named = named.or_else(|| Some(NamedCache::new(default()?, None))).ok_or(
            "AH01674: Please select a socache provider with AuthnCacheSOCache (no default found on this platform). \
             Maybe you need to load mod_socache_shmcb or another socache module first",
        )?;
        let failed = |error: io::Error| format!("AH01677: failed to initialise authn cache: {}", sys::describe(&error));
        named.open(USER, server, server.main(), children).map_err(failed)?;
        opened = named.shared();
    }
    *CACHE.write().unwrap_or_else(PoisonError::into_inner) = opened;
    Ok(None)
}

fn cache() -> Option<Arc<dyn ObjectCache>> {
    CACHE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The key of an entry: under `AuthnCacheContext`, the same user elsewhere is a different one.
fn key(request: &Request, user: &str, realm: Option<&str>) -> Vec<u8> {
    let host = &request.vhost.name;
    let context = match request.dir::<CacheDir>().context.get().map(String::as_str) {
        None | Some("directory") => format!("{host}{}", dir_name(&request.data.uri)),
        Some("server") => host.clone(),
        Some(other) => other.to_string(),
    };
    // The lengths keep the words apart.
    let (context_length, user_length) = (context.len(), user.len());
    let realm = realm.map_or_else(|| "-".to_string(), |realm| format!("={realm}"));
    format!("{USER}:{context_length}:{user_length}:{context}{user}{realm}").into_bytes()
}

/// Caches a source's result, if `AuthnCacheProvideFor` names the source.
pub(super) async fn remember(request: &Request, provider: &str, user: &str, realm: Option<&str>, stored: &str) {
    let dir = request.dir::<CacheDir>();
    let is_meant = dir.providers.get().is_some_and(|names| names.iter().any(|name| name == provider));
    let (true, Some(cache)) = (is_meant, cache()) else { return };
    let seconds = u64::try_from(dir.timeout()).unwrap_or(0);
    let context = dir.context.get().map_or("directory", String::as_str);
    let value = Bytes::copy_from_slice(stored.as_bytes());
    // What expires at once need not be stored.
    let is_stored = seconds == 0
        || stored.len() <= STORED_MAX
            && cache.put(&key(request, user, realm), value, Duration::from_secs(seconds)).await.is_ok();
    let (level, text) = match is_stored {
        true => (Level::Debug, format!("AH01681: Cached authn credentials for {user} in {context}")),
        false => (Level::Error, format!("AH01680: Failed to cache authn credentials for {user} in {context}")),
    };
    request.log("authn_socache", level, text);
}

/// The cached value of a user. `numbers` of the messages: there is none, and there is one.
async fn recall(request: &Request, user: &str, realm: Option<&str>, numbers: [&str; 2]) -> Option<String> {
    request.dir::<CacheDir>().providers.get()?;
    let found = cache()?.get(&key(request, user, realm)).await.unwrap_or_else(|error| {
        let text = format!("Authn cache: the cache is out of reach: {}", sys::describe(&error));
        request.log("authn_socache", Level::Warn, text);
        None
    });
    let found = found.filter(|bytes| bytes.len() <= STORED_MAX).and_then(|bytes| String::from_utf8(bytes.into()).ok());
    let (number, what) = if found.is_some() { (numbers[1], "found") } else { (numbers[0], "no") };
    let what = if what == "no" { "no credentials found" } else { "found credentials" };
    request.log("authn_socache", Level::Debug, format!("{number}: Authn cache: {what} for {user}"));
    found
}

async fn check(request: &Request, user: &str, password: &str) -> Authn {
    match recall(request, user, None, ["AH01684", "AH01685"]).await {
        Some(stored) => check_stored(request, "authn_socache", user, password, &stored).await,
        None => Authn::UserNotFound,
    }
}

async fn realm_hash(request: &Request, user: &str, realm: &str, digest: RealmDigest) -> Result<String, Authn> {
    let stored = recall(request, user, Some(realm), ["AH01687", "AH01688"]).await;
    stored.filter(|stored| stored.len() == digits(digest)).ok_or(Authn::UserNotFound)
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        crate::testing::check(&[
            (
                "AuthnCacheSOCache foo",
                "AuthnCacheSOCache: Unknown socache provider 'foo'. Maybe you need to load the appropriate socache module \
                 (mod_socache_foo?)",
            ),
            ("AuthnCacheSOCache shmcb:x(5)", "AuthnCacheSOCache: Invalid argument: size has to be >= 8192 bytes"),
            ("AuthnCacheSOCache shmcb:x(100000)\nAuthnCacheEnable", ""),
            (
                "<Location />\nAuthnCacheProvideFor file dbm\nAuthnCacheTimeout 60\nAuthnCacheContext all\n</Location>",
                "",
            ),
        ]);
    }
}
