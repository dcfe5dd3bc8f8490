//! The head of an HTTP/2 request: pseudo-header fields, then fields (RFC 9113 section 8).
//!
//! [`http::h2`] resets malformed requests: pseudo-header fields that are missing, duplicated or misplaced, names in
//! capitals, connection-specific fields. This module checks the rest: target, host and fields have to be valid in
//! HTTP/1 too, because programs get them in the same variables.

use http::h1::head;
use http::h2::FieldList;
use http::{Authority, HeadError, KnownField, Limits, Version};

use crate::message::head::RequestHead;

/// A client's request, before its body.
pub(super) struct ReceivedHead {
    pub(super) head: RequestHead,
    /// Why the request has to be refused.
    pub(super) error: Option<HeadError>,
    /// `Content-Length`.
    pub(super) length: Option<u64>,
    /// The client expects `100 Continue`.
    pub(super) expects: bool,
    /// The protocol of an extended CONNECT (RFC 8441).
    pub(super) protocol: Option<String>,
}

/// Reads a head.
pub(super) fn read(fields: &FieldList, limits: &Limits) -> ReceivedHead {
    let protocol = fields.protocol().map(|protocol| http::text::from_bytes(protocol).into_owned());
    let host = fields.known(KnownField::Host).next();
    let is_tunnel = protocol.is_some();
    // CONNECT has no other target.
    let target = fields.path().or(fields.authority()).unwrap_or(b"*");
    let error = check(fields, target, limits).err();
    // An extended CONNECT corresponds to a GET in HTTP/1 (RFC 8441 section 5).
    let method = if is_tunnel { b"GET" } else { fields.method() };
    let name = fields.authority().or(host);
    let line = head::Parts { method, target, authority: name, version: Version::Http2 };
    let cookie = cookies(fields);
    // One value even if the field is repeated: the protocol refuses lengths that differ. A tunnel has no body.
    let length = fields.known(KnownField::ContentLength).next().filter(|_| !is_tunnel);
    let first = name.map(|name| (&b"Host"[..], name));
    let head = if host.is_none() && fields.length().is_none() && cookie.is_none() {
        RequestHead::of_lines(&line, first, fields.lines())
    } else {
        let is_other = |name: &[u8]| match name {
            b"host" | b"content-length" => false,
            b"cookie" => cookie.is_none(),
            _ => true,
        };
        let rest = fields.iter().filter(|(name, _)| is_other(name));
        let last = length.map(|length| (&b"content-length"[..], length));
        let last = last.into_iter().chain(cookie.as_deref().map(|cookie| (&b"cookie"[..], cookie)));
        RequestHead::assembled(&line, first.into_iter().chain(rest).chain(last))
    };
    let mut expect = fields.known(KnownField::Expect);
    let expects = expect.next().is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
    ReceivedHead { head, error, length: fields.length().filter(|_| !is_tunnel), expects, protocol }
}

/// The head that a program gets for an HTTP/2 request. `None`: the request is refused.
pub fn served(fields: &FieldList, limits: &Limits) -> Option<RequestHead> {
    let asked = read(fields, limits);
    asked.error.is_none().then_some(asked.head)
}

/// The urgency of a request: from 0, the most urgent, to 7 (RFC 9218 section 4.1).
pub(super) fn urgency(fields: &FieldList) -> u8 {
    const DEFAULT: u8 = b'3';
    let of = |value: &[u8]| {
        let members = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        members.filter_map(|member| member.strip_prefix(b"u=")?.first().copied()).next_back()
    };
    let said = fields.values(b"priority").filter_map(of).last();
    said.filter(|digit| (b'0'..=b'7').contains(digit)).unwrap_or(DEFAULT) - b'0'
}

/// Refuses heads that HTTP/1 would refuse. As in Apache, limits are exact here, and each part of a request line has that of the line.
fn check(fields: &FieldList, target: &[u8], limits: &Limits) -> Result<(), HeadError> {
    let parts = [fields.method(), target, fields.authority().unwrap_or_default()];
    if parts.iter().any(|part| part.len() > limits.line) {
        return Err(HeadError::LineTooLong);
    }
    let most = if limits.fields == 0 { Limits::FIELDS_MAX } else { limits.fields };
    if fields.len() > most {
        return Err(HeadError::TooManyFields);
    }
    if fields.is_too_large() || fields.has_longer(limits.field_size) {
        return Err(HeadError::FieldTooLong);
    }
    // HTTP/2 allows a quotation mark in a name.
    if fields.has_names_of_its_own() {
        return Err(HeadError::BadFieldName);
    }
    if fields.has_controls() {
        return Err(HeadError::BadFieldValue);
    }
    // A gateway might forward another scheme (RFC 9113 section 8.3.1).
    let is_ours = |scheme: &[u8]| [&b"http"[..], b"https"].iter().any(|known| known.eq_ignore_ascii_case(scheme));
    if fields.scheme().is_some_and(|scheme| !is_ours(scheme)) {
        return Err(HeadError::BadTarget);
    }
    let authority = fields.authority();
    let is_connect = fields.method() == b"CONNECT" && fields.protocol().is_none();
    let is_asterisk = target == b"*" && fields.method() == b"OPTIONS";
    // A fragment is not part of a target.
    let is_path = target.starts_with(b"/") && !target.iter().any(|byte| matches!(byte, 0..=32 | b'#' | 127));
    if is_connect && authority.is_none() || !is_connect && !is_asterisk && !is_path {
        return Err(HeadError::BadTarget);
    }
    let mut hosts = fields.known(KnownField::Host);
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(HeadError::SeveralHosts);
    }
    // What the Host field says beside an authority, nobody gets to see (RFC 9113 section 8.3.1).
    let name = authority.or(host).ok_or(HeadError::NoHost)?;
    Authority::parse(name, limits.strict).map(drop).ok_or(HeadError::BadHost)
}

/// Joins cookies from several fields (RFC 9113 section 8.2.3). A field without a value holds none. `None`: there is at
/// most one field.
fn cookies(fields: &FieldList) -> Option<Vec<u8>> {
    let cookies = || fields.known(KnownField::Cookie);
    cookies().nth(1)?;
    Some(cookies().filter(|value| !value.is_empty()).collect::<Vec<_>>().join(&b"; "[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgency_is_a_digit_of_a_list() {
        for (value, urgency) in
            [("u=0", 0), ("i, u=7", 7), ("u=1;x=2, i", 1), ("u=8", 3), ("i", 3), ("", 3), ("u=5, u=2", 2)]
        {
            let mut fields = FieldList::default();
            fields.push(b"priority", value.as_bytes(), 1000);
            assert_eq!(self::urgency(&fields), urgency, "{value}");
        }
        assert_eq!(self::urgency(&FieldList::default()), 3);
    }
}
