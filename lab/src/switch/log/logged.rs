//! What a line of a log says.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use jiff::tz::TimeZone;
use memchr::{memchr, memrchr};

use crate::switch::log::directive::Value;
use crate::switch::log::escape;
use crate::switch::log::time::{self, Clock};

/// What one line says. Values are the bytes that Apache escaped; `-` is `None`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Logged<'a> {
    /// `None` if the client sent nothing that looks like a request, such as a handshake of TLS: such lines are in every
    /// log.
    pub request: Option<RequestLine<'a>>,
    /// The field `Host`, which may have a port, or else `%V`, or else `%v`.
    pub host: Option<Cow<'a, [u8]>>,
    /// The port that the connection arrived at, or else the canonical one.
    pub port: Option<u16>,
    /// `%a`, or else `%h` if that is an address, or else `%{c}a`.
    pub client: Option<IpAddr>,
    /// The user of an authenticated request, which may be an empty name.
    pub user: Option<Cow<'a, [u8]>>,
    /// All request fields but `Host`, in the order and with the names of the format.
    pub fields: Vec<(&'a str, Cow<'a, [u8]>)>,
    /// The final status, or else the original one.
    pub status: Option<u16>,
    /// The status before an internal redirect.
    pub original_status: Option<u16>,
    /// The length of the response's body. `%b` writes `-` for 0, which is `None`.
    pub bytes: Option<u64>,
    /// What was sent, with the head.
    pub sent: Option<u64>,
    /// Microseconds since 1970.
    pub time: Option<i64>,
    /// How long the request took, in the finest unit of the format.
    pub duration: Option<Duration>,
}

/// What a client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestLine<'a> {
    /// A token. `GET` if the format has `%U` without `%m`.
    pub method: &'a [u8],
    /// As the client sent it, if the format has `%r`. With `%U` it is the decoded path, encoded again, and `/index.html`
    /// instead of `/` if that answered.
    pub target: Cow<'a, [u8]>,
    /// `1.1` of `HTTP/1.1`. `None` for HTTP/0.9, for a request line with spaces in its target, which Apache refuses and
    /// logs without its end, and if the format does not have it.
    pub version: Option<&'a [u8]>,
}

/// What the values of a line told so far. Where several directives tell the same thing, the first of an array is the
/// best.
#[derive(Default)]
pub(super) struct Found<'a> {
    request: Option<RequestLine<'a>>,
    method: Option<&'a [u8]>,
    path: Option<Cow<'a, [u8]>>,
    query: Option<Cow<'a, [u8]>>,
    version: Option<&'a [u8]>,
    hosts: [Option<Cow<'a, [u8]>>; 3],
    ports: [Option<u16>; 2],
    clients: [Option<IpAddr>; 3],
    statuses: [Option<u16>; 2],
    /// The unit of the duration that is known.
    unit: Option<Duration>,
    /// Reads the times itself.
    pub(super) clock: Clock,
    logged: Logged<'a>,
}

impl<'a> Found<'a> {
    /// Takes a value. `None` if it cannot be one of this directive.
    pub(super) fn take(&mut self, value: &'a Value, text: &'a [u8]) -> Option<()> {
        if text == b"-" {
            return Some(());
        }
        let logged = &mut self.logged;
        match value {
            Value::RequestLine => self.request = request_line(text),
            Value::Method => self.method = Some(text),
            Value::Path => self.path = Some(escape::unescape(text)),
            Value::Query if text.is_empty() => {}
            Value::Query => self.query = Some(escape::unescape(text)),
            Value::Version => self.version = Some(text.strip_prefix(b"HTTP/").unwrap_or(text)),
            Value::HostField => self.hosts[0] = Some(escape::unescape(text)),
            Value::AskedName => self.hosts[1] = Some(escape::unescape(text)),
            Value::ServerName => self.hosts[2] = Some(escape::unescape(text)),
            Value::LocalPort => self.ports[0] = Some(u16::try_from(time::number(text)?).ok()?),
            Value::Port => self.ports[1] = Some(u16::try_from(time::number(text)?).ok()?),
            Value::Client => self.clients[0] = address(text),
            Value::ClientName => self.clients[1] = address(text),
            Value::Peer => self.clients[2] = address(text),
            Value::User if text == b"\"\"" => logged.user = Some(Cow::Borrowed(b"")),
            Value::User => logged.user = Some(escape::unescape(text)),
            Value::Field(name) => logged.fields.push((name, escape::unescape(text))),
            Value::Status => self.statuses[0] = Some(status(text)?),
            Value::OriginalStatus => self.statuses[1] = Some(status(text)?),
            Value::Bytes => logged.bytes = Some(u64::try_from(time::number(text)?).ok()?),
            Value::Sent => logged.sent = Some(u64::try_from(time::number(text)?).ok()?),
            Value::Duration(unit) => self.take_duration(*unit, time::number(text)?),
            Value::Number => time::number(text).map(|_| ())?,
            // The clock reads times itself.
            Value::Time(_) | Value::Other => {}
        }
        Some(())
    }

    fn take_duration(&mut self, unit: Duration, count: i64) {
        if self.unit.is_none_or(|known| unit < known) {
            self.unit = Some(unit);
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            self.logged.duration = unit.checked_mul(count);
        }
    }

    /// All of it. Times without an offset are of `zone`.
    pub(super) fn finish(self, zone: &TimeZone) -> Logged<'a> {
        let request = self.request.or_else(|| {
            let method = self.method.unwrap_or(b"GET");
            let target = target(self.path?, self.query)?;
            is_token(method).then_some(RequestLine { method, target, version: self.version })
        });
        let [final_status, original_status] = self.statuses;
        Logged {
            request,
            host: self.hosts.into_iter().flatten().find(|host| !host.is_empty()),
            port: self.ports.into_iter().flatten().next(),
            client: self.clients.into_iter().flatten().next(),
            status: final_status.or(original_status),
            original_status,
            time: self.clock.microseconds(zone),
            ..self.logged
        }
    }
}

/// Takes a first line of a request apart, which is still escaped: no escape is a space.
fn request_line(text: &[u8]) -> Option<RequestLine<'_>> {
    let (method, rest) = text.split_at(memchr(b' ', text)?);
    let rest = &rest[1..];
    let versioned = memrchr(b' ', rest).and_then(|at| Some((&rest[..at], rest[at + 1..].strip_prefix(b"HTTP/")?)));
    let (target, version) = versioned.map_or((rest, None), |(target, version)| (target, Some(version)));
    (is_token(method) && !target.is_empty()).then(|| RequestLine { method, target: escape::unescape(target), version })
}

/// A target from `%U` and `%q`.
fn target<'a>(path: Cow<'a, [u8]>, query: Option<Cow<'a, [u8]>>) -> Option<Cow<'a, [u8]>> {
    if *path == *b"*" {
        return Some(path);
    }
    let mut target = Vec::with_capacity(path.len() + query.as_ref().map_or(0, |query| query.len()));
    escape::percent_encode(&path, &mut target);
    target.extend_from_slice(query.as_deref().unwrap_or_default());
    target.starts_with(b"/").then_some(Cow::Owned(target))
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(is_token_char)
}

/// RFC 9110, section 5.6.2.
pub(super) fn is_token_char(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

fn status(text: &[u8]) -> Option<u16> {
    time::number(text).filter(|_| text.len() == 3).and_then(|status| u16::try_from(status).ok())
}

fn address(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
