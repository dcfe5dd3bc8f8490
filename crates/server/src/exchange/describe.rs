//! The status page's texts about a request being served.

use std::time::Duration;

use runtime::scoreboard::{Row, RowTexts, Visit, VisitKeys};

use crate::request::Request;

/// What the status page shows of a request and its URL, worked out once for a request that is repeated.
pub(crate) struct Shown {
    texts: RowTexts,
    host: Vec<u8>,
    keys: VisitKeys,
}

impl Shown {
    /// Of this request.
    pub(super) fn of(request: &Request) -> Shown {
        let mut room = [0; LABEL];
        let host = host_of(request, &mut room);
        Shown { texts: texts(request), host: host.to_vec(), keys: VisitKeys::new(host, request.data.head.path()) }
    }
}

fn texts(request: &Request) -> RowTexts {
    let mut room = [0; LABEL];
    let line = http::text::from_bytes(request.data.head.line());
    RowTexts::new(protocol_of(request).as_bytes(), host_of(request, &mut room), line.as_bytes())
}

/// Shows the request being served on the status page. `shown`: what is known of it.
pub(super) fn describe(request: &Request, shown: Option<&Shown>, row: &Row) {
    let client = request.client.peer.ip();
    match shown {
        Some(shown) => row.describe(client, &shown.texts),
        None => row.describe(client, &texts(request)),
    }
}

/// Counts an answered request among those for its URL and its virtual host. `shown`: what is known of it; `ended`: when
/// it was, since 1970.
pub(super) fn visited(request: &Request, shown: Option<&Shown>, ended: Duration, row: &Row) {
    let (mut room, path) = ([0; LABEL], request.data.head.path());
    let (host, keys) = match shown {
        Some(shown) => (&shown.host[..], shown.keys),
        None => {
            let host = host_of(request, &mut room);
            (host, VisitKeys::new(host, path))
        }
    };
    let visit = Visit {
        host,
        path,
        status: request.response.status(),
        took: request.account.sent.duration,
        ended,
        script: request.account.script.is_some(),
    };
    row.visited(keys, visit);
}

/// The virtual host with its port.
fn host_of<'a>(request: &'a Request, room: &'a mut [u8; LABEL]) -> &'a [u8] {
    match &request.vhost.label {
        Some(label) => label.as_bytes(),
        None => label_of(&request.vhost.name, request.client.local().port(), room),
    }
}

/// The protocol of a request's connection, in Apache's words for those without a version number.
fn protocol_of(request: &Request) -> &'static str {
    match request.data.stream {
        None => request.protocol(),
        Some(_) if request.client.is_secure() => "h2",
        Some(_) => "h2c",
    }
}

/// Room for as much of a host's name and port as a row shows.
const LABEL: usize = 80;

/// A host's name and the port of a connection to it, without an allocation; cuts a name that is too long.
fn label_of<'a>(name: &str, port: u16, into: &'a mut [u8; LABEL]) -> &'a [u8] {
    const PORT: usize = 6;
    let mut used = name.len().min(LABEL - PORT);
    while !name.is_char_boundary(used) {
        used -= 1;
    }
    into[..used].copy_from_slice(&name.as_bytes()[..used]);
    into[used] = b':';
    used += 1;
    for unit in [10_000, 1000, 100, 10, 1].into_iter().filter(|unit| port >= *unit || *unit == 1) {
        into[used] = b'0' + (port / unit % 10) as u8;
        used += 1;
    }
    &into[..used]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_ports() {
        let mut room = [0; LABEL];
        for (name, port) in [("a.example", 80), ("", 0), ("x", 65535), ("\u{fc}", 8080), ("ten", 10)] {
            assert_eq!(label_of(name, port, &mut room), format!("{name}:{port}").as_bytes());
        }
        assert_eq!(label_of(&"\u{fc}".repeat(60), 443, &mut room), format!("{}:443", "\u{fc}".repeat(37)).as_bytes());
    }
}
