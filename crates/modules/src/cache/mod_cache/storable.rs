//! Whether a response may be stored, and for how long it will be fresh (RFC 9111 sections 3 and 4.2).

use std::borrow::Cow;

use server::Fields;

use super::settings::CacheDir;
use crate::cache::control::Control;
use crate::cache::entry::{Entry, Micros, SECOND, micros, names};

/// The status codes whose responses may be stored although nothing says for how long they are fresh, as in Apache.
const STORED_BY_DEFAULT: [u16; 6] = [200, 203, 206, 300, 301, 304];

/// The fields that describe content: a `304` cannot change them.
pub(super) const CONTENT_FIELDS: [&str; 9] = [
    "Allow",
    "Content-Encoding",
    "Content-Language",
    "Content-Length",
    "Content-Location",
    "Content-MD5",
    "Content-Range",
    "Content-Type",
    "Last-Modified",
];

/// A response on its way out, and what its request was like.
pub(super) struct Candidate<'a> {
    pub(super) status: u16,
    pub(super) fields: &'a Fields,
    pub(super) control: &'a Control,
    /// The request has a query that belongs to the key.
    pub(super) has_query: bool,
    /// The request has a field `Authorization`.
    pub(super) is_authorized: bool,
    /// The variable `no-cache` is set.
    pub(super) is_excluded: bool,
    pub(super) request_time: Micros,
    /// The stored response that the origin was to confirm.
    pub(super) stale: Option<&'a Entry>,
}

impl Candidate<'_> {
    /// Why it is not stored, in Apache's words.
    pub(super) fn obstacle(&self, dir: &CacheDir) -> Option<Cow<'static, str>> {
        let Candidate { status, fields, control, .. } = *self;
        let expires = fields.get("Expires");
        let expiry = expires.and_then(micros);
        let modified = fields.get("Last-Modified").and_then(micros);
        let (has_validator, has_lifetime) =
            (modified.is_some() || fields.contains("ETag"), lifetime(control).is_some());
        let is_past = expiry.is_some_and(|expiry| expiry < self.request_time / SECOND * SECOND);
        let reason = match expires {
            _ if !STORED_BY_DEFAULT.contains(&status) && expires.is_none() && !has_lifetime && !control.public => {
                return Some(format!("Response status {status}").into());
            }
            Some(text) if expiry.is_none() && !has_lifetime => {
                return Some(format!("Broken expires header: {text}").into());
            }
            _ if !has_lifetime && !dir.store_expired() && is_past => "Expires header already expired; not cacheable",
            _ if control.forbids_stale() && !dir.store_expired() && !has_validator && lifetime(control) == Some(0) => {
                "s-maxage or max-age zero and no Last-Modified or Etag; not cacheable"
            }
            None if self.has_query && !has_lifetime => "Query string present but no explicit expiration time",
            _ if status == 304 && self.stale.is_none() => "HTTP Status 304 Not Modified",
            None if status == 200 && !has_validator && !has_lifetime && !dir.ignore_no_last_mod() => {
                "No Last-Modified; Etag; Expires; Cache-Control:max-age or Cache-Control:s-maxage headers"
            }
            _ if control.no_store && !dir.store_no_store() => "Cache-Control: no-store present",
            _ if control.private && !dir.store_private() => "Cache-Control: private present",
            _ if self.is_authorized && !is_shared(control) => "Authorization required",
            _ if names(&fields.joined("Vary").unwrap_or_default()).any(|name| name == "*") => {
                "Vary header contains '*'"
            }
            _ if self.is_excluded => "environment variable 'no-cache' is set",
            _ if self.is_older() => "updated entity is older than cached entity",
            _ => return self.contradiction().map(Cow::Owned),
        };
        Some(reason.into())
    }

    /// Whether a response that was made later is stored already.
    pub(super) fn is_older(&self) -> bool {
        let date = self.fields.get("Date").and_then(micros);
        self.stale.zip(date).is_some_and(|(stale, date)| date < stale.date / SECOND * SECOND)
    }

    /// Where a `304` contradicts the stored response that it is about.
    fn contradiction(&self) -> Option<String> {
        let stale = self.stale.filter(|_| self.status == 304)?;
        let differs = |name: &&str| {
            let (old, new) = (stale.fields.joined(name), self.fields.joined(name));
            old.zip(new).is_some_and(|(old, new)| old != new)
        };
        let changed: Vec<&str> = ["ETag"].into_iter().chain(CONTENT_FIELDS).filter(differs).collect();
        let text = || format!("contradiction: 304 Not Modified; but {} modified", changed.join(", "));
        (!changed.is_empty()).then(text)
    }

    /// Until when it is fresh, if it was made at this date.
    pub(super) fn expiry(&self, date: Micros, dir: &CacheDir) -> Micros {
        // Numbers of the configuration may be any.
        let after = |period: Micros| date.saturating_add(period.max(dir.min_expire()).min(dir.max_expire()));
        let modified = self.fields.get("Last-Modified").and_then(micros).filter(|modified| *modified < date);
        match (lifetime(self.control), self.fields.get("Expires").and_then(micros), modified) {
            (Some(seconds), ..) => after(seconds * SECOND),
            (None, Some(expiry), _) => expiry,
            (None, None, Some(modified)) => after(((date - modified) as f64 * dir.factor()) as Micros),
            (None, None, None) => date.saturating_add(dir.default_expire()),
        }
    }
}

/// The lifetime that a response names, for a shared cache.
fn lifetime(control: &Control) -> Option<i64> {
    control.s_maxage.or(control.max_age)
}

/// Whether the response to an authorized request may be shared (RFC 9111 section 3.5).
fn is_shared(control: &Control) -> bool {
    control.s_maxage.is_some() || control.public || control.must_revalidate || control.proxy_revalidate
}
