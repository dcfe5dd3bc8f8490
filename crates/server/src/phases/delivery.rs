//! What every answer goes through on its way out: conditions, the default charset, ranges.

use std::sync::Arc;

use http1::Known;
use http1::conditional::{Outcome, Validators, evaluate, if_range};
use http1::head::Parts;
use http1::range::{Multipart, RangeLimits, Resolved, resolve};

use crate::config::core::CoreDir;
use crate::request::response::{Body, FilePart};
use crate::request::unique::Unique;
use crate::request::{Request, RequestHead};

/// The fields that can make an answer superfluous.
const CONDITIONS: [Known; 4] = [Known::IfMatch, Known::IfNoneMatch, Known::IfModifiedSince, Known::IfUnmodifiedSince];

/// Applies `If-…` fields to an answer that succeeded (RFC 9110 section 13): what is sent instead of it, if anything. As
/// in Apache they speak of the handler's answer; filters that change it come later.
pub(crate) fn preconditions(request: &mut Request) -> Option<Body> {
    // As in Apache: the status says it all, and the fields tell which version there is.
    request.answer.set_status(request.unmet_condition()?);
    Some(Body::Empty)
}

impl Request {
    /// The status that `If-…` fields ask for instead of the answer that is about to be sent: 304 or 412. For handlers to
    /// whom it matters whether their body is wanted.
    pub fn unmet_condition(&self) -> Option<u16> {
        // To a file `POST` is what `GET` is, its conditions included; what a script does with it is the script's affair.
        let applies = match &*self.asked.method {
            "GET" | "HEAD" => true,
            "POST" => self.answer.headers_out.contains("Accept-Ranges"),
            _ => false,
        };
        if self.answer.status() != 200 || self.answer.no_local_copy || !applies {
            return None;
        }
        let asks = |name: Known| self.asked.head.has(name);
        if self.asked.changed_fields().is_none() && !CONDITIONS.into_iter().any(asks) {
            return None;
        }
        let head = head_in_effect(self);
        let (head, text) = head.parts();
        let (etag, modified) = validators(self);
        let current = Validators { etag: etag.as_ref().map(|tag| tag.as_bytes()), modified };
        match evaluate(head, text, &current, now()) {
            Outcome::Proceed => None,
            Outcome::NotModified => Some(304),
            Outcome::PreconditionFailed => Some(412),
        }
    }
}

/// The conditions of a request, for work that goes on without it.
#[derive(Clone)]
pub struct Conditions(Option<Arc<RequestHead>>);

impl Conditions {
    /// Those of a request (`If-Match` and the like).
    pub fn of(request: &Request) -> Conditions {
        let asks = |name: Known| request.asked.head.has(name);
        let any = request.asked.changed_fields().is_some() || CONDITIONS.into_iter().any(asks);
        Conditions(any.then(|| head_in_effect(request)))
    }

    /// Whether there are any.
    pub fn are_any(&self) -> bool {
        self.0.is_some()
    }

    /// Whether they forbid to change what has this tag and this time, or nothing where there is none. `exists`: something
    /// is there, whether or not it has a tag.
    pub fn forbid(&self, exists: bool, etag: Option<&str>, modified: Option<i64>) -> bool {
        let Some(head) = &self.0 else { return false };
        let (head, text) = head.parts();
        let has = |name: Known| head.has(text, name);
        let is_any = |name: Known| head.values(text, name).any(|value| value == b"*");
        if !exists {
            return has(Known::IfMatch);
        }
        if is_any(Known::IfNoneMatch) {
            return true;
        }
        let current = Validators { etag: etag.map(str::as_bytes), modified };
        evaluate(head, text, &current, now()) != Outcome::Proceed
    }
}

fn now() -> i64 {
    sys::time::realtime_coarse().as_secs() as i64
}

fn validators(request: &Request) -> (Option<String>, Option<i64>) {
    let modified = request.answer.headers_out.get("Last-Modified");
    let modified = modified.and_then(|text| http1::date::parse_http_date(text.as_bytes()));
    (request.answer.headers_out.get("ETag").map(str::to_string), modified)
}

