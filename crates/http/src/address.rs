//! The text of an address.

use std::net::IpAddr;

/// Writes an address; one of IPv4 that came in the form of IPv6 as one of IPv4 (RFC 4291 section 2.5.5.2). Nearly all are of
/// IPv4, and need no formatter.
pub fn write_address<T>(address: IpAddr, write: impl FnOnce(&str) -> T) -> T {
    let address = match address.to_canonical() {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => return write(&address.to_string()),
    };
    let (mut text, mut len) = ([0; 16], 0);
    let mut push = |byte| {
        text[len % 16] = byte;
        len += 1;
    };
    for octet in address.octets() {
        if octet >= 100 {
            push(b'0' + octet / 100);
        }
        if octet >= 10 {
            push(b'0' + octet / 10 % 10);
        }
        push(b'0' + octet % 10);
        push(b'.');
    }
    write(std::str::from_utf8(&text[..len - 1]).unwrap_or_default())
}

/// The text of an address, as [`write_address`] writes it.
#[must_use]
pub fn address_text(address: IpAddr) -> String {
    write_address(address, str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_standard_library_writes_them() {
        for text in ["0.0.0.0", "9.10.99.100", "255.1.20.0", "::1", "2001:db8::1"] {
            assert_eq!(address_text(text.parse().unwrap()), text);
        }
        assert_eq!(address_text("::ffff:192.0.2.1".parse().unwrap()), "192.0.2.1");
    }
}
