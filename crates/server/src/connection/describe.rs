//! What the status page says of a request that is being served.

use std::net::IpAddr;

use seam::scoreboard::{Slot, Texts};

use crate::request::Request;

/// Shows on the status page whose request is served.
pub(super) fn describe(request: &Request, slot: &Slot) {
    let mut address = [0; ADDRESS];
    slot.describe(Texts {
        client: text_of(request.client.peer.ip().to_canonical(), &mut address),
        vhost: &request.vhost.label,
        request: &http::text::from_bytes(request.incoming.line()),
        protocol: request.protocol(),
    });
}

/// Room for the text of any IP address.
const ADDRESS: usize = 48;

/// The text of an address, without an allocation.
fn text_of(ip: IpAddr, into: &mut [u8; ADDRESS]) -> &str {
    use std::io::Write;
    let mut rest = &mut into[..];
    let written = match ip {
        // On every request: formatting machinery costs more than all else that a row of the status page needs.
        IpAddr::V4(ip) => {
            let mut digits = [0; 15];
            rest.write_all(dotted(ip.octets(), &mut digits))
        }
        IpAddr::V6(ip) => write!(rest, "{ip}"),
    };
    let left = written.map_or(ADDRESS, |()| rest.len());
    std::str::from_utf8(&into[..ADDRESS - left]).unwrap_or_default()
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
    fn addresses_as_texts() {
        let mut room = [0; ADDRESS];
        for text in ["0.0.0.0", "127.0.0.1", "255.255.255.255", "10.20.100.9", "::1", "fe80::1:2"] {
            let ip: IpAddr = text.parse().expect("an address");
            assert_eq!(text_of(ip, &mut room), text);
        }
    }
}
