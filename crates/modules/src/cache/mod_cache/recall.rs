//! Finds the stored response to a request, and what is to become of the request if there is none.

use conf::Level;
use server::{Body, HandlerResult, Moment, Request};

use super::fields::{CONDITIONS, restore, warn};
use super::freshness::{Freshness, is_within, judge};
use super::invalidate::Invalidation;
use super::lock::{self, Locked};
use super::mark::{self, Recalled};
use super::pending::{Pending, Stale};
use super::report::{Outcome, report};
use super::settings::CacheServer;
use super::{key, storages};
use crate::cache::control::Control;
use crate::cache::entry::{Entry, Micros};
use crate::cache::storage::Found;

/// The methods that change nothing (RFC 9110 section 9.2.1, and those of WebDAV).
const SAFE: [&str; 7] = ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH"];

/// Now, by the clock.
pub(super) fn now() -> Micros {
    sys::time::realtime().as_micros() as Micros
}

/// Answers a request with a stored response. `Declined`: the origin answers, and the request may have the cache go along.
pub(super) async fn recall(request: &mut Request, moment: Moment) -> HandlerResult {
    // Another request may find another response.
    request.asks_beyond_head();
    let storages = storages::of(request);
    if storages.is_empty() {
        return HandlerResult::Declined;
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
    let is_get = matches!(&*request.data.method, "GET" | "HEAD") && request.body.is_none();
    if !is_get || is_private || client.no_store && !ignores {
        return HandlerResult::Declined;
    }
    let has_mark = moment == Moment::BeforeHandler && mark::is_set(request);
    // A client that wants a new response gets one that is no confirmation of an old one.
    let reloads = client.no_cache && !ignores;
    let mut stale = None;
    for storage in storages.iter().filter(|_| !reloads) {
        let found =
            storage.find(request, &key).await.filter(|found| found.entry.answers(|name| request.header_joined(name)));
        let Some(found) = found else { continue };
        match judge(&found.entry, &client, ignores, now()) {
            Freshness::Fresh { is_stale, is_guess, .. } => {
                let warnings = [(is_stale, STALE), (is_guess, GUESSED)];
                return hit(request, found, has_mark, warnings.into_iter().filter(|(is, _)| *is).map(|(_, text)| text));
            }
            Freshness::Stale if client.only_if_cached => {}
            Freshness::Stale => {
                stale = Some(found);
                break;
            }
        }
    }
    if client.only_if_cached {
        request.log("cache", Level::Debug, "AH00696: cache: 'only-if-cached' requested and no cached entity");
        return HandlerResult::Status(504);
    }
    let grace =
        stale.as_ref().filter(|found| is_within(&found.entry, found.entry.control.stale_while_revalidate, now()));
    let lock = match lock::take(request, &key, grace.is_some()).await {
        Locked::Here(lock) => lock,
        Locked::Elsewhere => {
            let is_usable = |entry: &Entry| {
                let Control { no_cache, invalidated, .. } = entry.control;
                !(no_cache || invalidated || entry.control.forbids_stale())
            };
            return match stale.filter(|found| is_usable(&found.entry)) {
                Some(found) => hit(request, found, has_mark, std::iter::once(STALE)),
                None => HandlerResult::Declined,
            };
        }
    };
    let stale = stale.map(|found| Stale { changed: confirm(request, &found.entry), found });
    request.caching = Some(Box::new(Pending { key, storages, stale, lock, has_mark }));
    HandlerResult::Declined
}

/// Warnings of old (RFC 7234 section 5.5).
const STALE: &str = "110 Response is stale";
const GUESSED: &str = "113 Heuristic expiration";

/// Answers with a stored response; `mark`: filters work on it.
fn hit(
    request: &mut Request,
    Found { entry, content, .. }: Found,
    mark: bool,
    warnings: impl Iterator<Item = &'static str>,
) -> HandlerResult {
    restore(request, &entry, now());
    warnings.for_each(|warning| warn(request, warning));
    report(request, Outcome::Hit, "cache hit");
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
