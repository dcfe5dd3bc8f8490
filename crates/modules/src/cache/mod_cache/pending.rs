//! A request whose response comes from the origin: whether that is stored, and whether a stored one goes out instead.

use std::borrow::Cow;
use std::ops::ControlFlow;

use conf::Level;
use server::{Body, Caching, Fields, HandlerResult, Keep, Request, Waiting};

use super::fields::{CONDITIONS, asked, outgoing, restore, updated, warn, without_unstored};
use super::freshness::is_within;
use super::invalidate::work;
use super::lock::Lock;
use super::mark::Recalled;
use super::queue::End;
use super::recall::now;
use super::report::{Forward, Outcome, report, tell};
use super::saving::{Keeping, Saving};
use super::settings::{CacheDir, CacheServer};
use super::storable::Candidate;
use crate::cache::control::Control;
use crate::cache::entry::{Entry, Micros, micros};
use crate::cache::storage::{Content, Found, Place, Storage};

/// The status codes of responses that are about the client, or about what it has sent.
const OWN: [u16; 5] = [400, 401, 403, 407, 429];

/// A request that the origin answers.
pub(super) struct Pending {
    pub(super) key: String,
    pub(super) storages: Vec<&'static Storage>,
    /// The stored response that the origin is to confirm.
    pub(super) stale: Option<Stale>,
    pub(super) lock: Option<Lock>,
    /// Others may use the response, as far as that depends on the request.
    pub(super) is_plain: bool,
    /// The response is stored at a place among the filters, so that some of them work on stored ones.
    pub(super) has_mark: bool,
    pub(super) forward: Forward,
}

/// A stored response that is not fresh.
pub(super) struct Stale {
    pub(super) found: Found,
    /// The fields of the request, before it was to have that response confirmed.
    pub(super) changed: Option<Fields>,
}

impl Caching for Pending {
    fn save<'a>(self: Box<Self>, request: &'a mut Request, body: Body) -> Waiting<'a, Result<Body, HandlerResult>> {
        Box::pin(self.decide(request, body))
    }

    fn confirm<'a>(mut self: Box<Self>, request: &'a mut Request) -> Waiting<'a, Result<(), HandlerResult>> {
        Box::pin(async move {
            if !self.has_mark || self.stale.is_none() {
                // The fields that modules add also belong to what is stored.
                request.caching = Some(self);
                return Ok(());
            }
            let Assessment { obstacle, entry, fields, .. } = self.assess(request, &Body::Empty);
            let Some(stale) = self.stale.take_if(|_| obstacle.is_none()) else {
                return Err(self.ask_again(request, &obstacle.unwrap_or_default()).await);
            };
            let (entry, content) = refresh(request, stale, entry, &fields).await;
            self.refreshed(request);
            match request.unmet_condition() {
                Some(status) => request.response.set_status(status),
                None => request.caching = Some(Box::new(Recalled::new(request, entry, content))),
            }
            Ok(())
        })
    }

    fn replace_page<'a>(mut self: Box<Self>, request: &'a mut Request, status: u16) -> Waiting<'a, Option<Body>> {
        Box::pin(async move {
            if let ControlFlow::Break(body) = self.instead_of_error(request, status) {
                return Some(body);
            }
            let keeps = status >= 500 && request.dir::<CacheDir>().stale_on_error();
            self.forget(request, keeps).await;
            self.unstorable(request, status);
            tell(request, true, || self.forward.parameters(None, false));
            None
        })
    }
}

/// What is to become of a response.
struct Assessment {
    /// Why it is not stored.
    obstacle: Option<Cow<'static, str>>,
    is_older: bool,
    /// What is stored, without fields.
    entry: Entry,
    fields: Fields,
}

