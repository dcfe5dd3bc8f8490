//! Sessions: names and values that a client sends back with each request.
//!
//! A session is read on first use, stored in the notes of the request meanwhile, and sent with the response if it has
//! changed or if its expiry has moved.
//!
//! Apache manual: mod_session; messages and fields measured on 2.4.71.

use conf::directive::Args::{Flag, Take1};
use conf::values::{atoi, strtol};
use conf::{Cmd, Directive, Level, Listed, ModuleInfo, Outcome, Setting, SettingsMap, on_or_off, row, settings};
use server::{Flow, Hook, Module, Order, Phase, PhaseHook, Request, ResponseHook};

use super::data::{PLACES, Session, now};
use super::key::{KEY, Lost};
use super::{mod_session_cookie, mod_session_crypto, mod_session_dbd, mod_session_socache};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "session_module", source: "mod_session.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(
            Phase::Fixups,
            Order::Middle,
            PhaseHook::Later { claims: is_due, run: |request| Box::pin(show(request)) },
        ),
        Hook::ResponseFields(
            Order::Middle,
            ResponseHook::Later { claims: may_save, run: |request, _| Box::pin(save(request)) },
        ),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("Session", PLACES, Flag(|c, on| c.set(|d: &mut SessionDir| &mut d.enabled, on)), on_or_off(ENABLED), "on if a session should be maintained for these URLs"),
    row("SessionMaxAge", PLACES, Take1(|c, v| { let age = strtol(v).max(0); c.set(|d: &mut SessionDir| &mut d.max_age, age) }), "0", "length of time for which a session should be valid. Zero to disable"),
    row("SessionHeader", PLACES, Take1(|c, v| c.set(|d: &mut SessionDir| &mut d.header, v.to_string())), "", "output header, if present, whose contents will be injected into the session."),
    row("SessionEnv", PLACES, Flag(|c, on| c.set(|d: &mut SessionDir| &mut d.env, on)), on_or_off(false), "on if a session should be written to the CGI environment. Defaults to off"),
    row("SessionInclude", PLACES, Take1(|c, v| c.push(|d: &mut SessionDir| &mut d.includes, v.to_string())), "", "URL prefixes to include in the session. Defaults to all URLs"),
    row("SessionExclude", PLACES, Take1(|c, v| c.push(|d: &mut SessionDir| &mut d.excludes, v.to_string())), "", "URL prefixes to exclude from the session. Defaults to no URLs"),
    row("SessionExpiryUpdateInterval", PLACES, Take1(set_interval), "0", "time interval for which a session's expiry time may change without having to be rewritten. Zero to disable"),
];

/// Whether sessions are on by default.
const ENABLED: bool = false;

settings! {
    /// The module's settings of a section.
    pub struct SessionDir {
        enabled: Setting<bool> = ENABLED,
        max_age: Setting<i64>,
        header: Setting<String>,
        env: Setting<bool>,
        includes: Listed<String>,
        excludes: Listed<String>,
        interval: Setting<i32>,
    }
}

fn set_interval(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        ..0 => Err("SessionExpiryUpdateInterval must be zero (disable) or a positive value".into()),
        seconds => cmd.set(|d: &mut SessionDir| &mut d.interval, seconds),
    }
}

/// The notes of a request for its session, and for a change of it.
const NOTE: &str = "mod_session";
const DIRTY: &str = "mod_session-dirty";
/// The note that it could not be read: this is not tried a second time, and it is not replaced.
const LOST: &str = "mod_session-lost";
const SECOND: i64 = 1_000_000;

/// The session of a request; `None` if there is none, or if it cannot be read, which is logged.
pub(crate) async fn load(request: &mut Request) -> Option<Session> {
    let slots = request.dir.slots.clone();
    load_by(request, &slots).await
}

/// Whether the session of a request could not be read.
pub(crate) fn is_lost(request: &Request) -> bool {
    request.notes.get(LOST).is_some()
}

