//! Whom a load may hit: this machine, or who somebody has said is theirs.

use std::net::{SocketAddr, UdpSocket};

use super::url::Url;
use crate::error::{Error, Result};

/// The server of a URL, if it may be loaded; see [`check`].
///
/// # Errors
/// The host has no address, or is neither here nor `owned`.
pub(super) fn server(url: &Url, only_six: bool, owned: Option<&str>) -> Result<SocketAddr> {
    let server = url.resolve(only_six)?;
    check(&url.host, &[server], owned).map(|()| server)
}

/// Checks that all `servers` of `host` are addresses of this machine, unless `owned` is that host.
///
/// # Errors
/// One is not.
pub(super) fn check(host: &str, servers: &[SocketAddr], owned: Option<&str>) -> Result<()> {
    if owned.is_some_and(|owned| owned.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    match servers.iter().find(|server| !is_here(**server)) {
        None => Ok(()),
        Some(stranger) => {
            let text = format!("{} is not on this machine, and a load can take a server down", stranger.ip());
            Err(Error::new(text).advise(format!("where it is yours: --i-own-this-target {host}")))
        }
    }
}

/// The kernel binds a socket only to an address of its own.
pub(crate) fn is_here(server: SocketAddr) -> bool {
    UdpSocket::bind((server.ip(), 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_left_alone() {
        let at = |ip: [u8; 4]| SocketAddr::from((ip, 80));
        assert!(check("localhost", &[at([127, 0, 0, 1]), at([127, 88, 1, 1])], None).is_ok());
        // An address that is reserved for documentation (RFC 5737).
        let strangers = [at([127, 0, 0, 1]), at([192, 0, 2, 1])];
        let error = check("www.example.org", &strangers, None).unwrap_err().to_string();
        assert!(error.contains("192.0.2.1 is not on this machine"), "{error}");
        assert!(check("www.example.org", &strangers, Some("localhost")).is_err());
        assert!(check("www.example.org", &strangers, Some("WWW.example.org")).is_ok());
    }
}
