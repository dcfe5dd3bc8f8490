//! The status page's texts about a request being served.

use std::net::IpAddr;

use runtime::scoreboard::{Row, Texts, Visit};

use crate::request::Request;

/// Shows the request being served on the status page.
pub(super) fn describe(request: &Request, row: &Row) {
    let (mut address, mut label) = ([0; ADDRESS], [0; LABEL]);
    row.describe(Texts {
        client: text_of(request.client.peer.ip().to_canonical(), &mut address),
        vhost: host_of(request, &mut label),
        request: http::text::from_bytes(request.data.head.line()).as_bytes(),
        protocol: protocol_of(request).as_bytes(),
    });
}

/// Counts an answered request among those for its URL and its virtual host.
pub(super) fn visited(request: &Request, row: &Row) {
    let mut label = [0; LABEL];
    row.visited(Visit {
        host: host_of(request, &mut label),
        path: request.data.head.path(),
        status: request.response.status(),
        took: request.account.sent.duration,
        ended: request.account.ended(),
        script: request.account.script.is_some(),
    });
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

/// Room for the text of any IP address.
const ADDRESS: usize = 48;

/// The text of an address, without an allocation.
fn text_of(ip: IpAddr, into: &mut [u8; ADDRESS]) -> &[u8] {
    use std::io::Write;
    let mut rest = &mut into[..];
    let written = match ip {
        // Runs for every request: formatting machinery would cost more than everything else in a row of the status
        // page.
        IpAddr::V4(ip) => {
            let mut digits = [0; 15];
            rest.write_all(dotted(ip.octets(), &mut digits))
        }
        IpAddr::V6(ip) => write!(rest, "{ip}"),
    };
    let left = written.map_or(ADDRESS, |()| rest.len());
    &into[..ADDRESS - left]
}

/// Four numbers with dots between them.
fn dotted(octets: [u8; 4], into: &mut [u8; 15]) -> &[u8] {
    let mut len = 0;
    let mut push = |byte| {
        into[len] = byte;
        len += 1;
    };
    for (place, octet) in octets.into_iter().enumerate() {
        if place > 0 {
            push(b'.');
        }
        for (unit, above) in [(100, octet >= 100), (10, octet >= 10), (1, true)] {
            if above {
                push(b'0' + octet / unit % 10);
            }
        }
    }
    &into[..len]
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

    #[test]
    fn addresses_as_texts() {
        let mut room = [0; ADDRESS];
        for text in ["0.0.0.0", "127.0.0.1", "255.255.255.255", "10.20.100.9", "::1", "fe80::1:2"] {
            let ip: IpAddr = text.parse().expect("an address");
            assert_eq!(text_of(ip, &mut room), text.as_bytes());
        }
    }
}