async fn load_by(request: &mut Request, slots: &SettingsMap) -> Option<Session> {
    let dir = slots.get::<SessionDir>();
    if !dir.enabled() || request.notes.get(LOST).is_some() {
        return None;
    }
    let uri = request.data.uri.clone();
    let is_below = |prefix: &String| uri.starts_with(prefix.as_str());
    if !dir.includes.is_empty() && !dir.includes.iter().any(is_below) || dir.excludes.iter().any(is_below) {
        request.log("session", Level::Debug, format!("AH01814: excluded by configuration for: {uri}"));
        return None;
    }
    if let Some(text) = request.notes.get(NOTE).map(str::to_string) {
        let mut session = Session::default();
        session.read(&text);
        session.dirty = request.notes.get(DIRTY).is_some();
        return Some(session);
    }
    if let Some(session) = earlier(request, slots) {
        return Some(session);
    }
    if mod_session_socache::is_configured(slots) && mod_session_cookie::is_configured(slots) {
        let text = "SessionCookieName and SessionSocacheCookieName are both set here, session not loaded:";
        request.log("session", Level::Error, format!("{text} {uri}"));
        request.notes.set(LOST, "1");
        return None;
    }
    let text = if mod_session_socache::is_configured(slots) {
        mod_session_socache::read(request, slots).await.map(Some)
    } else {
        match mod_session_cookie::read(request, slots) {
            Some(text) => Ok(Some(text)),
            None => mod_session_dbd::read(request, slots).await,
        }
    };
    let text = match text {
        Ok(Some(text)) => text,
        Ok(None) => {
            let text = "AH01815: session is enabled but no session modules have been configured, session not loaded:";
            request.log("session", Level::Warn, format!("{text} {uri}"));
            return None;
        }
        Err(Lost) => {
            let text = format!("AH01816: error while loading the session, session not loaded: {uri}");
            request.log("session", Level::Error, text);
            request.notes.set(LOST, "1");
            return None;
        }
    };
    forbid_caches(request);
    // An unreadable one begins anew.
    let text = mod_session_crypto::open(request, slots, text).unwrap_or_default();
    let (mut session, now) = (Session::default(), now());
    session.read(&text);
    if session.expiry.is_some_and(|expiry| expiry < now) {
        session = Session::default();
    }
    if session.expiry.is_none() {
        session.expiry = expiry_of(dir, now);
    }
    keep(request, &session);
    Some(session)
}

/// The session that was read before an internal redirect from the same cookie: it may have changed since.
fn earlier(request: &mut Request, slots: &SettingsMap) -> Option<Session> {
    let name = mod_session_cookie::name(slots)?;
    let all = std::iter::successors(request.previous(), |previous| previous.before.as_ref());
    let mut same = all.filter(|previous| mod_session_cookie::name(&previous.dir.slots) == Some(name));
    let previous = same.find(|previous| previous.notes.get(NOTE).is_some())?;
    let mut session = Session::default();
    session.read(previous.notes.get(NOTE)?);
    session.dirty = previous.notes.get(DIRTY).is_some();
    keep(request, &session);
    Some(session)
}

/// Makes a response with a session private.
pub(super) fn forbid_caches(request: &mut Request) {
    let fields = &mut request.response.headers_out;
    if !fields.iter().any(|(name, value)| name.eq_ignore_ascii_case("Cache-Control") && value == PRIVATE) {
        fields.add("Cache-Control", PRIVATE);
    }
}

const PRIVATE: &str = "no-cache, private";

/// Stores a session for the rest of the request.
pub(crate) fn keep(request: &mut Request, session: &Session) {
    request.notes.set(NOTE, session.text());
    if session.dirty {
        request.notes.set(DIRTY, "1");
    }
}

fn expiry_of(dir: &SessionDir, now: i64) -> Option<i64> {
    dir.max_age.get().filter(|age| **age > 0).map(|age| now.saturating_add(age.saturating_mul(SECOND)))
}

