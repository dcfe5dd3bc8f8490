//! From items to a line.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use server::{Previous, Request};
use sys::process::Status;

use super::escape::{Apache, Cut, Escape, FieldKind, nothing, number};
use super::format::{Cost, Field, Format, Item, Part, Unit, What};
use super::json::{self, Json};
use crate::loggers::mod_logio::LogIoDir;

impl Format {
    /// Writes the line of a request, without its end. If it is longer than `max`, its longest texts are cut, so that
    /// the fields after them remain, and a line of JSON stays valid.
    pub(super) fn write(&self, request: &Request, max: usize, out: &mut Vec<u8>) {
        let tries = [
            Format::write_as::<Apache, Json>,
            Format::write_as::<Cut<Apache, 1024>, Cut<Json, 1024>>,
            Format::write_as::<Cut<Apache, 256>, Cut<Json, 256>>,
            Format::write_as::<Cut<Apache, 64>, Cut<Json, 64>>,
        ];
        for write in tries {
            out.clear();
            write(self, request, out);
            if out.len() <= max {
                return;
            }
        }
    }

    /// The line in two variants of text: plain, or JSON.
    fn write_as<L: Escape, J: Escape>(&self, request: &Request, out: &mut Vec<u8>) {
        for item in &self.0 {
            match item {
                Item::Text(text) => out.extend_from_slice(text),
                Item::Field(field) => _ = field.write::<L>(request, out),
                Item::InString(field) => _ = field.write::<J>(request, out),
                Item::Value(field) => json::value(out, |out| field.write::<J>(request, out)),
            }
        }
    }
}

impl Field {
    fn is_wanted(&self, request: &Request) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&request.response.status()) != self.negated
    }

    fn write<E: Escape>(&self, request: &Request, out: &mut Vec<u8>) -> FieldKind {
        if !self.is_wanted(request) {
            return nothing(out);
        }
        let original = if self.original { request.original() } else { None };
        let sent = &request.account.sent;
        match &self.what {
            What::Fixed(text) => own::<E>(out, |out| out.extend_from_slice(&http::text::to_bytes(text))),
            What::Nothing => nothing(out),
            What::Address => address(out, request.client().peer.ip()),
            What::ConnectionAddress => address(out, request.client().connection().peer.ip()),
            What::Host => match request.client_name() {
                Some(name) => text::<E>(out, Some(name)),
                None => address(out, request.client().peer.ip()),
            },
            What::LocalAddress => address(out, request.local().ip()),
            What::RemotePort => port(out, request.client().peer),
            What::LocalPort => port(out, request.local()),
            What::CanonicalPort => {
                let host = request.vhost;
                number(out, host.port.filter(|port| *port != 0).unwrap_or(host.scheme_port()).into())
            }
            What::Body => number(out, sent.body),
            What::BodyOrDash if sent.body == 0 => nothing(out),
            What::BodyOrDash => number(out, sent.body),
            What::Received => number(out, sent.received),
            What::Sent => number(out, sent.bytes),
            What::Both => number(out, sent.received + sent.bytes),
            What::Cookie(name) => match request.header_joined("Cookie") {
                Some(cookies) => text::<E>(out, cookie(&cookies, name)),
                None => nothing(out),
            },
            What::Variable(variable) => {
                let value = server::evaluate_string(request, variable).unwrap_or_default();
                text::<E>(out, Some(&*value).filter(|value| !value.is_empty()))
            }
            What::Env(name) => text::<E>(out, original.map_or(&request.env, |original| &original.env).get(name)),
            What::Note(name) => text::<E>(out, original.map_or(&request.notes, |original| &original.notes).get(name)),
            What::File => {
                let name = original.map_or(&request.mapped.filename, |original| &original.filename);
                text::<E>(out, Some(name.as_str()).filter(|name| !name.is_empty()))
            }
            What::Protocol => letters(out, request.protocol()),
            What::HeaderIn(name) => match request.header_bytes(name.name()) {
                Some(value) => bytes::<E>(out, &value),
                None => nothing(out),
            },
            What::HeaderOut(name) => text::<E>(out, request.header_sent(name).as_deref()),
            What::TrailerIn(name) => text::<E>(out, sent.trailers_in.get(name)),
            What::TrailerOut(name) => text::<E>(out, sent.trailers_out.get(name)),
            What::Requests => number(out, requests(request).into()),
            What::LogId => text::<E>(out, request.log_id()),
            What::ConnectionLogId => text::<E>(out, request.client().log_id().as_deref()),
            What::Method => text::<E>(out, Some(original.map_or(&*request.data.method, |original| &original.method))),
            What::Process => number(out, std::process::id().into()),
            What::Thread => number(out, sys::thread::id()),
            What::ThreadHex => plain(out, format_args!("{:x}", sys::thread::id())),
            What::Query => query::<E>(out, original.map_or(&request.data.args, |original| &original.args)),
            What::Line => line::<E>(out, request.line_bytes()),
            What::Handler => handler::<E>(out, request, original),
            What::Status => number(out, original.map_or(request.response.status(), |original| original.status).into()),
            What::Time(item) if item.is_number() => {
                item.write(out, request.time(), sent.duration);
                FieldKind::Number
            }
            What::Time(item) => own::<E>(out, |out| item.write(out, request.time(), sent.duration)),
            What::Duration(unit) => duration(out, sent.duration, *unit),
            What::User => {
                let own = || request.login.user.as_deref().or(request.account.user.as_deref());
                user::<E>(out, original.map_or_else(own, |original| original.user.as_deref()))
            }
            What::Uri => text::<E>(out, Some(original.map_or(&*request.data.uri, |original| &original.uri))),
            What::ServerName => text::<E>(out, Some(&request.server_name())),
            What::VirtualHost => text::<E>(out, Some(&request.vhost.name)),
            What::Connection => letters(
                out,
                match (sent.aborted, sent.keepalive && !is_last_but_one(request)) {
                    (true, _) => "X",
                    (false, true) => "+",
                    (false, false) => "-",
                },
            ),
            What::Script(cost) => script(out, request, *cost),
            What::Upstream(part) => upstream::<E>(out, request, *part),
            What::FirstByte => match sent.first_byte.filter(|_| request.dir::<LogIoDir>().first_byte()) {
                Some(time) => number(out, time.as_micros() as u64),
                None => nothing(out),
            },
        }
    }
}

