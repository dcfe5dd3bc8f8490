//! From an answer to bytes: conditions and ranges, the head, and the writing.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use conf::Level;
use http1::Known;
use http1::conditional::{Outcome, Validators, evaluate, if_range};
use http1::range::{Multipart, RangeLimits, Resolved, resolve};
use http1::response::ResponseHead;

use crate::config::core::CoreDir;
use crate::phases::error_document;
use crate::protocol::pace::Pace;
use crate::request::response::{Body, FilePart};
use crate::request::unique::Unique;
use crate::request::{Incoming, Request};
use crate::transport::socket::Stream;

/// The fields that can make an answer superfluous.
const CONDITIONS: [Known; 4] = [Known::IfMatch, Known::IfNoneMatch, Known::IfModifiedSince, Known::IfUnmodifiedSince];

/// Applies `If-…` fields to an answer that succeeded (RFC 9110 section 13): what is sent instead of it, if anything. As
/// in Apache they speak of the handler's answer; filters that change it come later.
pub(crate) fn preconditions(request: &mut Request) -> Option<Body> {
    // As in Apache: the status says it all, and the fields tell which version there is.
    request.status = request.unmet_condition()?;
    Some(Body::Empty)
}

impl Request {
    /// The status that `If-…` fields ask for instead of the answer that is about to be sent: 304 or 412. For handlers to
    /// whom it matters whether their body is wanted.
    pub fn unmet_condition(&self) -> Option<u16> {
        // To a file `POST` is what `GET` is, its conditions included; what a script does with it is the script's affair.
        let applies = match &*self.method {
            "GET" | "HEAD" => true,
            "POST" => self.headers_out.contains("Accept-Ranges"),
            _ => false,
        };
        if self.status != 200 || self.no_local_copy || !applies {
            return None;
        }
        let asks = |name: Known| self.incoming.head.has(&self.incoming.bytes, name);
        if self.headers_in.is_none() && !CONDITIONS.into_iter().any(asks) {
            return None;
        }
        let incoming = head_in_effect(self);
        let (etag, modified) = validators(self);
        let current = Validators { etag: etag.as_ref().map(|tag| tag.as_bytes()), modified };
        match evaluate(&incoming.head, &incoming.bytes, &current, now()) {
            Outcome::Proceed => None,
            Outcome::NotModified => Some(304),
            Outcome::PreconditionFailed => Some(412),
        }
    }
}

fn now() -> i64 {
    sys::time::realtime_coarse().as_secs() as i64
}

fn validators(request: &Request) -> (Option<String>, Option<i64>) {
    let modified = request.headers_out.get("Last-Modified");
    let modified = modified.and_then(|text| http1::date::parse_http_date(text.as_bytes()));
    (request.headers_out.get("ETag").map(str::to_string), modified)
}

/// The head of the request; where a module changed its fields, one made of those.
fn head_in_effect(request: &Request) -> Arc<Incoming> {
    let Some(fields) = &request.headers_in else { return request.incoming.clone() };
    let mut text = format!("{} / HTTP/1.0\r\n", request.method);
    for (name, value) in fields.iter() {
        text.extend([name, ": ", value, "\r\n"]);
    }
    text.push_str("\r\n");
    let bytes = http1::text::to_bytes(&text).into_owned();
    let limits = http1::Limits { line: bytes.len(), fields: 0, field_size: bytes.len(), ..request.vhost.plan.limits };
    let mut head = http1::Head::default();
    match http1::Head::parse(&bytes, &limits, &mut head) {
        Ok(http1::Parse::Complete { len }) => Arc::new(Incoming { bytes, head, head_len: len }),
        // What a module wrote is no field: the client's own words count.
        _ => request.incoming.clone(),
    }
}