/// Whether the session is read before the handler runs: for `SessionEnv`, and in order to hide the cookie from others. The
/// request that a subrequest belongs to has done so already.
fn is_due(request: &Request) -> bool {
    let dir = request.dir::<SessionDir>();
    let slots = &request.dir.slots;
    let has_store = mod_session_cookie::is_configured(slots)
        || mod_session_socache::is_configured(slots)
        || mod_session_dbd::is_configured(request);
    dir.env.value_or(false) || dir.enabled() && has_store && !request.is_subrequest()
}

/// Reads the session. `SessionEnv`: scripts see it.
async fn show(request: &mut Request) -> Flow {
    if let Some(session) = load(request).await
        && request.dir::<SessionDir>().env.value_or(false)
    {
        request.env.set("HTTP_SESSION", session.text());
    }
    Flow::Declined
}

/// Whether there may be a session to send: here, or before an internal redirect.
fn may_save(request: &Request) -> bool {
    request.dir::<SessionDir>().enabled() || request.previous().is_some()
}

/// Sends the session back with the response.
async fn save(request: &mut Request) {
    let slots = request.dir.slots.clone();
    save_by(request, &slots).await;
    // Changes before an internal redirect have to be saved too.
    let mut before = request.previous().cloned();
    while let Some(previous) = before {
        if previous.notes.get(DIRTY).is_some() && request.notes.get(NOTE).is_none() {
            for name in [NOTE, DIRTY, KEY] {
                previous.notes.get(name).into_iter().for_each(|note| request.notes.set(name, note));
            }
            save_by(request, &previous.dir.slots).await;
        }
        before = previous.before.clone();
    }
}

async fn save_by(request: &mut Request, slots: &SettingsMap) {
    let dir = slots.get::<SessionDir>();
    if !dir.enabled() {
        return;
    }
    let Some(mut session) = load_by(request, slots).await else { return };
    if mod_session_cookie::is_hidden(slots) {
        // Apache reads such a session again.
        forbid_caches(request);
    }
    if let Some(name) = dir.header.get() {
        let response = &mut request.response;
        let text = response.err_headers_out.get(name).or_else(|| response.headers_out.get(name)).map(str::to_string);
        if let Some(text) = text {
            response.err_headers_out.remove(name);
            response.headers_out.remove(name);
            session.read(&text);
            session.dirty = true;
        }
    }
    let before = session.expiry;
    session.expiry = expiry_of(dir, now()).or(session.expiry);
    let moved = session.expiry.zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
    let interval = i64::from(dir.interval.value_or(0)).saturating_mul(SECOND);
    let is_moved = dir.max_age.value_or(0) > 0 && moved >= interval;
    if !session.dirty && !is_moved {
        return;
    }
    let Some(text) = mod_session_crypto::seal(request, slots, session.text()) else { return };
    let max_age = dir.max_age.value_or(0);
    if mod_session_cookie::is_configured(slots) {
        return mod_session_cookie::write(request, slots, &text, max_age);
    }
    let saved = match mod_session_socache::is_configured(slots) {
        true => mod_session_socache::write(request, slots, text, &session, max_age).await,
        false => mod_session_dbd::write(request, slots, text, &session, max_age).await,
    };
    if saved.is_err() {
        if mod_session_socache::is_configured(slots) && session.is_empty() {
            // Nobody may believe that a session is over which goes on.
            request.fails_closed();
        }
        let text = format!("AH01822: error while saving the session, session not saved: {}", request.data.uri);
        request.log("session", Level::Error, text);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        crate::testing::check(&[
            ("Session On\nSessionMaxAge x\nSessionEnv Off\nSessionInclude /\nSessionExclude /a", ""),
            (
                "SessionExpiryUpdateInterval -1",
                "SessionExpiryUpdateInterval must be zero (disable) or a positive value",
            ),
            ("<Location />\nSession maybe\n</Location>", "Session must be On or Off"),
        ]);
    }
}
