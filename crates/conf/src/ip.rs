//! Networks in the syntax of `Require ip`, `Allow from` and `-ipmatch`.
//!
//! Source: Apache manual, mod_authz_host and "expr"; RFC 4291, RFC 4632. Doubtful cases and error messages measured on
//! 2.4.71.

mod networks;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use self::networks::Networks;

/// A network: an address, and which of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet(Bits);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bits {
    V4 { network: u32, mask: u32 },
    V6 { network: u128, mask: u128 },
}

/// Why a text is not a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubnetError {
    /// Does not look like an address at all; `Allow from` treats it as a host name.
    NotAnAddress,
    /// Looks like an address, but is not one.
    Address,
    /// The text after `/` is neither a number of bits nor a netmask.
    Mask,
}

impl fmt::Display for SubnetError {
    /// Apache's text for the cause.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnAddress => "Invalid argument",
            Self::Address => "The specified IP address is invalid.",
            Self::Mask => "The specified network mask is invalid.",
        })
    }
}

impl std::error::Error for SubnetError {}

impl SubnetError {
    /// The message of `Require ip`.
    #[must_use]
    pub fn require_ip_message(self, text: &str) -> String {
        match self {
            Self::NotAnAddress => format!("ip address '{text}' appears to be invalid"),
            _ => format!("ip address '{text}' appears to be invalid: {self}"),
        }
    }
}

impl Subnet {
    /// Reads `10.1.2.3`, `10.1` (the first octets of an IPv4 address), `10.1.0.0/16`,
    /// `10.1.0.0/255.255.0.0`, `2001:db8::1` or `2001:db8::/32`.
    ///
    /// # Errors
    /// See [`SubnetError`]. A partial address must not have a mask, `/0` is not a mask, and an IPv4 address written as
    /// an IPv6 one is an error.
    pub fn parse(text: &str) -> Result<Self, SubnetError> {
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        let bits = if address.contains(':') {
            Self::parse_v6(address, mask)?
        } else if !address.is_empty() && address.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            Self::parse_v4(address, mask)?
        } else {
            return Err(SubnetError::NotAnAddress);
        };
        Ok(Self(bits))
    }

    /// Whether `address` belongs to the network. `address` may be an IPv4 address in IPv6 form.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match self.0 {
            Bits::V4 { network, mask } => match address.to_canonical() {
                IpAddr::V4(address) => address.to_bits() & mask == network,
                IpAddr::V6(_) => false,
            },
            Bits::V6 { network, mask } => match address {
                IpAddr::V4(_) => false,
                IpAddr::V6(address) => address.to_bits() & mask == network,
            },
        }
    }

    fn parse_v4(address: &str, mask: Option<&str>) -> Result<Bits, SubnetError> {
        let (address, mask) = match mask {
            None => {
                let address = address.strip_suffix('.').unwrap_or(address);
                let (address, octets) = leading_octets(address).ok_or(SubnetError::Address)?;
                (address, u32::MAX << (32 - 8 * octets))
            }
            Some(mask) => {
                let address = whole_v4(address).ok_or(SubnetError::Address)?;
                let mask = match prefix_length(mask, 32) {
                    Some(length) => u32::MAX << (32 - length),
                    None => whole_v4(mask).ok_or(SubnetError::Mask)?,
                };
                (address, mask)
            }
        };
        Ok(Bits::V4 { network: address & mask, mask })
    }

    fn parse_v6(address: &str, mask: Option<&str>) -> Result<Bits, SubnetError> {
        let address: Ipv6Addr = address.parse().map_err(|_| SubnetError::Address)?;
        if address.to_ipv4_mapped().is_some() {
            return Err(SubnetError::Address);
        }
        let mask = match mask {
            None => u128::MAX,
            Some(mask) => {
                let length = prefix_length(mask, 128).ok_or(SubnetError::Mask)?;
                u128::MAX << (128 - length)
            }
        };
        Ok(Bits::V6 { network: address.to_bits() & mask, mask })
    }
}

