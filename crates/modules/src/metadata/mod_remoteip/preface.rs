//! The PROXY protocol, versions 1 and 2: a proxy's announcement before anything else on the connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use conf::Level;
use server::{Announced, PrefaceOutcome};

/// The longest line of version 1, including its end.
const LINE_MAX: usize = 107;
/// The beginning of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The fixed part of version 2: signature, version and command, family, length.
const FIXED: usize = 16;
/// The most bytes after it, as in Apache: addresses, and a proxy's additions.
const ADDRESSES_MAX: usize = 216;

/// Parses it. `None`: there is more to come.
pub(super) fn read(bytes: &[u8]) -> Option<PrefaceOutcome> {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(have, want)| have == want);
    if bytes.is_empty() {
        return None;
    }
    if begins(b"PROXY ") {
        return line(bytes);
    }
    if begins(SIGNATURE) {
        return binary(bytes);
    }
    broken(Level::Info, "AH03496: RemoteIPProxyProtocol data is missing, but required!".into())
}

fn broken(level: Level, why: String) -> Option<PrefaceOutcome> {
    Some(PrefaceOutcome::Broken(level, why))
}

/// `PROXY TCP4 client ours port port`.
fn line(bytes: &[u8]) -> Option<PrefaceOutcome> {
    let fail = |number: &str, why: String| broken(Level::Error, format!("{number}: RemoteIPProxyProtocol{why}"));
    let Some(end) = bytes.iter().take(LINE_MAX).position(|byte| *byte == b'\n') else {
        let length = bytes.len();
        return match length >= LINE_MAX {
            true => fail("AH10185", format!(" header too long, got {length} expected {LINE_MAX}")),
            false => None,
        };
    };
    let text = String::from_utf8_lossy(&bytes[..end]);
    let text = text.trim_end_matches('\r');
    let missing = |what: &str| fail("AH03497", format!(": no {what} found in header '{text}'"));
    let mut words = text.split(' ').skip(1).filter(|word| !word.is_empty());
    let Some(family) = words.next() else { return missing("family") };
    let is_four = match family {
        "UNKNOWN" => return Some(PrefaceOutcome::Announced(Announced::Nobody, end + 1)),
        "TCP4" => true,
        "TCP6" => false,
        other => return fail("AH03499", format!(": unknown family '{other}' in header '{text}'")),
    };
    let Some(client) = words.next() else { return missing("client-address") };
    let Some(ip) = client.parse::<IpAddr>().ok().filter(|ip| ip.is_ipv4() == is_four) else {
        return fail("AH03500", format!(": invalid client-address '{client}' found in header '{text}'"));
    };
    if words.next().is_none() {
        return missing("destination-address");
    }
    let Some(port) = words.next() else { return missing("client-port") };
    let Ok(number) = port.parse() else {
        return fail("AH03501", format!(": error parsing port '{port}' in header '{text}'"));
    };
    Some(PrefaceOutcome::Announced(Announced::Client(SocketAddr::new(ip, number)), end + 1))
}

/// The preface in version 2 of the protocol, which is binary.
fn binary(bytes: &[u8]) -> Option<PrefaceOutcome> {
    let fixed = bytes.get(..FIXED)?;
    let (version, command, family) = (fixed[12] >> 4, fixed[12] & 0xf, fixed[13]);
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let fail = |why: String| broken(Level::Error, why);
    if version != 2 {
        let why = format!("AH10183: RemoteIPProxyProtocol: unsupported protocol {:02x}", fixed[12] & 0xf0);
        return broken(Level::Info, why);
    }
    if length > ADDRESSES_MAX {
        return fail("AH10186: RemoteIPProxyProtocol protocol header length too long".into());
    }
    let addresses = bytes.get(FIXED..FIXED + length)?;
    let nobody = Some(PrefaceOutcome::Announced(Announced::Nobody, FIXED + length));
    let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
    let client = match (command, family) {
        // The proxy itself, which checks whether we are there.
        (0, _) => return nobody,
        (1, 0x11) if length < 12 => {
            return fail(format!("AH10597: RemoteIPProxyProtocol: address length {length} too short for TCPv4"));
        }
        (1, 0x21) if length < 36 => {
            return fail(format!("AH10598: RemoteIPProxyProtocol: address length {length} too short for TCPv6"));
        }
        (1, 0x11) => {
            let octets: [u8; 4] = std::array::from_fn(|i| addresses[i]);
            SocketAddr::new(Ipv4Addr::from(octets).into(), port(8))
        }
        (1, 0x21) => {
            let octets: [u8; 16] = std::array::from_fn(|i| addresses[i]);
            SocketAddr::new(Ipv6Addr::from(octets).into(), port(32))
        }
        // Another family: no usable address.
        (1, _) => return nobody,
        _ => {
            return fail(format!("AH03507: RemoteIPProxyProtocol: unsupported command {:02x}", fixed[12]));
        }
    };
    Some(PrefaceOutcome::Announced(Announced::Client(client), FIXED + length))
}
