//! Finds the stored response to a request, and what is to become of the request if there is none.

use conf::Level;
use server::{Body, HandlerResult, Moment, Request};
use sys::time::Instant;

use super::fields::{CONDITIONS, restore, warn};
use super::freshness::{Freshness, is_within, judge};
use super::invalidate::Invalidation;
use super::lock::{self, Elsewhere, Lock, Locked};
use super::mark::{self, Recalled};
use super::passed::pass;
use super::pending::{Pending, Stale};
use super::queue::End;
use super::report::{Forward, Outcome, Why, report, tell};
use super::settings::CacheServer;
use super::{key, lasting, renewal, storages};
use crate::cache::control::Control;
use crate::cache::entry::{Entry, Micros};
use crate::cache::storage::{Content, Found, Missing, Storage};

/// The methods that change nothing (RFC 9110 section 9.2.1, and those of WebDAV).
const SAFE: [&str; 7] = ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH"];

/// Now, by the clock.
pub(super) fn now() -> Micros {
    sys::time::realtime().as_micros() as Micros
}

/// Answers a request with a stored response. `Declined`: the origin answers, and the request may have the cache go along.
pub(super) async fn recall(request: &mut Request, moment: Moment) -> HandlerResult {
    let result = answer(request, moment).await;
    if !request.is_answered_from_store() {
        // Another request may find another response.
        request.asks_beyond_head();
    }
    result
}

async fn answer(request: &mut Request, moment: Moment) -> HandlerResult {
    let storages = storages::of(request);
    if storages.is_empty() {
        return pass(request, Why::Bypass);
    }
    let key = key::of(request);
    if !SAFE.contains(&&*request.data.method) {
        request.caching = Some(Box::new(Invalidation { key, storages }));
        return HandlerResult::Declined;
    }
    let client =
        Control::of(request.header_joined("Cache-Control").as_deref(), request.header_joined("Pragma").as_deref());
    let ignores = request.host::<CacheServer>().ignore_cache_control();
    // Before the phases nobody has checked a password.
    let is_private = moment == Moment::BeforePhases && request.header("Authorization").is_some();
    if !matches!(&*request.data.method, "GET" | "HEAD") {
        return pass(request, Why::Method);
    }
    if !request.body.is_none() || is_private {
        return pass(request, Why::Bypass);
    }
    if client.no_store && !ignores {
        return pass(request, Why::Request);
    }
    let has_mark = moment == Moment::BeforeHandler && mark::is_set(request);
    // A client that wants a new response gets one that is no confirmation of an old one.
    let reloads = client.no_cache && !ignores;
    let deadline = Instant::now() + lock::max_age(request);
    let (mut may_wait, mut collapsed, mut elsewhere) = (!reloads, None, None::<Elsewhere>);
    let is_plain = is_plain(request);
    let (stale, lock, why) = loop {
        let looked =
            if reloads { Looked::Miss(Why::Request) } else { look(request, &storages, &key, &client, ignores).await };
        let (stale, why) = match looked {
            Looked::Fresh(mut found, warnings) => {
                if let Some(elsewhere) = elsewhere {
                    elsewhere.found();
                }
                let lasts = !has_mark && collapsed.is_none() && warnings == [None, None];
                if let Some(watch) = found.watch.take().filter(|_| lasts) {
                    lasting::offer(request, &found.entry, watch, &client, moment);
                }
                return hit(request, found.entry, found.content, has_mark, collapsed.is_some(), warnings);
            }
            Looked::Stale(found) => (Some(found), Why::Stale),
            Looked::Miss(why) => (None, why),
        };
        if client.only_if_cached {
            request.log("cache", Level::Debug, "AH00696: cache: 'only-if-cached' requested and no cached entity");
            return HandlerResult::Status(504);
        }
        let grace = stale.as_ref().is_some_and(has_grace);
        // A client that wants it fresher waits for the origin.
        let is_late = grace && (ignores || client.max_age.is_none() && client.min_fresh.is_none());
        if is_late
            && renewal::is_under_way(&key)
            && let Some(found) = stale
        {
            return hit(request, found.entry, found.content, has_mark, false, [Some(STALE), None]);
        }
        // What others could not use is not what they wait for.
        if !is_plain && stale.is_none() || request.tunnel_for().is_some() {
            break (stale, None, why);
        }
        let locked = match elsewhere.take() {
            Some(elsewhere) => elsewhere.take(request, &key).await,
            None => lock::take(request, &key, grace).await,
        };
        if let Locked::Here(lock) = locked {
            if !is_late {
                break (stale, lock, why);
            }
            // Another child may have renewed it before it gave the lock away.
            match look(request, &storages, &key, &client, ignores).await {
                Looked::Fresh(found, warnings) => {
                    return hit(request, found.entry, found.content, has_mark, false, warnings);
                }
                Looked::Stale(found) if has_grace(&found) => {
                    let forward = Forward { why: Why::Stale, collapsed: None };
                    let pending = Pending { key, storages, stale: None, lock, is_plain: true, has_mark, forward };
                    return renew(request, found, pending);
                }
                Looked::Stale(found) => break (Some(found), lock, Why::Stale),
                Looked::Miss(why) => break (None, lock, why),
            }
        }
        if let Some(found) = stale {
            let Control { no_cache, invalidated, .. } = found.entry.control;
            // It is being renewed, and a client that wants it fresher does not wait for that.
            let is_too_old = grace && !is_late;
            return match no_cache || invalidated || found.entry.control.forbids_stale() || is_too_old {
                true => pass(request, why),
                false => hit(request, found.entry, found.content, has_mark, false, [Some(STALE), None]),
            };
        }
        if reloads {
            return pass(request, why);
        }
        if !may_wait || Instant::now() >= deadline {
            break (None, None, why);
        }
        request.log("cache", Level::Debug, format!("{}: waits for another request", request.data.unparsed_uri()));
        collapsed = Some(false);
        match locked {
            // After that this request has its own try; so it waits for one response at most.
            Locked::Behind(behind) => may_wait = behind.wait(deadline).await == End::Open,
            Locked::Elsewhere(mut other) => {
                may_wait = other.gone(deadline).await;
                elsewhere = Some(other);
            }
            Locked::Here(_) => {}
        }
    };
    let stale = stale.map(|found| Stale { changed: confirm(request, &found.entry), found });
    let forward = Forward { why, collapsed };
    request.caching = Some(Box::new(Pending { key, storages, stale, lock, is_plain, has_mark, forward }));
    HandlerResult::Declined
}

