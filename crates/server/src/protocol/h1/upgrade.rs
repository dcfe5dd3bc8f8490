//! The change of a connection from HTTP/1.1 to HTTP/2 (RFC 7540 section 3.2), which RFC 9113 has dropped and Apache keeps.
//!
//! The first response of a connection offers it. A client that asks for it, without a body, gets 101, and its request becomes
//! stream 1.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::h1::framing::{Framing, Persistence};
use http::h2::FieldList;
use http::{KnownField, Version};
use runtime::Stage;

use super::connection::{Http1Connection, Sending};
use super::head::write_head;
use super::outgoing::Outgoing;
use crate::exchange::Exchange;
use crate::message::buffers;
use crate::message::head::RequestHead;
use crate::message::sent::{Delimiter, Persist};
use crate::protocol::h2::{Http2Connection, Upgrade};
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

impl Http1Connection {
    /// Offers HTTP/2 with the first response, unless the client asks for another protocol. As in Apache, an error has no such
    /// fields, nor has the answer to `TRACE`.
    pub(super) fn offer_http2(&self, request: &mut Request) {
        if self.may_offer_http2(request)
            && self.transport.session().is_none()
            && !request.data.head.has(KnownField::Upgrade)
            && request.data.method != "TRACE"
        {
            request.response.headers_out.set("Upgrade", "h2c");
            request.response.headers_out.set("Connection", "Upgrade");
        }
    }

    /// Whether this is the first response of the connection, and may offer HTTP/2.
    pub(super) fn may_offer_http2(&self, request: &Request) -> bool {
        self.traffic == 0 && request.vhost.plan.upgrades
    }

    /// What a request says that asks for HTTP/2. `None`: it does not, or may not.
    pub(super) fn asks_for_http2(&self, request: &Request, framing: Framing) -> Option<Upgrade> {
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
        (settings.next().is_none()).then(|| Upgrade { settings: first, fields: fields(head) })
    }

    /// Answers 101; from here on the connection speaks HTTP/2.
    pub(super) async fn upgrade(&mut self, mut exchange: Exchange, upgrade: Upgrade) -> Stage {
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
        let connection = Http2Connection::upgraded(self.running, transport, client, self.workers, (upgrade, received));
        self.upgraded = Some(Box::new(connection));
        Stage::Serve
    }
}

/// The fields of this request, as an HTTP/2 client would have sent them.
fn fields(head: &RequestHead) -> FieldList {
    let mut fields = FieldList::default();
    let mut put = |name: &[u8], value: &[u8]| fields.push(name, value, usize::MAX);
    let target = match head.query() {
        Some(query) => [head.path(), b"?", query].concat(),
        None => head.path().to_vec(),
    };
    put(b":method", head.method());
    put(b":scheme", b"http");
    put(b":path", if target.is_empty() { b"/" } else { &target });
    put(b":authority", head.authority().or_else(|| head.field(KnownField::Host)).unwrap_or_default());
    for (name, value) in head.fields() {
        let name = name.to_ascii_lowercase();
        if !LEFT_OUT.contains(&name.as_slice()) {
            put(&name, value);
        }
    }
    fields
}
