//! The change of a connection from HTTP/1.1 to HTTP/2 (RFC 7540 section 3.2), which RFC 9113 has dropped and Apache keeps.
//!
//! The first response of a connection offers it. A client that asks for it, without a body, gets 101, and its request becomes
//! stream 1. The protocol knows no such beginning: it gets the request as the frames that an HTTP/2 client would have sent.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::h1::framing::{Framing, Persistence};
use http::{KnownField, Version};
use runtime::Stage;

use super::connection::{Http1Connection, Sending};
use super::head::write_head;
use super::outgoing::Outgoing;
use crate::exchange::Exchange;
use crate::message::buffers;
use crate::message::head::RequestHead;
use crate::message::sent::{Delimiter, Persist};
use crate::protocol::h2::Http2Connection;
use crate::request::Request;

/// The protocol's name in `Upgrade`.
const H2C: &[u8] = b"h2c";
const SETTINGS: &[u8] = b"http2-settings";
/// Fields that belong to the HTTP/1 connection (RFC 9113 section 8.2.2), or that stream 1 has in another form.
const LEFT_OUT: [&[u8]; 9] = [
    b"connection",
    b"upgrade",
    SETTINGS,
    b"host",
    b"keep-alive",
    b"proxy-connection",
    b"transfer-encoding",
    b"te",
    b"content-length",
];
/// The most payload of a frame (RFC 9113 section 4.2).
const FRAME: usize = 16_384;

impl Http1Connection {
    /// Offers HTTP/2 with the first response, unless the client asks for another protocol. An error has no such fields, as
    /// in Apache.
    pub(super) fn offer_http2(&self, request: &mut Request) {
        if self.may_offer_http2(request)
            && self.transport.session().is_none()
            && !request.data.head.has(KnownField::Upgrade)
        {
            request.response.headers_out.set("Upgrade", "h2c");
            request.response.headers_out.set("Connection", "Upgrade");
        }
    }

    /// Whether this is the first response of the connection, and may offer HTTP/2.
    pub(super) fn may_offer_http2(&self, request: &Request) -> bool {
        self.traffic == 0 && request.vhost.plan.upgrades
    }

    /// The frames of a request that asks for HTTP/2. `None`: it does not, or may not.
    pub(super) fn asks_for_http2(&self, request: &Request, framing: Framing) -> Option<Vec<u8>> {
        let head = &request.data.head;
        if !head.has(KnownField::Upgrade) || !request.vhost.plan.upgrades || framing.has_body() {
            return None;
        }
        if head.version() != Version::Http11 || self.transport.session().is_some() {
            return None;
        }
        // Not in any case, as in Apache.
        head.combined(KnownField::Upgrade)
            .filter(|names| names.split(|byte| *byte == b',').any(|name| name.trim_ascii() == H2C))?;
        let (table, text) = head.parts();
        let named = head.combined(KnownField::Connection)?;
        let is_named = named.split(|byte| *byte == b',').any(|name| name.trim_ascii().eq_ignore_ascii_case(SETTINGS));
        if !is_named || !Persistence::of(table, text).upgrade {
            return None;
        }
        let mut settings = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case(SETTINGS));
        let (_, first) = settings.next()?;
        let first = URL_SAFE_NO_PAD.decode(first).ok().filter(|payload| payload.len() % 6 == 0)?;
        (settings.next().is_none()).then(|| frames(head, &first))
    }

    /// Answers 101; from here on the connection speaks HTTP/2.
    pub(super) async fn upgrade(&mut self, mut exchange: Exchange, frames: Vec<u8>) -> Stage {
        let request = &mut exchange.request;
        request.interim = None;
        request.response.set_status(101);
        request.response.headers_out.set("Upgrade", "h2c");
        let persist = Persist { keep: true, announce: None };
        let mut front = buffers::take();
        let refused = write_head(request, Delimiter::Tunnel, persist, &mut front).is_some();
        request.account.sent.head = Some((Delimiter::Tunnel, persist));
        let (timeout, head_len) = (request.vhost.plan.timeout, front.len() as u64);
        let mut sending =
            Sending { exchange, outgoing: Outgoing::new(front, None), head_len, keep: true, linger: false };
        let written = self.write_all(&mut sending.outgoing, timeout).await;
        let received = std::mem::take(&mut self.buffer);
        let next = self.finish(sending, written.is_ok() && !refused);
        if next == Stage::Closed {
            return next;
        }
        let (transport, client) = (self.transport.clone(), Arc::clone(&self.client));
        let connection =
            Http2Connection::upgraded(self.running, transport, client, self.workers.clone(), (frames, received));
        self.upgraded = Some(Box::new(connection));
        Stage::Serve
    }
}

/// A client's frames for this request: SETTINGS, and HEADERS of stream 1, which ends with them.
fn frames(head: &RequestHead, settings: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    let target = match head.query() {
        Some(query) => [head.path(), b"?", query].concat(),
        None => head.path().to_vec(),
    };
    let authority = head.authority().or_else(|| head.field(KnownField::Host)).unwrap_or_default();
    let path = if target.is_empty() { b"/".to_vec() } else { target };
    for (name, value) in
        [(&b":method"[..], head.method()), (b":scheme", b"http"), (b":path", &path), (b":authority", authority)]
    {
        field(&mut block, name, value);
    }
    for (name, value) in head.fields() {
        let name = name.to_ascii_lowercase();
        if !LEFT_OUT.contains(&name.as_slice()) {
            field(&mut block, &name, value);
        }
    }
    let mut all = Vec::new();
    frame(&mut all, 4, 0, 0, settings);
    let mut parts = block.chunks(FRAME).peekable();
    let mut kind = 1;
    while let Some(part) = parts.next() {
        // END_STREAM of HEADERS, END_HEADERS of the last.
        let flags = u8::from(kind == 1) | if parts.peek().is_none() { 4 } else { 0 };
        frame(&mut all, kind, flags, 1, part);
        kind = 9;
    }
    all
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    // Callers have bounded the length.
    let [.., a, b, c] = payload.len().to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// A field that is not added to the table, in plain bytes (RFC 7541 section 6.2.2).
fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(0);
    for text in [name, value] {
        // An integer with a prefix of seven bits (RFC 7541 section 5.1).
        match text.len().checked_sub(127) {
            None => out.push(text.len() as u8),
            Some(mut rest) => {
                out.push(127);
                while rest >= 128 {
                    out.push((rest % 128 + 128) as u8);
                    rest /= 128;
                }
                out.push(rest as u8);
            }
        }
        out.extend_from_slice(text);
    }
}