impl Pending {
    fn assess(&self, request: &Request, body: &Body) -> Assessment {
        let status = request.response.status();
        let mut fields = outgoing(request);
        if let Some(length) = body.length().filter(|_| status != 304) {
            fields.set("Content-Length", length.to_string());
        }
        let stale = self.stale.as_ref().map(|stale| &stale.found.entry);
        let control = control_of(&fields, stale.filter(|_| status == 304));
        let request_time = request.time().as_micros() as Micros;
        let candidate = Candidate {
            status,
            fields: &fields,
            control: &control,
            has_query: request.data.args.is_some() && !request.host::<CacheServer>().ignore_query(),
            is_authorized: request.header("Authorization").is_some(),
            is_excluded: request.env.contains("no-cache"),
            request_time,
            stale,
        };
        let dir = request.dir::<CacheDir>();
        let now = now();
        let date = fields.get("Date").and_then(micros).unwrap_or(now);
        let expire = candidate.expiry(date, dir);
        let (obstacle, is_older) = (candidate.obstacle(dir), candidate.is_older());
        let entry = Entry { status, date, expire, request_time, response_time: now, control, ..Entry::default() };
        Assessment { obstacle, is_older, entry, fields }
    }

    async fn decide(mut self: Box<Self>, request: &mut Request, body: Body) -> Result<Body, HandlerResult> {
        let status = request.response.status();
        if let ControlFlow::Break(body) = self.instead_of_error(request, status) {
            return Ok(conditioned(request, body));
        }
        let Assessment { obstacle, is_older, entry, fields } = self.assess(request, &body);
        if let Some(reason) = obstacle {
            if status == 304 && self.stale.is_some() {
                return Err(self.ask_again(request, &reason).await);
            }
            let keeps = is_older || status >= 500 && request.dir::<CacheDir>().stale_on_error();
            self.forget(request, keeps).await;
            self.unstorable(request, status);
            report(request, Outcome::Miss, reason);
            tell(request, false, || self.forward.parameters(None, false));
            return Ok(wanted(request, body));
        }
        match self.stale.take() {
            Some(stale) if status == 304 => {
                let (_, content) = refresh(request, stale, entry, &fields).await;
                self.refreshed(request);
                Ok(conditioned(request, content.into()))
            }
            stale => {
                let replaces = stale.map(|Stale { found, changed }| {
                    request.restore_headers(changed);
                    found.place
                });
                let asked = asked(request, &fields);
                let fields = without_unstored(request, fields);
                let header_only = request.data.header_only;
                Ok(self.store(request, Entry { fields, asked, header_only, ..entry }, body, replaces).await)
            }
        }
    }

    /// Begins to store the response. `replaces`: what is stored now.
    async fn store(
        mut self,
        request: &mut Request,
        entry: Entry,
        body: Body,
        replaces: Option<Box<dyn Place>>,
    ) -> Body {
        let length = body.length();
        let begin =
            |storage: &&'static Storage| Some((*storage, (storage.begin)(request, &self.key, entry.clone(), length)?));
        let Some((storage, draft)) = self.storages.iter().find_map(begin) else {
            self.unstorable(request, entry.status);
            report(request, Outcome::Miss, "cache miss: cache unwilling to store response");
            tell(request, false, || self.forward.parameters(None, false));
            if let Some(replaces) = replaces {
                // What could not be removed was logged.
                let _ = work(request, replaces.remove()).await;
            }
            return wanted(request, body);
        };
        report(request, Outcome::Miss, "cache miss: attempting entity save");
        tell(request, false, || self.forward.parameters(None, true));
        // No GET can use the response to a HEAD: the next request has its turn.
        let lock = self.lock.take_if(|_| !entry.header_only);
        let keeping = Keeping { draft, lock, replaces, is_wanted: !request.is_unattended(), host: request.vhost };
        if entry.header_only {
            keeping.commit().await;
            return body;
        }
        Saving::begin(keeping, body, (storage.gather)(request)).await
    }

    /// Lets those go who wait for the response: it is not stored. That of the next request may be, if the reason is this one.
    fn unstorable(&mut self, request: &Request, status: u16) {
        let is_own = !self.is_plain || OWN.contains(&status) || request.env.contains("no-cache");
        if let Some(lock) = self.lock.take() {
            lock.settle(if is_own { End::Alone } else { End::Unstorable });
        }
    }

    /// The origin has confirmed the stored response.
    fn refreshed(&mut self, request: &mut Request) {
        tell(request, false, || self.forward.parameters(Some(304), false));
        if let Some(lock) = self.lock.take() {
            lock.settle(End::Stored);
        }
    }

