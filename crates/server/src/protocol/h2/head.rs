//! The head of an HTTP/2 request: pseudo-header fields, then fields (RFC 9113 section 8).
//!
//! The `h2` crate resets malformed requests: pseudo-header fields that are missing, duplicated or misplaced, names in
//! capitals, connection-specific fields. This module checks the rest: target, host and fields have to be valid in
//! HTTP/1 too, because programs get them in the same variables.

use h2::ext::Protocol;
use http::h1::head;
use http::{Authority, HeadError, Limits, Version};
use http_types::header::{self, HeaderMap, HeaderName};
use http_types::request::Parts;

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

/// A field is so malformed that the request must not be answered (RFC 9113 section 8.2.1).
pub(super) struct Malformed;

/// Reads a head.
pub(super) fn read(parts: &Parts, limits: &Limits) -> Result<ReceivedHead, Malformed> {
    let fields = &parts.headers;
    if fields.values().any(|value| value.as_bytes().trim_ascii().len() != value.len()) {
        return Err(Malformed);
    }
    let protocol = parts.extensions.get::<Protocol>().map(|protocol| protocol.as_str().to_string());
    if protocol
        .as_ref()
        .is_some_and(|protocol| protocol.is_empty() || protocol.bytes().any(|byte| !(33..127).contains(&byte)))
    {
        return Err(Malformed);
    }
    let host = fields.get(header::HOST).map(|value| value.as_bytes());
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let is_tunnel = protocol.is_some();
    let target = match parts.uri.path_and_query() {
        Some(target) => target.as_str().as_bytes(),
        // CONNECT has no other target.
        None => authority.unwrap_or(b"*"),
    };
    let error = check(parts, target, authority, limits).err();
    // An extended CONNECT corresponds to a GET in HTTP/1 (RFC 8441 section 5).
    let method = if is_tunnel { b"GET" } else { parts.method.as_str().as_bytes() };
    let name = authority.or(host);
    let line = head::Parts { method, target, authority: name, version: Version::Http2 };
    let cookie = cookies(fields);
    // One value even if the field is repeated: the protocol refuses lengths that differ. A tunnel has no body.
    let length = fields.get(header::CONTENT_LENGTH).filter(|_| !is_tunnel);
    let first = name.map(|name| (&b"Host"[..], name));
    let is_other = |name: &HeaderName| match *name {
        header::HOST | header::CONTENT_LENGTH => false,
        header::COOKIE => cookie.is_none(),
        _ => true,
    };
    let rest = fields
        .iter()
        .filter(|(name, _)| is_other(name))
        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let last = length.map(|length| (&b"content-length"[..], length.as_bytes()));
    let last = last.into_iter().chain(cookie.as_deref().map(|cookie| (&b"cookie"[..], cookie)));
    let head = RequestHead::assembled(&line, first.into_iter().chain(rest).chain(last));
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    let expects =
        fields.get(header::EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    Ok(ReceivedHead { head, error, length, expects, protocol })
}

/// The head that a program gets for an HTTP/2 request. `None`: the request is refused.
pub fn served(parts: &Parts, limits: &Limits) -> Option<RequestHead> {
    read(parts, limits).ok().filter(|asked| asked.error.is_none()).map(|asked| asked.head)
}

/// The urgency of a request: from 0, the most urgent, to 7 (RFC 9218 section 4.1).
pub(super) fn urgency(fields: &HeaderMap) -> u8 {
    const DEFAULT: u8 = b'3';
    let of = |value: &[u8]| {
        let members = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        members.filter_map(|member| member.strip_prefix(b"u=")?.first().copied()).next_back()
    };
    let said = fields.get_all("priority").iter().filter_map(|value| of(value.as_bytes())).next_back();
    said.filter(|digit| (b'0'..=b'7').contains(digit)).unwrap_or(DEFAULT) - b'0'
}

/// Refuses heads that HTTP/1 would refuse.
fn check(parts: &Parts, target: &[u8], authority: Option<&[u8]>, limits: &Limits) -> Result<(), HeadError> {
    let fields = &parts.headers;
    if parts.method.as_str().len() + target.len() + " HTTP/2.0 ".len() > limits.line + 1 {
        return Err(HeadError::LineTooLong);
    }
    let most = if limits.fields == 0 { Limits::FIELDS_MAX } else { limits.fields };
    if fields.len() > most {
        return Err(HeadError::TooManyFields);
    }
    let size = |name: &HeaderName, value: &[u8]| name.as_str().len() + value.len() + ": ".len();
    if fields.iter().any(|(name, value)| size(name, value.as_bytes()) > limits.field_size + 1) {
        return Err(HeadError::FieldTooLong);
    }
    // The library accepts a quotation mark in a name.
    if fields.keys().any(|name| !http::name::is_valid(name.as_str().as_bytes())) {
        return Err(HeadError::BadFieldName);
    }
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 10..=31 | 127);
    if fields.values().any(|value| value.as_bytes().iter().any(is_control)) {
        return Err(HeadError::BadFieldValue);
    }
    // A gateway might forward another scheme (RFC 9113 section 8.3.1).
    let is_ours = |scheme: &str| ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme));
    if parts.uri.scheme_str().is_some_and(|scheme| !is_ours(scheme)) {
        return Err(HeadError::BadTarget);
    }
    let is_connect = parts.method == http_types::Method::CONNECT && parts.extensions.get::<Protocol>().is_none();
    let is_asterisk = target == b"*" && parts.method == http_types::Method::OPTIONS;
    if is_connect && authority.is_none() || !is_connect && !is_asterisk && !target.starts_with(b"/") {
        return Err(HeadError::BadTarget);
    }
    let mut hosts = fields.get_all(header::HOST).iter().map(|value| value.as_bytes());
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(HeadError::SeveralHosts);
    }
    // RFC 9113 section 8.3.1: if Host differs from the authority, neither is trustworthy.
    if let (Some(host), Some(authority)) = (host, authority)
        && !host.eq_ignore_ascii_case(authority)
    {
        return Err(HeadError::SeveralHosts);
    }
    let name = authority.or(host).ok_or(HeadError::NoHost)?;
    Authority::parse(name, limits.strict).map(drop).ok_or(HeadError::BadHost)
}

/// Joins cookies from several fields (RFC 9113 section 8.2.3). A field without a value holds none. `None`: there is at
/// most one field.
fn cookies(fields: &HeaderMap) -> Option<Vec<u8>> {
    let all = fields.get_all(header::COOKIE);
    all.iter().nth(1)?;
    Some(
        all.iter().map(|value| value.as_bytes()).filter(|value| !value.is_empty()).collect::<Vec<_>>().join(&b"; "[..]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgency_is_a_digit_of_a_list() {
        for (value, urgency) in
            [("u=0", 0), ("i, u=7", 7), ("u=1;x=2, i", 1), ("u=8", 3), ("i", 3), ("", 3), ("u=5, u=2", 2)]
        {
            let mut fields = HeaderMap::new();
            fields.insert("priority", value.parse().expect("a value"));
            assert_eq!(self::urgency(&fields), urgency, "{value}");
        }
        assert_eq!(self::urgency(&HeaderMap::new()), 3);
    }
}
