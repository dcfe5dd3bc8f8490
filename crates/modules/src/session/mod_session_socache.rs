//! Sessions stored in a shared object cache, such as Redis: the client has a key in a cookie, and every server that uses the same
//! Redis knows the session.
//!
//! Not one of Apache's modules: docs/fleet.md.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use conf::directive::Args::{Flag, Raw, Take1};
use conf::error::Phase as ErrorPhase;
use conf::{
    Allowed, Cmd, Context, Directive, Error, Level, ModuleInfo, Origin, Outcome, Refusal, Setting, SettingsMap,
    on_or_off, row, settings,
};
use runtime::HelperProcess;
use server::module::{NamedCache, ObjectCache, shared_caches};
use server::{Draft, HelperHook, Hook, Module, Request, Server};
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
    hooks: &[Hook::Check(check), Hook::HelperProcess(&OPEN)],
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
/// The longest session, in bytes: requests read all of it.
const SIZE_MAX: usize = 16 * 1024;
/// How long the key that a session had before its last change still leads to it: other requests of the client are under way.
const GRACE: Duration = Duration::from_secs(10);
/// How many changes may follow each other so.
const CHANGES_MAX: usize = 4;
/// What precedes the key to which an old one leads; no session begins so.
const LEADS: &str = ">";
/// How long a session without an end is kept after its last change.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

settings! {
    /// The module's settings of a server.
    pub struct SocacheSessionServer {
        cache: Setting<NamedCache>,
        /// That some section has a cookie, and the line.
        has_cookie: Setting<()>,
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
    cmd.server_set(|s: &mut SocacheSessionServer| &mut s.has_cookie, ())?;
    cmd.set(|d: &mut SocacheSessionDir| &mut d.cookie, cookie)
}

/// Refuses a cookie for sessions that nobody keeps. A line of the main server also holds for virtual hosts, which may have caches of
/// their own.
fn check(draft: &mut Draft, _: &mut Context) -> Result<(), Error> {
    let all: Vec<_> = draft.servers().map(|server| server.get::<SocacheSessionServer>()).collect();
    let lines = all.iter().filter_map(|conf| conf.has_cookie.origin());
    let is_kept = |line: &&Origin| all.iter().any(|conf| conf.has_cookie.origin() == Some(line) && conf.cache.is_set());
    match lines.into_iter().find(|line| !is_kept(line)) {
        Some(line) => {
            Err(Error::at(ErrorPhase::Check, line, "SessionSocacheCookieName has no effect without SessionSocache"))
        }
        None => Ok(()),
    }
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
    let mut key = take(request, name, dir.remove());
    if !is_key(&key) {
        return Ok(String::new());
    }
    let cache = cache(request)?;
    for _ in 0..CHANGES_MAX {
        let found = cache.get(&stored_under(name, &key)).await.map_err(|error| lost(request, &key, &error))?;
        let found = found.filter(|bytes| bytes.len() <= SIZE_MAX);
        let Some(text) = found.and_then(|bytes| String::from_utf8(bytes.into()).ok()) else { break };
        match text.strip_prefix(LEADS) {
            Some(next) => key = next.to_string(),
            None => {
                request.notes.set(KEY, key);
                return Ok(text);
            }
        }
    }
    Ok(String::new())
}

/// Stores a session, and sends its key to the client; or ends it, if nothing is left of it. A session that has ended meanwhile
/// stays so.
pub(super) async fn write(
    request: &mut Request,
    slots: &SettingsMap,
    text: String,
    session: &Session,
    max_age: i64,
) -> Result<(), Lost> {
    let Some(cookie @ (name, _)) = slots.get::<SocacheSessionDir>().cookie.get() else { return Ok(()) };
    if request.is_hypothetical() {
        return Ok(());
    }
    if text.len() > SIZE_MAX {
        let text = format!("a session of more than {SIZE_MAX} bytes is not stored");
        request.log("session_socache", Level::Error, text);
        return Err(Lost);
    }
    let cache = cache(request)?;
    let is_over = text.is_empty();
    let before = request.notes.get(KEY).map(str::to_string);
    // A changed session gets a new key: an intercepted one is soon useless.
    let key = before.clone().filter(|_| !session.dirty).unwrap_or_else(new_key);
    let under = stored_under(name, &key);
    let stored = match &before {
        Some(old) if is_over => cache.remove(&stored_under(name, old)).await.map(|()| true),
        None if is_over => Ok(true),
        Some(_) if !session.dirty => cache.replace(&under, text.into(), lifetime(session)).await,
        Some(old) => succeed(&*cache, &stored_under(name, old), &key, &under, (text, lifetime(session))).await,
        None => cache.put(&under, text.into(), lifetime(session)).await.map(|()| true),
    };
    if stored.map_err(|error| lost(request, &key, &error))? {
        let sent = if is_over { "" } else { &key };
        send(request, [Some(cookie), None], sent, max_age);
    }
    Ok(())
}

/// Stores a session under a new key, to which the old one leads for a moment. `false`: the session has ended meanwhile.
async fn succeed(
    cache: &dyn ObjectCache,
    old: &[u8],
    key: &str,
    under: &[u8],
    (text, lifetime): (String, Duration),
) -> io::Result<bool> {
    cache.put(under, text.into(), lifetime).await?;
    let goes_on = cache.replace(old, format!("{LEADS}{key}").into(), GRACE).await?;
    if !goes_on {
        cache.remove(under).await?;
    }
    Ok(goes_on)
}

/// How long a session is kept.
fn lifetime(session: &Session) -> Duration {
    let rest = session.expiry.map(|expiry| u64::try_from(expiry.saturating_sub(now())).unwrap_or(0));
    rest.map_or(DAY, Duration::from_micros)
}

/// The name of a session in the cache: cookies with different names have different sessions. Whoever reads the cache's names does not
/// learn the clients' keys.
fn stored_under(cookie: &str, key: &str) -> Vec<u8> {
    let digest = Sha256::new().chain_update(cookie).chain_update("=").chain_update(key).finalize();
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{USER}:{digest}").into_bytes()
}

fn cache(request: &Request) -> Result<Arc<dyn ObjectCache>, Lost> {
    let named = request.vhost.settings.get::<SocacheSessionServer>().cache.get();
    named.and_then(NamedCache::shared).ok_or_else(|| {
        request.log("session_socache", Level::Error, "there is no SessionSocache for this host");
        Lost
    })
}

/// Logs now and then that the cache does not answer.
fn lost(request: &Request, key: &str, error: &io::Error) -> Lost {
    static OUT_OF_REACH: Complaints = Complaints::new();
    let text = format!("SessionSocache is out of reach, session '{}'", shown(key));
    let store = request.vhost.settings.get::<SocacheSessionServer>().cache.get().map(NamedCache::name);
    OUT_OF_REACH.log(request.vhost, "session_socache", &store.unwrap_or_default(), Some(error), &text);
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
            (
                "SessionSocache redis:192.0.2.1\nSessionSocacheCookieName a path=/;HttpOnly\nSessionSocacheCookieRemove Off",
                "",
            ),
        ]);
    }
}
