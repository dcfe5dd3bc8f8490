//! The steps of every response on its way out: conditions, the default charset, ranges.

use std::sync::Arc;

use http::KnownField;
use http::conditional::{Outcome, Preconditions, Validators, evaluate, if_range};
use http::h1::head::Parts;
use http::range::{Multipart, RangeLimits, Resolved, resolve};

use crate::message::head::RequestHead;
use crate::message::response::{Body, FilePart};
use crate::request::Request;
use crate::request::unique::Unique;
use crate::settings::core::CoreDir;

/// The fields that can make a response superfluous.
const CONDITIONS: [KnownField; 4] =
    [KnownField::IfMatch, KnownField::IfNoneMatch, KnownField::IfModifiedSince, KnownField::IfUnmodifiedSince];

/// Applies `If-…` fields to a successful response (RFC 9110 section 13): returns the body to send instead, if any. As in
/// Apache they apply to the handler's response; filters that change it come later.
pub(crate) fn preconditions(request: &mut Request) -> Option<Body> {
    // As in Apache: the status says everything, and the fields tell which version there is.
    request.response.set_status(request.unmet_condition()?);
    Some(Body::Empty)
}

impl Request {
    /// The status that `If-…` fields require instead of the response about to be sent: 304 or 412. For handlers that want
    /// to know whether their body is needed.
    pub fn unmet_condition(&self) -> Option<u16> {
        // For a file `POST` equals `GET`, including its conditions; a script decides for itself.
        let applies = match &*self.data.method {
            "GET" | "HEAD" => true,
            "POST" => self.response.headers_out.contains("Accept-Ranges"),
            _ => false,
        };
        if self.response.status() != 200 || self.response.no_local_copy || !applies {
            return None;
        }
        let asks = |name: KnownField| self.data.head.has(name);
        if self.data.changed_fields().is_none() && !CONDITIONS.into_iter().any(asks) {
            return None;
        }
        let head = head_in_effect(self);
        let (etag, modified) = validators(self);
        let current = Validators { etag: etag.as_ref().map(|tag| tag.as_bytes()), modified };
        let outcome = evaluate(&*head, &current, now());
        if outcome != evaluate(&*head, &current, i64::MAX) {
            // A date of the client's lies in the future.
            self.asks_beyond_head();
        }
        match outcome {
            Outcome::Proceed => None,
            Outcome::NotModified => Some(304),
            Outcome::PreconditionFailed => Some(412),
        }
    }
}

/// The conditions of a request, for work that continues without it.
#[derive(Clone)]
pub struct Conditions(Option<Arc<RequestHead>>);

impl Conditions {
    /// The conditions of a request (`If-Match` and the like).
    pub fn of(request: &Request) -> Conditions {
        let asks = |name: KnownField| request.data.head.has(name);
        let any = request.data.changed_fields().is_some() || CONDITIONS.into_iter().any(asks);
        Conditions(any.then(|| head_in_effect(request)))
    }

    /// Whether there are any.
    pub fn are_any(&self) -> bool {
        self.0.is_some()
    }

    /// Whether they forbid changing an object with this tag and time. `exists`: there is an object, with or without a
    /// tag.
    pub fn forbid(&self, exists: bool, etag: Option<&str>, modified: Option<i64>) -> bool {
        let Some(head) = &self.0 else { return false };
        let is_any = |name: KnownField| head.values(name).any(|value| value == b"*");
        if !exists {
            return head.has(KnownField::IfMatch);
        }
        if is_any(KnownField::IfNoneMatch) {
            return true;
        }
        let current = Validators { etag: etag.map(str::as_bytes), modified };
        evaluate(&**head, &current, now()) != Outcome::Proceed
    }
}

fn now() -> i64 {
    sys::time::realtime_coarse().as_secs() as i64
}

fn validators(request: &Request) -> (Option<String>, Option<i64>) {
    let modified = request.response.headers_out.get("Last-Modified");
    let modified = modified.and_then(|text| http::date::parse_http_date(text.as_bytes()));
    (request.response.headers_out.get("ETag").map(str::to_string), modified)
}

/// The head of the request; if a module changed its fields, a new one made from those.
fn head_in_effect(request: &Request) -> Arc<RequestHead> {
    let Some(fields) = request.data.changed_fields() else { return request.data.head.clone() };
    let bytes = |text| http::text::to_bytes(text);
    let fields: Vec<_> = fields.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
    let method = bytes(&request.data.method);
    let parts = Parts { method: &method, target: b"/", authority: None, version: request.data.version };
    Arc::new(RequestHead::assembled(&parts, fields.iter().map(|(name, value)| (&**name, &**value))))
}

/// A range beyond the end of a response of this many bytes.
pub(crate) struct Unsatisfiable {
    pub(crate) length: u64,
}

/// Applies `Range` to a successful response (RFC 9110 section 14), as the filters have left it. `Err`: there is no such
/// range.
pub(crate) fn ranges(request: &mut Request, body: Body) -> Result<Body, Unsatisfiable> {
    if request.response.status() != 200 || !matches!(&*request.data.method, "GET" | "HEAD") {
        return Ok(body);
    }
    // A response that is already a range is not cut again.
    if request.response.headers_out.contains("Content-Range") {
        return Ok(body);
    }
    let head = head_in_effect(request);
    // Two fields combine to one with `bytes=` twice, which is not a list of ranges.
    let Some(range) = head.combined(KnownField::Range) else { return Ok(body) };
    let length = body.length().filter(|length| *length > 0 && !matches!(body, Body::Stream(_)));
    let Some(length) = length else { return Ok(body) };
    let (etag, modified) = validators(request);
    let current = Validators { etag: etag.as_ref().map(|tag| tag.as_bytes()), modified };
    let is_current = if_range(&*head, &current, now());
    if is_current != if_range(&*head, &current, i64::MAX) {
        // The date of the file will be a strong validator when it is older.
        request.asks_beyond_head();
    }
    if !is_current {
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
            request.response.set_status(206);
            if let [range] = ranges[..] {
                request.response.headers_out.set("Content-Range", range.content_range(length));
                return Ok(slice(&body, range.first, range.count()));
            }
            let part_type = request.response.content_type().map(str::to_string);
            // The boundary is another one for each response.
            request.asks_beyond_head();
            let multipart = Multipart::new(Unique::draw().number(), part_type.as_deref(), length);
            request.response.set_content_type(multipart.content_type());
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
        // No other body of known length gets here.
        _ => Body::Empty,
    }
}

/// `AddDefaultCharset`: for texts without a charset, whatever made them.
pub(crate) fn default_charset(request: &mut Request) {
    let Some(Some(charset)) = request.dir::<CoreDir>().default_charset.get() else { return };
    let Some(text) = request.response.content_type() else { return };
    let lower = text.to_ascii_lowercase();
    if !lower.contains("charset=") && ["text/plain", "text/html"].iter().any(|plain| lower.contains(plain)) {
        let text = format!("{text}; charset={charset}");
        request.response.set_content_type(text);
    }
}