    /// The stored response, if it is to go out instead of an error (RFC 5861 section 4).
    fn instead_of_error(&mut self, request: &mut Request, status: u16) -> ControlFlow<Body> {
        let usable = |stale: &mut Stale| {
            let entry = &stale.found.entry;
            let Control { no_cache, invalidated, s_maxage, stale_if_error, .. } = entry.control;
            let is_configured = request.dir::<CacheDir>().stale_on_error()
                && !(no_cache || invalidated || s_maxage.is_some() || entry.control.forbids_stale());
            is_configured || is_within(entry, stale_if_error, now())
        };
        // Behind a mark, filters would have to work on it.
        if status < 500 || self.has_mark {
            return ControlFlow::Continue(());
        }
        let Some(Stale { found, changed }) = self.stale.take_if(usable) else { return ControlFlow::Continue(()) };
        request.restore_headers(changed);
        request.response.headers_out.clear();
        request.response.err_headers_out.clear();
        restore(request, &found.entry, now());
        warn(request, "111 Revalidation failed");
        report(request, Outcome::Hit, format!("cache hit: {status} status; stale content returned"));
        tell(request, false, || self.forward.parameters(Some(status), false));
        ControlFlow::Break(found.content.into())
    }

    /// Gives up the stored response, and removes it unless it keeps its place. The client's own conditions hold again.
    async fn forget(&mut self, request: &mut Request, keeps: bool) {
        let Some(Stale { found, changed }) = self.stale.take() else { return };
        request.restore_headers(changed);
        if !keeps {
            // What could not be removed was logged.
            let _ = work(request, found.place.remove()).await;
        }
    }

    /// The origin has confirmed a response that is not to be stored: asks it again, for one that goes out as it is.
    async fn ask_again(&mut self, request: &mut Request, reason: &str) -> HandlerResult {
        let text =
            format!("AH02473: cache: {} responded with an uncacheable 304, retrying the request. Reason: {reason}", {
                request.data.unparsed_uri()
            });
        request.log("cache", Level::Info, text);
        self.forget(request, false).await;
        let headers = request.headers_mut();
        CONDITIONS.iter().for_each(|name| headers.remove(name));
        report(
            request,
            Outcome::Miss,
            format!("conditional cache miss: 304 was uncacheable, entity removed: {reason}"),
        );
        request.response.set_status(200);
        let uri = request.data.unparsed_uri().into_owned();
        HandlerResult::Redirect { uri, keep: Keep { method: true, media_type: false } }
    }
}

/// A body that is not stored, if anybody gets it.
fn wanted(request: &Request, body: Body) -> Body {
    if request.is_unattended() { Body::Empty } else { body }
}

/// What a response says of its storage. A `304` that says nothing leaves what the stored one says.
fn control_of(fields: &Fields, stale: Option<&Entry>) -> Control {
    let of =
        |fields: &Fields| Control::of(fields.joined("Cache-Control").as_deref(), fields.joined("Pragma").as_deref());
    let own = of(fields);
    match stale {
        Some(stale) if !own.is_there && !own.pragma => of(&stale.fields),
        _ => own,
    }
}

/// Takes over what a `304` says about a stored response, which goes out.
async fn refresh(request: &mut Request, stale: Stale, entry: Entry, new: &Fields) -> (Entry, Content) {
    let Stale { found: Found { entry: old, content, place, .. }, changed } = stale;
    let fields = without_unstored(request, updated(&old.fields, new));
    let entry = Entry { status: old.status, header_only: old.header_only, asked: old.asked, fields, ..entry };
    let is_kept = work(request, place.refresh(entry.clone())).await.is_ok();
    request.restore_headers(changed);
    request.response.headers_out.clear();
    request.response.err_headers_out.clear();
    restore(request, &entry, now());
    request.response.headers_out.remove("Age");
    let what = if is_kept { "refreshed" } else { "refresh failed" };
    report(request, Outcome::Revalidate, format!("conditional cache hit: entity {what}"));
    (entry, content)
}

/// The body for a client that may have conditions of its own.
fn conditioned(request: &mut Request, body: Body) -> Body {
    match request.unmet_condition() {
        Some(status) => {
            request.response.set_status(status);
            Body::Empty
        }
        None => body,
    }
}
