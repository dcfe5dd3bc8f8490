//! Names of addresses.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::net::IpAddr;

/// The name of an address, as the system's resolver knows it. Blocks for as long as the resolver takes (resolv.conf(5):
/// `timeout`, `attempts`). An address without a name is `NotFound`.
pub fn name_of(address: IpAddr) -> io::Result<String> {
    let mut name = [0u8; libc::NI_MAXHOST as usize];
    let failed = match address {
        IpAddr::V4(ip) => {
            // SAFETY: `sockaddr_in` is plain data; all zero is a valid value of it.
            let mut at: libc::sockaddr_in = unsafe { mem::zeroed() };
            at.sin_family = libc::AF_INET as libc::sa_family_t;
            at.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
            ask(&at, &mut name)
        }
        IpAddr::V6(ip) => {
            // SAFETY: `sockaddr_in6` is plain data; all zero is a valid value of it.
            let mut at: libc::sockaddr_in6 = unsafe { mem::zeroed() };
            at.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            at.sin6_addr.s6_addr = ip.octets();
            ask(&at, &mut name)
        }
    };
    match failed {
        0 => {
            let name = CStr::from_bytes_until_nul(&name).map_err(io::Error::other)?;
            Ok(name.to_string_lossy().into_owned())
        }
        libc::EAI_SYSTEM => Err(io::Error::last_os_error()),
        libc::EAI_NONAME => Err(io::ErrorKind::NotFound.into()),
        _ => Err(io::Error::other("the resolver does not answer")),
    }
}

fn ask<T>(address: &T, name: &mut [u8]) -> libc::c_int {
    // SAFETY: both pointers come from references that live through the call, with the lengths of what they point to;
    // `T` is `sockaddr_in` or `sockaddr_in6`. No service name is asked for, so its buffer may be null.
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
}
