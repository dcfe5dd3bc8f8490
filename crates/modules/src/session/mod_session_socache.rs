//! Sessions stored in a shared object cache, such as Redis: the client has a key in a cookie, and every server that uses the same
//! Redis knows the session.
//!
//! Not one of Apache's modules: docs/fleet.md.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use conf::directive::Args::{Flag, Raw, Take1};
use conf::{
    Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Refusal, Setting, SettingsMap, on_or_off, row, settings,
};
use runtime::HelperProcess;
use server::module::{NamedCache, ObjectCache, shared_caches};
use server::{HelperHook, Hook, Module, Request, Server};
use sha2::{Digest, Sha256};
use sys::cred::Identity;

use super::data::{PLACES, Session, now};
use super::key::{KEY, Lost, is_key, new_key, shown};
use super::mod_session_cookie::{Cookie, parse, send, take};
use crate::complaints::Complaints;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "session_socache_module",
        source: "mod_session_socache.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[Hook::HelperProcess(&OPEN)],
};

static OPEN: HelperHook = open;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("SessionSocache", Allowed::SERVER, Take1(set_cache), "", "The shared object cache that keeps sessions").syntax("type[:args]"),
    row("SessionSocacheCookieName", PLACES, Raw(set_cookie), "", "The name of the cookie with the key of the session, and the attributes of the cookie").syntax("name [attributes]"),
    row("SessionSocacheCookieRemove", PLACES, Flag(|c, on| c.set(|d: &mut SocacheSessionDir| &mut d.remove, on)), on_or_off(REMOVE), "Whether the cookie is hidden from scripts and backends"),
];

/// The name of this user of a cache; what precedes its keys.
const USER: &str = "session-socache";
/// Whether the cookie is hidden from others by default.
const REMOVE: bool = true;
/// How long a session without an end is kept after its last change.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

settings! {
    /// The module's settings of a server.
    pub struct SocacheSessionServer {
        cache: Setting<NamedCache>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct SocacheSessionDir {
        cookie: Setting<Cookie>,
        remove: Setting<bool> = REMOVE,
    }
}

fn set_cache(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let cache = NamedCache::read(text, shared_caches(cmd.context.language.loaded()))
        .map_err(|name| format!("SessionSocache: '{name}' is no cache: mod_socache_{name} is not loaded"))?;
    let cache = cache.map_err(|why| format!("SessionSocache: {why}"))?;
    cmd.server_set(|s: &mut SocacheSessionServer| &mut s.cache, cache)
}

fn set_cookie(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    if rest.trim_ascii().is_empty() {
        return Err(Refusal::missing("SessionSocacheCookieName takes the name of a cookie"));
    }
    let cookie = parse(rest).filter(|(name, _)| !name.contains(';'));
    let cookie = cookie.ok_or("SessionSocacheCookieName: a name of a cookie has no '=', ';' or '&'")?;
    cmd.set(|d: &mut SocacheSessionDir| &mut d.cookie, cookie)
}

/// Opens the caches. That needs no process: only this hook knows the children's user.
fn open(server: &Arc<Server>, children: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    for host in &server.hosts {
        let Some(cache) = host.settings.get::<SocacheSessionServer>().cache.get() else { continue };
        cache
            .open(USER, server, host, children)
            .map_err(|error| format!("SessionSocache: the cache cannot be opened: {}", sys::describe(&error)))?;
    }
    Ok(None)
}

/// Whether sessions of a section are stored here.
pub(super) fn is_configured(slots: &SettingsMap) -> bool {
    slots.get::<SocacheSessionDir>().cookie.is_set()
}

/// The text of the session, empty if there is none yet.
pub(super) async fn read(request: &mut Request, slots: &SettingsMap) -> Result<String, Lost> {
    let dir = slots.get::<SocacheSessionDir>();
    let Some((name, _)) = dir.cookie.get() else { return Ok(String::new()) };
    let key = take(request, name, dir.remove());
    if !is_key(&key) {
        return Ok(String::new());
    }
    let cache = cache(request)?;
    let found = cache.get(&stored_under(&key)).await.map_err(|error| lost(request, &key, &error))?;
    let text = found.and_then(|bytes| String::from_utf8(bytes.into()).ok());
    if text.is_some() {
        request.notes.set(KEY, key);
    }
    Ok(text.unwrap_or_default())
}

/// Stores a session, and sends its key to the client.
pub(super) async fn write(
    request: &mut Request,
    slots: &SettingsMap,
    text: String,
    session: &Session,
    max_age: i64,
) -> Result<(), Lost> {
    if request.is_hypothetical() {
        return Ok(());
    }
    let cache = cache(request)?;
    let before = request.notes.get(KEY).map(str::to_string);
    // A changed session gets a new key: an intercepted one is soon useless.
    let key = before.clone().filter(|_| !session.dirty && !text.is_empty()).unwrap_or_else(new_key);
    if let Some(old) = before.filter(|old| *old != key) {
        cache.remove(&stored_under(&old)).await.map_err(|error| lost(request, &old, &error))?;
    }
    let is_over = text.is_empty();
    if !is_over {
        let stored = cache.put(&stored_under(&key), text.into(), lifetime(session)).await;
        stored.map_err(|error| lost(request, &key, &error))?;
    }
    let sent = if is_over { "" } else { &key };
    send(request, [slots.get::<SocacheSessionDir>().cookie.get(), None], sent, max_age);
    Ok(())
}

/// How long a session is kept.
fn lifetime(session: &Session) -> Duration {
    let rest = session.expiry.map(|expiry| u64::try_from(expiry.saturating_sub(now())).unwrap_or(0));
    rest.map_or(DAY, Duration::from_micros)
}

/// The name of a session in the cache. Whoever reads the cache's names does not learn the clients' keys.
fn stored_under(key: &str) -> Vec<u8> {
    let digest: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{USER}:{digest}").into_bytes()
}

fn cache(request: &Request) -> Result<Arc<dyn ObjectCache>, Lost> {
    let named = request.vhost.settings.get::<SocacheSessionServer>().cache.get();
    named.and_then(NamedCache::shared).ok_or_else(|| {
        request.log("session_socache", Level::Error, "there is no SessionSocache for this host".to_string());
        Lost
    })
}

/// Logs now and then that the cache does not answer.
fn lost(request: &Request, key: &str, error: &io::Error) -> Lost {
    static OUT_OF_REACH: Complaints = Complaints::new();
    let text = format!("SessionSocache is out of reach, session '{}'", shown(key));
    OUT_OF_REACH.log(request.vhost, "session_socache", Some(error), &text);
    Lost
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        crate::testing::check(&[
            ("SessionSocache redis:192.0.2.1", ""),
            ("SessionSocache nothing", "SessionSocache: 'nothing' is no cache: mod_socache_nothing is not loaded"),
            ("SessionSocacheCookieName", "SessionSocacheCookieName takes the name of a cookie"),
            ("SessionSocacheCookieName a=b", "SessionSocacheCookieName: a name of a cookie has no '=', ';' or '&'"),
            ("SessionSocacheCookieName a path=/;HttpOnly\nSessionSocacheCookieRemove Off", ""),
        ]);
    }
}
