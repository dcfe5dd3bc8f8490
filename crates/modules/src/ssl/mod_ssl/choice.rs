//! Selects one of a virtual host's certificates for a client.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

use super::pair;
use super::published::{Part, Published};
use super::staples;

/// The certificates of a virtual host. The first handshake after a publication takes in the new ones.
pub(super) struct Choice {
    /// The index of the virtual host.
    host: usize,
    published: Arc<Published>,
    /// The OCSP responses for them.
    staples: Option<Arc<Published>>,
    /// The allowed signature schemes; `None`: all that a key supports.
    schemes: Option<Arc<[SignatureScheme]>>,
    current: RwLock<Current>,
}

/// The current certificates.
struct Current {
    /// The numbers of the sets of certificates and of OCSP responses that were looked at last.
    numbers: (u64, u64),
    /// The numbers of the sets that brought this host's.
    brought: (u64, u64),
    certificates: Certificates,
}

pub(super) type Certificates = Arc<[Arc<CertifiedKey>]>;

impl Choice {
    /// Starts with `certificates`, which are not in the published memory.
    pub(super) fn new(
        host: usize,
        published: Arc<Published>,
        staples: Option<Arc<Published>>,
        certificates: Vec<Arc<CertifiedKey>>,
        schemes: Option<Vec<SignatureScheme>>,
    ) -> Choice {
        let schemes = schemes.map(Arc::from);
        let certificates = limited(certificates, schemes.as_ref());
        let current = Current { numbers: (0, 0), brought: (0, 0), certificates };
        Choice { host, published, staples, schemes, current: current.into() }
    }

    /// The number of the set in effect.
    pub(super) fn number(&self) -> u64 {
        self.published.number()
    }

    /// The certificates in effect.
    pub(super) fn current(&self) -> Certificates {
        let numbers = (self.number(), self.staples.as_ref().map_or(0, |staples| staples.number()));
        let known = self.current.read().unwrap_or_else(PoisonError::into_inner);
        if known.numbers == numbers {
            return known.certificates.clone();
        }
        drop(known);
        self.take_in(numbers)
    }

    fn take_in(&self, numbers: (u64, u64)) -> Certificates {
        let mut known = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let of_staples = self.staples.as_ref().map_or(0, |staples| staples.brought(self.host));
        let brought = (self.published.brought(self.host), of_staples);
        if known.brought != brought {
            self.replace(&mut known, brought);
        }
        // The next handshake notices a set that was published in the meantime.
        known.numbers = numbers;
        known.certificates.clone()
    }

    fn replace(&self, known: &mut Current, brought: (u64, u64)) {
        let part = if known.brought.0 == brought.0 { None } else { self.published.part(self.host) };
        if let Some((_, part)) = part {
            match pair::from_part(&part) {
                Some(certificates) => known.certificates = limited(certificates, self.schemes.as_ref()),
                None => {
                    runtime::log!(
                        "ssl",
                        Error,
                        "published certificates cannot be read: the previous ones stay in effect"
                    );
                }
            }
        }
        if let Some((_, part)) = self.staples.as_ref().and_then(|staples| staples.part(self.host)) {
            known.certificates = known.certificates.iter().map(|one| stapled(one, &part)).collect();
        }
        known.brought = brought;
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice").field("host", &self.host).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Choice {
    /// The first certificate that supports the client's most preferred scheme, as OpenSSL chooses. If none does,
    /// returns the first, and rustls fails the handshake for lack of a common scheme.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificates = self.current();
        let with = |scheme: &SignatureScheme| {
            certificates.iter().find(|one| one.key.choose_scheme(std::slice::from_ref(scheme)).is_some())
        };
        let chosen = hello.signature_schemes().iter().find_map(with).or(certificates.first())?;
        server::tls::shown(chosen);
        Some(chosen.clone())
    }
}

/// A key restricted to some signature schemes.
#[derive(Debug)]
struct Limited {
    key: Arc<dyn SigningKey>,
    schemes: Arc<[SignatureScheme]>,
}

impl SigningKey for Limited {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let offered: Vec<_> = offered.iter().copied().filter(|scheme| self.schemes.contains(scheme)).collect();
        self.key.choose_scheme(&offered)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

fn stapled(one: &CertifiedKey, part: &Part) -> Arc<CertifiedKey> {
    let ocsp = one.cert.first().and_then(|certificate| staples::response_for(certificate, part));
    Arc::new(CertifiedKey { cert: one.cert.clone(), key: one.key.clone(), ocsp })
}

fn limited(certificates: Vec<Arc<CertifiedKey>>, schemes: Option<&Arc<[SignatureScheme]>>) -> Certificates {
    let Some(schemes) = schemes else { return certificates.into() };
    let limit = |one: Arc<CertifiedKey>| {
        let key = Limited { key: one.key.clone(), schemes: schemes.clone() };
        Arc::new(CertifiedKey { cert: one.cert.clone(), key: Arc::new(key), ocsp: one.ocsp.clone() })
    };
    certificates.into_iter().map(limit).collect()
}
