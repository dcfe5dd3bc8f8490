//! The allowed destinations of a load: this machine, or hosts that the user has declared as theirs.

use std::net::{IpAddr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

use super::url::Url;
use crate::machine::error::{Error, Result};

/// The address of a URL's server, if it may be loaded; see [`check`].
///
/// # Errors
/// The host has no address, or is neither here nor `owned`.
pub(crate) fn server(url: &Url, only_six: bool, owned: Option<&str>) -> Result<SocketAddr> {
    let server = url.resolve(only_six)?;
    check(&url.host, &[server], owned).map(|()| server)
}

/// Checks that all `servers` of `host` are addresses of this machine, unless `owned` is that host.
///
/// # Errors
/// One is not.
pub(crate) fn check(host: &str, servers: &[SocketAddr], owned: Option<&str>) -> Result<()> {
    if owned.is_some_and(|owned| owned.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    match servers.iter().find(|server| !is_here(**server)) {
        None => Ok(()),
        Some(stranger) => {
            let text = format!("{} is not on this machine, and a load can bring a server down", stranger.ip());
            Err(Error::new(text).advise(format!("if it is yours: --i-own-this-target {host}")))
        }
    }
}

/// Whether this machine has the address: on one of its interfaces, or in its loopback network. Binding a socket proves
/// nothing, since a kernel may be configured to allow any address (`net.ipv4.ip_nonlocal_bind`).
pub(crate) fn is_here(server: SocketAddr) -> bool {
    let ip = server.ip().to_canonical();
    let ip_of = |address: &SockaddrStorage| match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(four), _) => Some(IpAddr::V4(four.ip())),
        (_, Some(six)) => Some(IpAddr::V6(six.ip())),
        _ => None,
    };
    let is_own = || getifaddrs().is_ok_and(|mut all| all.any(|one| one.address.as_ref().and_then(ip_of) == Some(ip)));
    ip.is_loopback() || ip.is_unspecified() || is_own()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_left_alone() {
        let at = |ip: [u8; 4]| SocketAddr::from((ip, 80));
        assert!(check("localhost", &[at([127, 0, 0, 1]), at([127, 88, 1, 1])], None).is_ok());
        assert!(check("any", &[SocketAddr::from(([0; 4], 80)), SocketAddr::from(([0_u16; 8], 80))], None).is_ok());
        let own =
            getifaddrs().unwrap().filter_map(|one| Some(SocketAddr::V4((*one.address?.as_sockaddr_in()?).into())));
        assert!(own.into_iter().all(is_here), "addresses of interfaces");
        // An address that is reserved for documentation (RFC 5737).
        let strangers = [at([127, 0, 0, 1]), at([192, 0, 2, 1])];
        let error = check("www.example.org", &strangers, None).unwrap_err().to_string();
        assert!(error.contains("192.0.2.1 is not on this machine"), "{error}");
        assert!(check("www.example.org", &strangers, Some("localhost")).is_err());
        assert!(check("www.example.org", &strangers, Some("WWW.example.org")).is_ok());
    }
}
