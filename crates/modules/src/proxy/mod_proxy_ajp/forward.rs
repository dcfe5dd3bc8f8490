//! The packet with the request's line, its fields, and what else the backend learns about it.

use std::borrow::Cow;

use bytes::Bytes;
use server::Request;

use super::packet::Packet;
use crate::proxy::mod_proxy::{Destination, one_of_each};

/// The code of a packet that forwards a request, and the end of its attributes.
const FORWARD: u8 = 2;
const END: u8 = 0xff;
/// The methods by their number.
const METHODS: [&str; 27] = [
    "OPTIONS",
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "TRACE",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "ACL",
    "REPORT",
    "VERSION-CONTROL",
    "CHECKIN",
    "CHECKOUT",
    "UNCHECKOUT",
    "SEARCH",
    "MKWORKSPACE",
    "UPDATE",
    "LABEL",
    "MERGE",
    "BASELINE-CONTROL",
    "MKACTIVITY",
];
/// A method without a number: its name is an attribute.
const NAMED_METHOD: u8 = 0xff;
/// The fields by the second byte of their code.
const FIELDS: [&str; 14] = [
    "Accept",
    "Accept-Charset",
    "Accept-Encoding",
    "Accept-Language",
    "Authorization",
    "Connection",
    "Content-Type",
    "Content-Length",
    "Cookie",
    "Cookie2",
    "Host",
    "Pragma",
    "Referer",
    "User-Agent",
];
const CODED: u16 = 0xa000;
/// The prefix of environment variables that the backend learns.
const PREFIX: &str = "AJP_";

/// The codes of attributes.
mod attribute {
    pub(super) const REMOTE_USER: u8 = 0x03;
    pub(super) const AUTH_TYPE: u8 = 0x04;
    pub(super) const QUERY_STRING: u8 = 0x05;
    pub(super) const ROUTE: u8 = 0x06;
    pub(super) const SSL_CERT: u8 = 0x07;
    pub(super) const SSL_CIPHER: u8 = 0x08;
    pub(super) const SSL_SESSION: u8 = 0x09;
    pub(super) const NAMED: u8 = 0x0a;
    pub(super) const SSL_KEY_SIZE: u8 = 0x0b;
    pub(super) const SECRET: u8 = 0x0c;
    pub(super) const METHOD: u8 = 0x0d;
}

/// The packet for a request. `None`: the request is too long for one.
pub(super) fn packet(request: &Request, destination: &Destination, most: usize) -> Option<Bytes> {
    let mut packet = Packet::new();
    let method = METHODS.iter().position(|name| *name == request.data.method);
    let (path, query) = match destination.target.path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&*destination.target.path, None),
    };
    packet.byte(FORWARD);
    packet.byte(method.and_then(|index| u8::try_from(index + 1).ok()).unwrap_or(NAMED_METHOD));
    packet.text(request.protocol());
    packet.text(path);
    packet.text(request.client().ip());
    match request.client_name() {
        Some(name) => packet.text(name),
        None => packet.absent(),
    }
    packet.text(&request.server_name());
    packet.number(request.local().port());
    packet.byte(u8::from(request.is_secure()));
    let fields = fields(request);
    packet.number(u16::try_from(fields.len()).ok()?);
    for (name, value) in &fields {
        match FIELDS
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))
            .and_then(|index| u16::try_from(index).ok())
        {
            Some(index) => packet.number(CODED + index + 1),
            // A longer name would begin like the code of another field.
            None if name.len() >= usize::from(CODED) => return None,
            None => packet.text(name),
        }
        packet.text(value);
    }
    attributes(&mut packet, request, destination, query);
    if method.is_none() {
        add(&mut packet, attribute::METHOD, Some(&request.data.method));
    }
    named_attributes(&mut packet, request);
    packet.byte(END);
    packet.end(most)
}

/// The fields of the request. How its body comes is what the backend has to know, even if a filter has changed its length.
fn fields(request: &Request) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let (has_body, length) = (!request.body.is_none(), request.body.length());
    let mut fields = one_of_each(request);
    fields.retain(|(name, value)| match () {
        () if name.eq_ignore_ascii_case("Content-Length") => length.is_some() && (has_body || value.trim() == "0"),
        () if name.eq_ignore_ascii_case("Transfer-Encoding") => length.is_none(),
        () => true,
    });
    let has = |name: &str| fields.iter().any(|(have, _)| have.eq_ignore_ascii_case(name));
    let framing: Option<(&str, Cow<'_, str>)> = match length {
        Some(length) if has_body && !has("Content-Length") => Some(("Content-Length", length.to_string().into())),
        None if !has("Transfer-Encoding") => Some(("Transfer-Encoding", "chunked".into())),
        _ => None,
    };
    fields.extend(framing.map(|(name, value)| (Cow::Borrowed(name), value)));
    fields
}

/// Adds an attribute that has a code, if there is a value for it.
fn add(packet: &mut Packet, code: u8, value: Option<&str>) {
    if let Some(value) = value {
        packet.byte(code);
        packet.text(value);
    }
}

fn add_named(packet: &mut Packet, name: &str, value: &str) {
    packet.byte(attribute::NAMED);
    packet.text(name);
    packet.text(value);
}

/// A variable about the connection's encryption that says something.
fn of_tls(request: &Request, name: &str) -> Option<String> {
    request.variable(name).filter(|value| !value.is_empty())
}

/// The attributes that have codes, in Apache's order.
fn attributes(packet: &mut Packet, request: &Request, destination: &Destination, query: Option<&str>) {
    add(packet, attribute::SECRET, destination.ajp.secret.as_deref());
    add(packet, attribute::REMOTE_USER, request.login.user.as_deref());
    add(packet, attribute::AUTH_TYPE, request.login.auth_type.as_deref());
    add(packet, attribute::QUERY_STRING, query);
    // The route of the balancer's session.
    add(packet, attribute::ROUTE, request.env.get("BALANCER_SESSION_ROUTE"));
    if request.is_secure() {
        let coded = [
            (attribute::SSL_CERT, "SSL_CLIENT_CERT"),
            (attribute::SSL_CIPHER, "SSL_CIPHER"),
            (attribute::SSL_SESSION, "SSL_SESSION_ID"),
        ];
        for (code, name) in coded {
            add(packet, code, of_tls(request, name).as_deref());
        }
        if let Some(size) = of_tls(request, "SSL_CIPHER_USEKEYSIZE").and_then(|text| text.parse().ok()) {
            packet.byte(attribute::SSL_KEY_SIZE);
            packet.number(size);
        }
    }
}

/// The attributes that have names: what the protocol forgot, and what the configuration adds.
fn named_attributes(packet: &mut Packet, request: &Request) {
    if let Some(version) = of_tls(request, "SSL_PROTOCOL").filter(|_| request.is_secure()) {
        add_named(packet, "AJP_SSL_PROTOCOL", &version);
    }
    add_named(packet, "AJP_REMOTE_PORT", &request.client().peer.port().to_string());
    add_named(packet, "AJP_LOCAL_ADDR", &request.local().ip().to_string());
    for (name, value) in request.env.iter() {
        if let Some(name) = name.strip_prefix(PREFIX) {
            add_named(packet, name, value);
        }
    }
}
