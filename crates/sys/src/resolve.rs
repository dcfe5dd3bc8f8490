//! Names of addresses, and addresses of names, from the system's resolver.
//!
//! It blocks for as long as the resolver takes (resolv.conf(5): `timeout`, `attempts`). `NotFound` means that there is
//! no such name or address; any other error, that this could not be found out.

use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// netdb.h: it has addresses, but none of this family.
const EAI_ADDRFAMILY: libc::c_int = -9;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Addresses of four bytes.
    V4,
    /// Addresses of sixteen bytes.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }
}

/// The name of an address.
pub fn name_of(address: IpAddr) -> io::Result<String> {
    let mut name = [0u8; libc::NI_MAXHOST as usize];
    let failed = match address {
        IpAddr::V4(ip) => {
            // SAFETY: `sockaddr_in` is plain data; all zero is a valid value of it.
            let mut at: libc::sockaddr_in = unsafe { mem::zeroed() };
            at.sin_family = libc::AF_INET as libc::sa_family_t;
            at.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
            getnameinfo(&at, &mut name)
        }
        IpAddr::V6(ip) => {
            // SAFETY: `sockaddr_in6` is plain data; all zero is a valid value of it.
            let mut at: libc::sockaddr_in6 = unsafe { mem::zeroed() };
            at.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            at.sin6_addr.s6_addr = ip.octets();
            getnameinfo(&at, &mut name)
        }
    };
    checked(failed)?;
    let name = CStr::from_bytes_until_nul(&name).map_err(io::Error::other)?;
    Ok(name.to_string_lossy().into_owned())
}

/// The addresses of a name, of one family.
pub fn addresses_of(name: &str, family: Family) -> io::Result<Vec<IpAddr>> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::NotFound)?;
    // SAFETY: `addrinfo` is plain data; all zero is a valid value of it.
    let mut wanted: libc::addrinfo = unsafe { mem::zeroed() };
    wanted.ai_family = match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    // Each address once.
    wanted.ai_socktype = libc::SOCK_STREAM;
    let mut found: *mut libc::addrinfo = std::ptr::null_mut();
    // SAFETY: `name` and `wanted` live through the call, no service is given, and `found` takes the result.
    checked(unsafe { libc::getaddrinfo(name.as_ptr(), std::ptr::null(), &raw const wanted, &raw mut found) })?;
    let (mut addresses, mut at) = (Vec::new(), found);
    // SAFETY: the call succeeded, so `found` is a list that ends with a null pointer, and belongs to us until it is
    // freed once. An entry's address is as long as its family says.
    unsafe {
        while let Some(entry) = at.as_ref() {
            if entry.ai_family == libc::AF_INET {
                let v4 = entry.ai_addr.cast::<libc::sockaddr_in>().read_unaligned();
                addresses.push(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into());
            } else if entry.ai_family == libc::AF_INET6 {
                let v6 = entry.ai_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                addresses.push(Ipv6Addr::from(v6.sin6_addr.s6_addr).into());
            }
            at = entry.ai_next;
        }
        libc::freeaddrinfo(found);
    }
    Ok(addresses)
}

/// The result of a call of the resolver.
fn checked(failed: libc::c_int) -> io::Result<()> {
    match failed {
        0 => Ok(()),
        libc::EAI_SYSTEM => Err(io::Error::last_os_error()),
        libc::EAI_NONAME | libc::EAI_NODATA | EAI_ADDRFAMILY => Err(io::ErrorKind::NotFound.into()),
        // SAFETY: the text is a constant of the C library.
        _ => Err(io::Error::other(unsafe { CStr::from_ptr(libc::gai_strerror(failed)) }.to_string_lossy())),
    }
}

fn getnameinfo<T>(address: &T, name: &mut [u8]) -> libc::c_int {
    // SAFETY: both pointers come from references that live through the call, with the lengths of their targets; `T` is
    // `sockaddr_in` or `sockaddr_in6`. No service name is wanted, so its buffer may be null.
    unsafe {
        libc::getnameinfo(
            std::ptr::from_ref(address).cast(),
            mem::size_of::<T>() as libc::socklen_t,
            name.as_mut_ptr().cast(),
            name.len() as libc::socklen_t,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_address_has_a_name() {
        assert_eq!(name_of(IpAddr::from([127, 0, 0, 1])).expect("/etc/hosts"), "localhost");
    }

    #[test]
    fn names_have_addresses_of_a_family() {
        assert_eq!(addresses_of("127.0.0.9", Family::V4).expect("an address"), [IpAddr::from([127, 0, 0, 9])]);
        assert_eq!(addresses_of("::1", Family::V6).expect("an address"), [IpAddr::from(Ipv6Addr::LOCALHOST)]);
        let none = addresses_of("no such host", Family::V4).expect_err("a name with blanks");
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        let none = addresses_of("::1", Family::V4).expect_err("the other family");
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }
}
