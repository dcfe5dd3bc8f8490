//! The text of an address.

use std::net::IpAddr;

use crate::Decimal;

/// Writes an address, part by part; one of IPv4 that came in the form of IPv6 as one of IPv4 (RFC 4291 section 2.5.5.2).
/// Nearly all are of IPv4, and need no formatter.
pub fn write_address(address: IpAddr, mut write: impl FnMut(&str)) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (place, octet) in address.octets().into_iter().enumerate() {
                if place > 0 {
                    write(".");
                }
                write(Decimal::of(octet.into()).as_str());
            }
        }
        IpAddr::V6(address) => write(&address.to_string()),
    }
}

/// The text of an address, as [`write_address`] writes it.
#[must_use]
pub fn address_text(address: IpAddr) -> String {
    let mut text = String::with_capacity("255.255.255.255".len());
    write_address(address, |part| text.push_str(part));
    text
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