/// The head of the request; where a module changed its fields, one made of those.
fn head_in_effect(request: &Request) -> Arc<RequestHead> {
    let Some(fields) = request.asked.changed_fields() else { return request.asked.head.clone() };
    let bytes = |text| http1::text::to_bytes(text);
    let fields: Vec<_> = fields.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
    let method = bytes(&request.asked.method);
    let parts = Parts { method: &method, target: b"/", authority: None, version: request.asked.version };
    Arc::new(RequestHead::assembled(&parts, fields.iter().map(|(name, value)| (&**name, &**value))))
}

/// A range behind the end of an answer of so many bytes.
pub(crate) struct Unsatisfiable {
    pub(crate) length: u64,
}

/// Applies `Range` to an answer that succeeded (RFC 9110 section 14), as the filters have left it.
/// `Err`: there is no such range.
pub(crate) fn ranges(request: &mut Request, body: Body) -> Result<Body, Unsatisfiable> {
    if request.answer.status() != 200 || !matches!(&*request.asked.method, "GET" | "HEAD") {
        return Ok(body);
    }
    // What is a range already is not cut again.
    if request.answer.headers_out.contains("Content-Range") {
        return Ok(body);
    }
    let head = head_in_effect(request);
    let (head, buf) = head.parts();
    // Two fields are one that says `bytes=` twice: no list of ranges.
    let Some(range) = head.combined(buf, Known::Range) else { return Ok(body) };
    let length = body.length().filter(|length| *length > 0 && !matches!(body, Body::Stream(_)));
    let Some(length) = length else { return Ok(body) };
    let (etag, modified) = validators(request);
    let current = Validators { etag: etag.as_ref().map(|tag| tag.as_bytes()), modified };
    if !if_range(head, buf, &current, now()) {
        return Ok(body);
    }
    let dir = request.dir::<CoreDir>();
    let count = |limit: Option<u32>| limit.map(|n| n as usize);
    let limits = RangeLimits {
        ranges: count(dir.max_ranges()),
        overlaps: count(dir.max_range_overlaps()),
        reversals: count(dir.max_range_reversals()),
    };
    match resolve(&range, length, &limits) {
        Resolved::Whole => Ok(body),
        Resolved::Unsatisfiable => Err(Unsatisfiable { length }),
        Resolved::Parts(ranges) => {
            request.answer.set_status(206);
            if let [range] = ranges[..] {
                request.answer.headers_out.set("Content-Range", range.content_range(length));
                return Ok(slice(&body, range.first, range.count()));
            }
            let part_type = request.answer.content_type().map(str::to_string);
            let multipart = Multipart::new(Unique::draw().number(), part_type.as_deref(), length);
            request.answer.set_content_type(multipart.content_type());
            let mut parts = Vec::with_capacity(ranges.len() * 2 + 1);
            for range in ranges {
                parts.push(Body::text(multipart.part_header(range)));
                parts.push(slice(&body, range.first, range.count()));
            }
            parts.push(Body::text(multipart.end()));
            Ok(Body::Parts(parts))
        }
    }
}

fn slice(body: &Body, first: u64, count: u64) -> Body {
    match body {
        Body::Bytes(bytes) => Body::Bytes(bytes.slice(first as usize..(first + count) as usize)),
        Body::File(part) => {
            Body::File(FilePart { file: part.file.clone(), offset: part.offset + first, length: count })
        }
        // Nothing else with a known length reaches a range.
        _ => Body::Empty,
    }
}

/// `AddDefaultCharset`: texts that say nothing of their charset, whoever made them.
pub(crate) fn default_charset(request: &mut Request) {
    let Some(Some(charset)) = request.dir::<CoreDir>().default_charset.get() else { return };
    let Some(text) = request.answer.content_type() else { return };
    let lower = text.to_ascii_lowercase();
    if !lower.contains("charset=") && ["text/plain", "text/html"].iter().any(|plain| lower.contains(plain)) {
        let text = format!("{text}; charset={charset}");
        request.answer.set_content_type(text);
    }
}