/// Whether a stale response may go out while it is renewed (RFC 5861 section 3).
fn has_grace(found: &Found) -> bool {
    is_within(&found.entry, found.entry.control.stale_while_revalidate, now())
}

/// Answers with a stale response, while a request without a client has the origin confirm it. `pending`: what becomes of the
/// response to that request.
fn renew(request: &mut Request, Found { entry, content, place, .. }: Found, pending: Pending) -> HandlerResult {
    let mut renewing = request.unattended();
    let headers = renewing.headers_mut();
    ["Range"].iter().chain(&CONDITIONS).for_each(|name| headers.remove(name));
    let changed = confirm(&mut renewing, &entry);
    let found = Found { entry: entry.clone(), content: content.clone(), place, watch: None };
    let pending = Pending { stale: Some(Stale { found, changed }), is_plain: is_plain(request), ..pending };
    let (key, has_mark) = (pending.key.clone(), pending.has_mark);
    let lock = pending.lock.as_ref().and_then(Lock::file);
    renewing.caching = Some(Box::new(pending));
    renewal::begin(request, &key, renewing, lock);
    hit(request, entry, content, has_mark, false, [Some(STALE), None])
}

/// Whether others may use the response to a request, as far as that depends on the request.
fn is_plain(request: &Request) -> bool {
    let own = ["Range", "Authorization"];
    request.data.method == "GET" && !own.iter().chain(&CONDITIONS).any(|name| request.header(name).is_some())
}

/// What is stored for a request.
enum Looked {
    /// It answers the request, with these warnings.
    Fresh(Found, [Option<&'static str>; 2]),
    /// The origin has to confirm it.
    Stale(Found),
    Miss(Why),
}

/// Looks for a response in all storages.
async fn look(request: &Request, storages: &[&'static Storage], key: &str, client: &Control, ignores: bool) -> Looked {
    let mut why = Why::UriMiss;
    for storage in storages {
        let found = match (storage.find)(request, key).await {
            Ok(found) if found.entry.answers(|name| request.header_joined(name)) => found,
            Err(Missing::Key) => continue,
            Ok(_) | Err(Missing::Variant) => {
                why = Why::VaryMiss;
                continue;
            }
        };
        match judge(&found.entry, client, ignores, now()) {
            Freshness::Fresh { is_stale, is_guess, .. } => {
                return Looked::Fresh(found, [is_stale.then_some(STALE), is_guess.then_some(GUESSED)]);
            }
            Freshness::Stale if client.only_if_cached => {}
            Freshness::Stale => return Looked::Stale(found),
        }
    }
    Looked::Miss(why)
}

/// Warnings of old (RFC 7234 section 5.5).
const STALE: &str = "110 Response is stale";
const GUESSED: &str = "113 Heuristic expiration";

/// Answers with a stored response. `mark`: filters work on it; `collapsed`: it was stored while this request waited.
fn hit(
    request: &mut Request,
    entry: Entry,
    content: Content,
    mark: bool,
    collapsed: bool,
    warnings: [Option<&'static str>; 2],
) -> HandlerResult {
    restore(request, &entry, now());
    warnings.into_iter().flatten().for_each(|warning| warn(request, warning));
    report(request, Outcome::Hit, "cache hit");
    tell(request, false, || {
        let how = match collapsed {
            true => Forward { why: Why::UriMiss, collapsed: Some(true) }.parameters(None, false),
            false => "hit".into(),
        };
        format!("{how}; ttl={}", entry.lifetime().saturating_sub(entry.age(now())))
    });
    match mark {
        false => HandlerResult::Recalled(content.into()),
        true => {
            request.caching = Some(Box::new(Recalled::new(request, entry, content)));
            HandlerResult::Body(Body::Empty)
        }
    }
}

/// Has the origin confirm a stored response: its validators take the place of the client's conditions. Returns the fields of
/// the request as they were.
fn confirm(request: &mut Request, entry: &Entry) -> Option<server::Fields> {
    let changed = request.data.changed_fields().cloned();
    let headers = request.headers_mut();
    CONDITIONS.iter().for_each(|name| headers.remove(name));
    for (field, condition) in [("ETag", "If-None-Match"), ("Last-Modified", "If-Modified-Since")] {
        if let Some(validator) = entry.fields.get(field) {
            headers.set(condition, validator);
            // Either nothing is sent, or something new that is wanted whole.
            headers.remove("Range");
        }
    }
    changed
}