/// Parses an address as on the left side of `-ipmatch`, including the old IPv4 notations: `127.1`, `0x7f000001`,
/// `0177.0.0.1` (inet(3)).
#[must_use]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok().map(IpAddr::V6);
    }
    let mut address: u32 = 0;
    let parts: Vec<&str> = text.split('.').collect();
    let (last, leading) = parts.split_last()?;
    if leading.len() > 3 {
        return None;
    }
    for part in leading {
        address = address << 8 | u32::from(u8::try_from(c_number(part)?).ok()?);
    }
    let free_bits = 32 - 8 * leading.len();
    let last = u64::from(c_number(last)?);
    if last >> free_bits != 0 {
        return None;
    }
    let address = u64::from(address) << free_bits | last;
    Some(IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(address).ok()?)))
}

/// Parses four decimal octets; unlike the standard library's parser, allows leading zeros.
fn whole_v4(text: &str) -> Option<u32> {
    leading_octets(text).and_then(|(address, octets)| (octets == 4).then_some(address))
}

/// Parses one to four decimal octets; returns them left-aligned, with their number.
fn leading_octets(text: &str) -> Option<(u32, u32)> {
    let (mut address, mut octets) = (0, 0);
    for part in text.split('.') {
        let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let octet: u8 = is_number.then(|| part.parse().ok())??;
        if octets == 4 {
            return None;
        }
        address |= u32::from(octet) << (24 - 8 * octets);
        octets += 1;
    }
    Some((address, octets))
}

/// Parses a prefix length of 1 to `most`, with the leading blanks and plus sign that strtol(3) skips.
fn prefix_length(text: &str, most: u32) -> Option<u32> {
    let length = text.trim_start().parse().ok()?;
    (1..=most).contains(&length).then_some(length)
}

/// Parses a number in C notation: decimal, octal after `0`, hexadecimal after `0x`.
fn c_number(text: &str) -> Option<u32> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = match (hexadecimal, text.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (text, 10),
    };
    let all_digits = digits.chars().all(|c| c.is_digit(base));
    all_digits.then(|| u32::from_str_radix(digits, base).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_networks_or_not() {
        use SubnetError::{Address, Mask, NotAnAddress};
        for (text, expected) in [
            ("300.1.1.1", Err(Address)),
            ("10.1.", Ok(())),
            ("10.1.2.3.4", Err(Address)),
            ("10.1.2.3/33", Err(Mask)),
            ("10.1.2.3/x", Err(Mask)),
            ("10.1.2.3/255.255.0", Err(Mask)),
            ("10.0.0.0/255.0.255.0", Ok(())),
            ("foo", Err(NotAnAddress)),
            ("10.foo", Err(NotAnAddress)),
            ("::1", Ok(())),
            ("::1/129", Err(Mask)),
            ("::1/64", Ok(())),
            ("fe80::/10", Ok(())),
            ("::ffff:1.2.3.4", Err(Address)),
            ("1.2.3", Ok(())),
            ("1.2.3/8", Err(Address)),
            ("1.2/255.255.0.0", Err(Address)),
            ("1.2.3.4/", Err(Mask)),
            ("/8", Err(NotAnAddress)),
            ("::", Ok(())),
            ("::g", Err(Address)),
            ("1..2", Err(Address)),
            ("01.02.03.04", Ok(())),
            ("1.2.3.4/08", Ok(())),
            ("1.2.3.4/-1", Err(Mask)),
            ("256", Err(Address)),
            ("0x7f.1", Err(NotAnAddress)),
            ("fe80::1%lo", Err(Address)),
            (".1", Err(Address)),
            ("::1/255.0.0.0", Err(Mask)),
            ("10.1.2.3/255.255.256.0", Err(Mask)),
            ("10/8", Err(Address)),
            ("1.2.3./24", Err(Address)),
            ("10.1.2.3/0", Err(Mask)),
            ("300.1.1.1/x", Err(Address)),
            ("1.2.3.4./24", Err(Address)),
            ("1.2.3.4/255.255.0.0.", Err(Mask)),
            ("1.2.3.4/+8", Ok(())),
            ("1.2.3.0004", Ok(())),
        ] {
            assert_eq!(Subnet::parse(text).map(|_| ()), expected, "{text}");
        }
    }

    #[test]
    fn the_message_of_require_ip() {
        assert_eq!(
            SubnetError::Address.require_ip_message("300.1.1.1"),
            "ip address '300.1.1.1' appears to be invalid: The specified IP address is invalid."
        );
        assert_eq!(SubnetError::NotAnAddress.require_ip_message("foo"), "ip address 'foo' appears to be invalid");
    }
}
