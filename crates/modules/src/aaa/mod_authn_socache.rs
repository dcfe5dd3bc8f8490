//! Passwords found by other sources, cached for all children.
//!
//! Apache manual: mod_authn_socache.

use conf::directive::Args::{Iterate, None as NoArgs, Take1};
use conf::values::atoi;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, Setting, row, settings};
use server::authz::{Authn, AuthnProvider, RealmDigest};
use server::module::shared_caches;
use server::paths::dir_name;
use server::{Hook, Module, Request, Server};

use super::passwords::{check_stored, digits};
use crate::shared_cache::{Key, Slot, Stored, bucket};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "authn_socache_module",
        source: "mod_authn_socache.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[Hook::Start(prepare), Hook::Authn(&SOCACHE)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthnCacheSOCache", Allowed::GLOBAL, Take1(set_cache), "", "socache provider for authn cache").differs("The only kind is `shmcb`, in memory that all children share; there is no file."),
    row("AuthnCacheEnable", Allowed::GLOBAL, NoArgs(|c| c.server_set(|s: &mut CacheServer| &mut s.enabled, true)), "", "enable socache configuration in htaccess even if not enabled anywhere else"),
    row("AuthnCacheProvideFor", Allowed::AUTH, Iterate(add_provider), "", "Determine what authn providers to cache for"),
    row("AuthnCacheTimeout", Allowed::AUTH, Take1(|c, v| { let seconds = atoi(v); c.set(|d: &mut CacheDir| &mut d.timeout, seconds) }), "300", "Timeout (secs) for cached credentials"),
    row("AuthnCacheContext", Allowed::SECTION, Take1(|c, v| c.set(|d: &mut CacheDir| &mut d.context, v.to_string())), "directory", "Context for authn cache"),
];

/// The default memory, in bytes; as in mod_socache_shmcb.
const SIZE: u64 = 512_000;
/// Words per entry: a stored password fits into less.
const PLACE: usize = 32;

/// The cache of this server, if it has one.
static CACHE: Slot<{ bucket(PLACE) }> = Slot::new();

settings! {
    /// The module's settings of the server.
    pub struct CacheServer {
        enabled: Setting<bool>,
        size: Setting<u64> = SIZE,
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
    realm_hash: Some(|request, user, realm, digest| Box::pin(async move { realm_hash(request, user, realm, digest) })),
};

fn set_cache(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let (name, argument) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let loaded = cmd.context.language.loaded();
    let Some(cache) = shared_caches(loaded).find(|cache| cache.names.contains(&name)) else {
        return Err(format!(
            "AuthnCacheSOCache: Unknown socache provider '{name}'. Maybe you need to load the appropriate socache module \
             (mod_socache_{name}?)"
        ).into());
    };
    (cache.check)(argument).map_err(|why| format!("AuthnCacheSOCache: {why}"))?;
    let size = argument.and_then(|argument| argument.rsplit_once('(')?.1.strip_suffix(')')?.trim().parse().ok());
    cmd.server_set(|s: &mut CacheServer| &mut s.enabled, true)?;
    size.map_or(Ok(()), |size| cmd.server_set(|s: &mut CacheServer| &mut s.size, size))
}

fn add_provider(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    if !cmd.place.htaccess {
        cmd.server_set(|s: &mut CacheServer| &mut s.enabled, true)?;
    }
    let origin = cmd.origin();
    cmd.dir.edit::<CacheDir>().providers.edit(&origin).push(name.to_string());
    Ok(())
}

/// Runs in the parent, so that all children share it.
fn prepare(server: &Server) -> Result<(), String> {
    let is_wanted = |host: &server::VirtualHost| host.settings.get::<CacheServer>().enabled.value_or(false);
    if !server.hosts.iter().any(is_wanted) {
        return Ok(());
    }
    if shared_caches(server.infos()).next().is_none() {
        return Err(
            "AH01674: Please select a socache provider with AuthnCacheSOCache (no default found on this platform). \
                    Maybe you need to load mod_socache_shmcb or another socache module first"
                .into(),
        );
    }
    let size = server.main().settings.get::<CacheServer>().size();
    CACHE.prepare(size).map_err(|error| format!("AH01677: failed to initialise authn cache: {}", sys::describe(&error)))
}

/// The key of an entry: under `AuthnCacheContext`, the same user elsewhere is a different one.
fn key(request: &Request, user: &str, realm: Option<&str>) -> Key {
    let host = &request.vhost.name;
    let context = match request.dir::<CacheDir>().context.get().map(String::as_str) {
        None | Some("directory") => format!("{host}{}", dir_name(&request.data.uri)),
        Some("server") => host.clone(),
        Some(other) => other.to_string(),
    };
    Key::of(&[&context, user, realm.unwrap_or_default()], u8::from(realm.is_some()))
}

/// Caches a source's result, if `AuthnCacheProvideFor` names the source.
pub(super) fn remember(request: &Request, provider: &str, user: &str, realm: Option<&str>, stored: &str) {
    let dir = request.dir::<CacheDir>();
    let is_meant = dir.providers.get().is_some_and(|names| names.iter().any(|name| name == provider));
    let (true, Some(cache)) = (is_meant, CACHE.get()) else { return };
    let seconds = u64::try_from(dir.timeout()).unwrap_or(0);
    let context = dir.context.get().map_or("directory", String::as_str);
    let (level, text) = match cache.put(&key(request, user, realm), stored.as_bytes(), seconds) != Stored::Not {
        true => (Level::Debug, format!("AH01681: Cached authn credentials for {user} in {context}")),
        false => (Level::Error, format!("AH01680: Failed to cache authn credentials for {user} in {context}")),
    };
    request.log("authn_socache", level, text);
}

/// The cached value of a user. `numbers` of the messages: there is none, and there is one.
fn recall(request: &Request, user: &str, realm: Option<&str>, numbers: [&str; 2]) -> Option<String> {
    request.dir::<CacheDir>().providers.get()?;
    let found = CACHE.get()?.get(&key(request, user, realm)).and_then(|bytes| String::from_utf8(bytes).ok());
    let (number, what) = if found.is_some() { (numbers[1], "found") } else { (numbers[0], "no") };
    let what = if what == "no" { "no credentials found" } else { "found credentials" };
    request.log("authn_socache", Level::Debug, format!("{number}: Authn cache: {what} for {user}"));
    found
}

async fn check(request: &Request, user: &str, password: &str) -> Authn {
    match recall(request, user, None, ["AH01684", "AH01685"]) {
        Some(stored) => check_stored(request, "authn_socache", user, password, &stored).await,
        None => Authn::UserNotFound,
    }
}

fn realm_hash(request: &Request, user: &str, realm: &str, digest: RealmDigest) -> Result<String, Authn> {
    let stored = recall(request, user, Some(realm), ["AH01687", "AH01688"]);
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