/// Applies `Range` to an answer that succeeded (RFC 9110 section 14), as the filters have left it.
pub(crate) fn ranges(request: &mut Request, body: Body) -> Body {
    if request.status != 200 || !matches!(&*request.method, "GET" | "HEAD") {
        return body;
    }
    // What is a range already is not cut again.
    if request.headers_out.contains("Content-Range") {
        return body;
    }
    let incoming = head_in_effect(request);
    let (head, buf) = (&incoming.head, &incoming.bytes[..]);
    let Some(range) = head.field(buf, Known::Range) else { return body };
    let length = body.length().filter(|length| *length > 0 && !matches!(body, Body::Stream(_)));
    let Some(length) = length else { return body };
    let (etag, modified) = validators(request);
    let current = Validators { etag: etag.as_ref().map(|tag| tag.as_bytes()), modified };
    if !if_range(head, buf, &current, now()) {
        return body;
    }
    let dir = request.dir::<CoreDir>();
    let count = |limit: Option<u32>| limit.map(|n| n as usize);
    let limits = RangeLimits {
        ranges: count(dir.max_ranges.or(Some(200))),
        overlaps: count(dir.max_range_overlaps.or(Some(20))),
        reversals: count(dir.max_range_reversals.or(Some(20))),
    };
    match resolve(range, length, &limits) {
        Resolved::Whole => body,
        Resolved::Unsatisfiable => {
            request.headers_out.set("Content-Range", format!("bytes */{length}"));
            let range = request.headers_out.clone();
            request.status_line = None;
            let page = error_document::canned(request, 416);
            request.headers_out.set("Content-Range", range.get("Content-Range").unwrap_or_default());
            page
        }
        Resolved::Parts(ranges) => {
            request.status = 206;
            // A reason that was given for 200 does not fit any more.
            request.status_line = None;
            if let [range] = ranges[..] {
                request.headers_out.set("Content-Range", range.content_range(length));
                return slice(&body, range.first, range.count());
            }
            let part_type = request.content_type.as_deref().map(str::to_string);
            let multipart = Multipart::new(Unique::draw().number(), part_type.as_deref(), length);
            request.set_content_type(multipart.content_type());
            let mut parts = Vec::with_capacity(ranges.len() * 2 + 1);
            for range in ranges {
                parts.push(Body::text(multipart.part_header(range)));
                parts.push(slice(&body, range.first, range.count()));
            }
            parts.push(Body::text(multipart.end()));
            Body::Parts(parts)
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

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delimiter {
    /// By its length, or because there is none.
    Length(u64),
    /// There is no body, and nothing is known of its length.
    Nothing,
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// Whether the connection stays open, and what the client is told about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Persist {
    pub(crate) keep: bool,
    /// `Keep-Alive: timeout=…, max=…`, for clients that asked.
    pub(crate) announce: Option<(u64, Option<u32>)>,
}

/// Writes the head of an answer. `false`: a field cannot be sent, and what was written instead is the head of an error
/// without a body, after which the connection closes.
pub(crate) fn write_head(request: &mut Request, delimiter: Delimiter, persist: Persist, out: &mut Vec<u8>) -> bool {
    let Err(name) = try_head(request, delimiter, persist, out) else { return true };
    request.log(
        "http",
        Level::Error,
        format!("AH02430: Response header '{name}' value contains invalid characters, aborting request"),
    );
    out.clear();
    request.headers_out.clear();
    request.err_headers_out.clear();
    request.status_line = None;
    let _ = error_document::canned(request, 500);
    request.content_type = None;
    // Only names and values of our own are left.
    let _ = try_head(request, Delimiter::Length(0), Persist { keep: false, announce: None }, out);
    false
}

fn try_head(request: &Request, delimiter: Delimiter, persist: Persist, out: &mut Vec<u8>) -> Result<(), String> {
    let bad = |name: &str| name.to_string();
    let mut head = match &request.status_line {
        Some(line) => {
            let phrase = line.split_once(' ').map_or("", |(_, phrase)| phrase);
            ResponseHead::start_with_phrase(out, request.status, &http1::text::to_bytes(phrase))
                .map_err(|_| bad("Status"))?
        }
        None => ResponseHead::start(out, request.status),
    };
    with_date(|date| head.date("Date", date));
    if !request.server.software.is_empty() {
        head.field("Server", request.server.software.as_bytes()).map_err(|_| bad("Server"))?;
    }
    let not_modified = request.status == 304;
    // 304 carries nothing that describes a body (RFC 9110 section 15.4.5).
    let kept = |name: &str| {
        !not_modified
            || ![
                "Content-Type",
                "Content-Length",
                "Content-Encoding",
                "Content-Language",
                "Content-Range",
                "Content-MD5",
            ]
            .iter()
            .any(|one| one.eq_ignore_ascii_case(name))
    };
    for (name, value) in request.err_headers_out.iter().filter(|(name, _)| !is_vary(name)) {
        if kept(name) && !request.headers_out.contains(name) || name.eq_ignore_ascii_case("Set-Cookie") {
            head.field(name, &http1::text::to_bytes(value)).map_err(|_| bad(name))?;
        }
    }
    for (name, value) in request.headers_out.iter().filter(|(name, _)| !is_vary(name)) {
        if kept(name) {
            head.field(name, &http1::text::to_bytes(value)).map_err(|_| bad(name))?;
        }
    }
    if let Some(vary) = vary(request) {
        head.field("Vary", &http1::text::to_bytes(&vary)).map_err(|_| bad("Vary"))?;
    }
    if !not_modified {
        if let Some(encoding) = &request.content_encoding {
            head.field("Content-Encoding", encoding.as_bytes()).map_err(|_| bad("Content-Encoding"))?;
        }
        if !request.content_languages.is_empty() {
            let languages = request.content_languages.join(",");
            head.field("Content-Language", languages.as_bytes()).map_err(|_| bad("Content-Language"))?;
        }
    }
    match delimiter {
        Delimiter::Length(length) if !http1::status::is_bodyless(request.status) => {
            head.number("Content-Length", length)
        }
        Delimiter::Chunked => head.field("Transfer-Encoding", b"chunked").map_err(|_| bad("Transfer-Encoding"))?,
        Delimiter::Length(_) | Delimiter::Nothing | Delimiter::Close => {}
    }
    match persist {
        Persist { keep: true, announce: Some((timeout, left)) } => {
            let text = match left {
                Some(left) => format!("timeout={timeout}, max={left}"),
                None => format!("timeout={timeout}"),
            };
            head.field("Keep-Alive", text.as_bytes()).map_err(|_| bad("Keep-Alive"))?;
            head.field("Connection", b"Keep-Alive").map_err(|_| bad("Connection"))?;
        }
        Persist { keep: true, announce: None } => {}
        Persist { keep: false, .. } => head.field("Connection", b"close").map_err(|_| bad("Connection"))?,
    }
    if let Some(text) = request.content_type.as_ref().filter(|_| !not_modified) {
        head.field("Content-Type", &http1::text::to_bytes(text)).map_err(|_| bad("Content-Type"))?;
    }
    head.end();
    if request.version == http1::Version::Http10 && request.env.contains("force-response-1.0") {
        // `HTTP/1.1` of the status line: some old clients take no other version than their own.
        out["HTTP/1.".len()] = b'0';
    }
    Ok(())
}

fn is_vary(name: &str) -> bool {
    name.eq_ignore_ascii_case("Vary")
}

/// Everything that the answer depends on, whoever said so, each name once: one field, as in Apache.
fn vary(request: &Request) -> Option<String> {
    let fields = || request.err_headers_out.iter().chain(request.headers_out.iter()).filter(|(name, _)| is_vary(name));
    let mut names: Vec<&str> = Vec::new();
    for name in fields().flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|name| !name.is_empty()) {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(","))
}

/// `AddDefaultCharset`: texts that say nothing of their charset, whoever made them.
pub(crate) fn default_charset(request: &mut Request) {
    let Some(Some(charset)) = request.dir::<CoreDir>().default_charset.get() else { return };
    let Some(text) = request.content_type.as_deref() else { return };
    let lower = text.to_ascii_lowercase();
    if !lower.contains("charset=") && ["text/plain", "text/html"].iter().any(|plain| lower.contains(plain)) {
        let text = format!("{text}; charset={charset}");
        request.set_content_type(text);
    }
}

/// Hands out the present date, made once a second.
fn with_date(use_it: impl FnOnce(&http1::date::HttpDate)) {
    thread_local! {
        static DATE: std::cell::RefCell<http1::date::DateCache> = std::cell::RefCell::default();
    }
    let now = sys::time::realtime_coarse().as_secs() as i64;
    DATE.with_borrow_mut(|cache| use_it(cache.text(now)));
}

/// Bytes on their way to the client.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// The head, and what was small enough to go with it.
    front: Vec<u8>,
    front_sent: usize,
    rest: VecDeque<Chunk>,
    /// Bytes sent so far.
    pub(crate) sent: u64,
    pace: Option<Box<Pace>>,
}

#[derive(Debug)]
enum Chunk {
    Bytes(Bytes),
    File { file: Arc<OwnedFd>, offset: u64, left: u64 },
}

/// Bodies up to this size go out in one write with their head, in bytes.
const WITH_HEAD: usize = 16 * 1024;
/// After this many bytes to one client that takes them all, other connections have their turn.
const TURN_BYTES: u64 = 1024 * 1024;

impl Outgoing {
    /// Starts with a head; what follows it goes out at this pace, in bytes a second.
    pub(crate) fn new(front: Vec<u8>, pace: Option<u32>) -> Outgoing {
        let pace = pace.map(|rate| Box::new(Pace::new(rate, front.len())));
        Outgoing { front, pace, ..Outgoing::default() }
    }

    /// Adds a body that is there already; a stream is not.
    pub(crate) fn push(&mut self, body: Body) {
        match body {
            Body::Empty | Body::Stream(_) => {}
            Body::Bytes(bytes) if self.rest.is_empty() && self.front_sent == 0 && bytes.len() <= WITH_HEAD => {
                self.front.extend_from_slice(&bytes);
            }
            Body::Bytes(bytes) => self.rest.push_back(Chunk::Bytes(bytes)),
            Body::File(part) => {
                self.rest.push_back(Chunk::File { file: part.file, offset: part.offset, left: part.length });
            }
            Body::Parts(parts) => parts.into_iter().for_each(|part| self.push(part)),
        }
    }

    /// Takes the buffer of the head away, once it was sent.
    pub(crate) fn take_front(&mut self) -> Vec<u8> {
        self.front_sent = 0;
        std::mem::take(&mut self.front)
    }

    /// Sends until everything is out (`true`), or so much that other connections should have their turn. `more`: further
    /// bytes will follow.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, stream: &Stream, more: bool) -> Poll<io::Result<bool>> {
        let enough = self.sent + TURN_BYTES;
        while self.front_sent < self.front.len() {
            let more = more || !self.rest.is_empty();
            let left = &self.front[self.front_sent..];
            let most = ready!(poll_pace(&mut self.pace, cx, self.sent)).min(left.len());
            let sent = ready!(stream.poll_send(cx, &left[..most], more))?;
            self.front_sent += sent;
            self.sent += sent as u64;
        }
        while let Some(chunk) = self.rest.front_mut() {
            if self.sent >= enough {
                return Poll::Ready(Ok(false));
            }
            match chunk {
                Chunk::Bytes(bytes) if bytes.is_empty() => {
                    self.rest.pop_front();
                }
                Chunk::Bytes(bytes) => {
                    let most = ready!(poll_pace(&mut self.pace, cx, self.sent)).min(bytes.len());
                    let sent = ready!(stream.poll_send(cx, &bytes[..most], more))?;
                    let _ = bytes.split_to(sent);
                    self.sent += sent as u64;
                }
                Chunk::File { left: 0, .. } => {
                    self.rest.pop_front();
                }
                Chunk::File { file, offset, left } => {
                    let most = ready!(poll_pace(&mut self.pace, cx, self.sent));
                    let count = most.min((*left).min(TURN_BYTES) as usize);
                    match ready!(stream.poll_send_file(cx, file, offset, count))? {
                        // The file was cut short: what was promised cannot be kept.
                        0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                        sent => {
                            *left -= sent as u64;
                            self.sent += sent as u64;
                        }
                    }
                }
            }
        }
        Poll::Ready(Ok(true))
    }
}

/// How many bytes may go out now.
fn poll_pace(pace: &mut Option<Box<Pace>>, cx: &mut Context<'_>, sent: u64) -> Poll<usize> {
    pace.as_mut().map_or(Poll::Ready(usize::MAX), |pace| pace.poll(cx, sent))
}
