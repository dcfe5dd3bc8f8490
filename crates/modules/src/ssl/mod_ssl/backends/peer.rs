//! What is checked of a server's certificate whether its chain is verified or not: `SSLProxyCheckPeerExpire`,
//! `SSLProxyCheckPeerName` and `SSLProxyCheckPeerCN`.

use std::net::IpAddr;

use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use crate::ssl::mod_ssl::certificates::{is_for, names};
use crate::ssl::mod_ssl::clients::{parse, valid};
use crate::ssl::mod_ssl::settings::SslProxy;

/// The checks of a certificate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checks {
    expire: bool,
    name: Name,
}

/// What of the certificate has to be the server's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// Any of its names.
    Any,
    /// Its common name.
    Common,
    Unchecked,
}

impl Checks {
    pub(super) fn new(settings: &SslProxy) -> Checks {
        let (name, common) = (settings.check_peer_name.get(), settings.check_peer_cn.get());
        let name = match (name, common) {
            (Some(true), _) | (None, None | Some(true)) => Name::Any,
            (Some(false), Some(true)) => Name::Common,
            // As in Apache, `SSLProxyCheckPeerCN off` alone turns both checks off.
            (Some(false), _) | (None, Some(false)) => Name::Unchecked,
        };
        Checks { expire: settings.check_peer_expire.value_or(true), name }
    }

    /// Checks the certificates of a server with this name. `Err`: the message for the log.
    pub(super) fn check(self, certificates: &[CertificateDer<'_>], server: &str) -> Result<(), String> {
        if !self.expire && self.name == Name::Unchecked {
            return Ok(());
        }
        let certificate = certificates.first().and_then(|der| parse(der));
        let certificate = certificate.ok_or("AH02003: SSL Proxy connect failed: its certificate is damaged")?;
        let (now, (start, end)) = (UnixTime::now().as_secs().cast_signed(), valid(&certificate));
        if self.expire && (now < start || now > end) {
            return Err("AH02004: SSL Proxy: Peer certificate is expired".into());
        }
        match self.name {
            Name::Any if !is_named(&certificate, server) => {
                Err(format!("AH02411: SSL Proxy: Peer certificate does not match for hostname {server}"))
            }
            Name::Common => {
                let common = certificate.subject().iter_common_name().find_map(|name| name.as_str().ok());
                let common = common.unwrap_or_default();
                match is_for(common, server) {
                    true => Ok(()),
                    false => Err(format!(
                        "AH02005: SSL Proxy: Peer certificate CN mismatch: Certificate CN: {common} Requested hostname: {server}"
                    )),
                }
            }
            Name::Any | Name::Unchecked => Ok(()),
        }
    }
}

/// Whether one of a certificate's names or addresses is this one.
fn is_named(certificate: &X509Certificate<'_>, server: &str) -> bool {
    if names(certificate).any(|name| is_for(name, server)) {
        return true;
    }
    let Ok(address) = server.parse::<IpAddr>() else { return false };
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let mut alternatives = alternatives.into_iter().flat_map(|extension| &extension.value.general_names);
    alternatives.any(|name| matches!(name, GeneralName::IPAddress(own) if *own == bytes))
}

#[cfg(test)]
mod tests {
    use conf::Origin;

    use super::*;

    #[test]
    fn which_name_is_checked() {
        let table = [
            (None, None, Name::Any),
            (None, Some(true), Name::Any),
            (None, Some(false), Name::Unchecked),
            (Some(true), None, Name::Any),
            (Some(true), Some(false), Name::Any),
            (Some(false), None, Name::Unchecked),
            (Some(false), Some(false), Name::Unchecked),
            (Some(false), Some(true), Name::Common),
        ];
        for (name, common, want) in table {
            let mut settings = SslProxy::default();
            let origin = Origin { source: std::sync::Arc::new(conf::Source::new("f")), line: 1 };
            name.into_iter().for_each(|on| settings.check_peer_name.set(on, &origin));
            common.into_iter().for_each(|on| settings.check_peer_cn.set(on, &origin));
            assert_eq!(Checks::new(&settings).name, want, "{name:?} {common:?}");
        }
    }

    #[test]
    fn names_and_addresses() {
        let made = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            rcgen::generate_simple_self_signed(names).expect("a certificate").cert.der().clone()
        };
        let all = made(&["a.test", "*.b.test", "127.0.0.1", "::1"]);
        let certificate = parse(&all).expect("a certificate");
        for name in ["a.test", "A.TEST", "x.b.test", "127.0.0.1", "::1"] {
            assert!(is_named(&certificate, name), "{name}");
        }
        for name in ["b.test", "x.y.b.test", "127.0.0.2", "::2", "", "*.b.test.c"] {
            assert!(!is_named(&certificate, name), "{name}");
        }
    }
}