/// Empty if no script ran, or if it has not ended yet.
fn script(out: &mut Vec<u8>, request: &Request, cost: Cost) -> FieldKind {
    let Some(run) = &request.account.script else { return nothing(out) };
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    match (cost, run.ended()) {
        (Cost::Spawn, _) => number(out, micros(run.spawned())),
        (Cost::Queue, _) => number(out, micros(run.queued)),
        (_, None) => nothing(out),
        (Cost::Cpu, Some(ended)) => number(out, micros(ended.user + ended.system)),
        (Cost::Memory, Some(ended)) => number(out, ended.max_rss),
        (Cost::Exit, Some(ended)) => {
            match ended.status {
                Status::Exited(status) => plain(out, format_args!("{status}")),
                Status::Signaled { signal, .. } => plain(out, format_args!("-{}", signal.number())),
            };
            FieldKind::Number
        }
    }
}

/// Empty if no server behind this one has had a part in the response.
fn upstream<E: Escape>(out: &mut Vec<u8>, request: &Request, part: Part) -> FieldKind {
    let Some(upstream) = &request.account.upstream else { return nothing(out) };
    let micros = |out: &mut Vec<u8>, time: Option<Duration>| match time {
        Some(time) => number(out, u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
        None => nothing(out),
    };
    match part {
        Part::Name => text::<E>(out, Some(&upstream.name)),
        Part::Address => text::<E>(out, Some(&upstream.address)),
        Part::Connect => micros(out, upstream.connected()),
        Part::FirstByte => micros(out, upstream.begun()),
    }
}

fn text<E: Escape>(out: &mut Vec<u8>, value: Option<&str>) -> FieldKind {
    match value {
        Some(value) => bytes::<E>(out, &http::text::to_bytes(value)),
        None => nothing(out),
    }
}

fn bytes<E: Escape>(out: &mut Vec<u8>, bytes: &[u8]) -> FieldKind {
    E::text(out, bytes);
    FieldKind::Text
}

/// A text of the configuration.
fn own<E: Escape>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> FieldKind {
    let start = out.len();
    write(out);
    E::settle(out, start);
    FieldKind::Text
}

/// Our own text, in which nothing is special.
fn letters(out: &mut Vec<u8>, text: &str) -> FieldKind {
    out.extend_from_slice(text.as_bytes());
    FieldKind::Text
}

fn plain(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) -> FieldKind {
    out.write_fmt(text).unwrap_or_else(|_| unreachable!("a vector takes everything"));
    FieldKind::Text
}

fn address(out: &mut Vec<u8>, ip: IpAddr) -> FieldKind {
    http::write_address(ip, |part| out.extend_from_slice(part.as_bytes()));
    FieldKind::Text
}

fn port(out: &mut Vec<u8>, address: SocketAddr) -> FieldKind {
    number(out, address.port().into())
}

/// The number of earlier requests on this connection. Apache counts answers after which the connection stays open, and
/// the one that `MaxKeepAliveRequests` makes the last: if something else ends the connection, its last request has the
/// number of the one before it.
fn requests(request: &Request) -> u32 {
    let (before, max) =
        (request.client().connection().keepalives.load(Relaxed), request.vhost.max_keep_alive_requests());
    if request.account.sent.keepalive || max > 0 && before >= max { before } else { before.saturating_sub(1) }
}

/// Whether the next request is the last that `MaxKeepAliveRequests` allows. Apache's log then calls this connection
/// closed.
fn is_last_but_one(request: &Request) -> bool {
    let max = request.vhost.max_keep_alive_requests();
    max > 0 && request.client().connection().keepalives.load(Relaxed) + 1 >= max
}

fn duration(out: &mut Vec<u8>, duration: Duration, unit: Unit) -> FieldKind {
    number(
        out,
        match unit {
            Unit::Seconds => duration.as_secs(),
            Unit::Millis => duration.as_millis() as u64,
            Unit::Micros => duration.as_micros() as u64,
        },
    )
}

fn user<E: Escape>(out: &mut Vec<u8>, user: Option<&str>) -> FieldKind {
    match user {
        Some("") => {
            out.extend_from_slice(E::EMPTY_USER);
            FieldKind::Text
        }
        user => text::<E>(out, user),
    }
}

/// With its `?`; empty without a query.
fn query<E: Escape>(out: &mut Vec<u8>, args: &Option<String>) -> FieldKind {
    if let Some(args) = args {
        out.push(b'?');
        text::<E>(out, Some(args));
    }
    FieldKind::Text
}

fn handler<E: Escape>(out: &mut Vec<u8>, request: &Request, original: Option<&Previous>) -> FieldKind {
    let handler = original.map_or(request.mapped.handler.as_ref(), |original| original.handler.as_ref());
    text::<E>(out, handler.map(AsRef::as_ref))
}

/// The request line, without a password in its target.
fn line<E: Escape>(out: &mut Vec<u8>, line: &[u8]) -> FieldKind {
    match password(line) {
        Some((start, end)) => {
            E::text(out, &line[..start]);
            out.extend_from_slice(b"XXXXXXXX");
            bytes::<E>(out, &line[end..])
        }
        None => bytes::<E>(out, line),
    }
}

/// The position of the password in `GET http://user:password@host/ HTTP/1.1`.
fn password(line: &[u8]) -> Option<(usize, usize)> {
    let target = memchr::memchr(b' ', line)? + 1;
    // Nearly all targets are paths.
    if line.get(target) == Some(&b'/') {
        return None;
    }
    let host = target + memchr::memmem::find(&line[target..], b"://")? + 3;
    let end =
        line[host..].iter().position(|byte| matches!(byte, b'/' | b'?' | b'#' | b' ')).unwrap_or(line.len() - host);
    let authority = &line[host..host + end];
    let at = memchr::memrchr(b'@', authority)?;
    let colon = memchr::memchr(b':', &authority[..at])?;
    Some((host + colon + 1, host + at))
}

/// The value of the cookie of that name, ignoring case, in a `Cookie` field.
fn cookie<'a>(cookies: &'a str, name: &str) -> Option<&'a str> {
    let pairs = cookies.split(';').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(have, value)| !value.is_empty() && have.trim().eq_ignore_ascii_case(name));
    values.next().map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found() {
        let field = "a=1; C = two ; c=3;d; e=; f=x=y";
        let table = [
            ("A", Some("1")),
            ("c", Some("two")),
            ("d", None),
            ("e", None),
            ("f", Some("x=y")),
            ("g", None),
            ("", None),
        ];
        for (name, want) in table {
            assert_eq!(cookie(field, name), want, "{name}");
        }
    }

    #[test]
    fn passwords_are_not_written() {
        let table = [
            ("GET http://u:pw@h:99/f.txt HTTP/1.1", "GET http://u:XXXXXXXX@h:99/f.txt HTTP/1.1"),
            ("GET http://u:p@w@h HTTP/1.1", "GET http://u:XXXXXXXX@h HTTP/1.1"),
            ("GET http://u@h/a:b@c HTTP/1.1", "GET http://u@h/a:b@c HTTP/1.1"),
            ("GET /http://u:pw@h/ HTTP/1.1", "GET /http://u:pw@h/ HTTP/1.1"),
            ("BAD", "BAD"),
        ];
        for (sent, want) in table {
            let mut out = Vec::new();
            line::<Apache>(&mut out, sent.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), want);
        }
    }

    #[test]
    fn addresses_and_users() {
        let mut out = Vec::new();
        for ip in ["127.0.0.1", "::ffff:10.200.3.4", "255.199.100.99", "2001:db8::1"] {
            address(&mut out, ip.parse().unwrap_or(IpAddr::from([0; 4])));
            out.push(b' ');
        }
        for name in [None, Some(""), Some("é")] {
            user::<Apache>(&mut out, name);
            out.push(b' ');
        }
        assert_eq!(out, br#"127.0.0.1 10.200.3.4 255.199.100.99 2001:db8::1 - "" \xc3\xa9 "#);
    }
}
