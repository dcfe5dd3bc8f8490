//! What the certificates of the other side of a connection are judged by: a client's here, and a server's behind this one.

use std::sync::Arc;

use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs as provider};
use rustls::pki_types::{CertificateDer, TrustAnchor};
use webpki::KeyUsage;

use super::lists::{Current, Lists};
use super::parse::{is_self_issued, parse, valid};
use crate::ssl::mod_ssl::values::CertificateCheck;

/// The side of the connection whose certificates are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Side {
    Client,
    Server,
}

impl Side {
    /// What webpki checks that a certificate may be used for.
    pub(super) fn usage(self) -> KeyUsage {
        match self {
            Side::Client => KeyUsage::client_auth(),
            Side::Server => KeyUsage::server_auth(),
        }
    }
}

/// What certificates are judged by.
pub(in super::super) struct Judge {
    pub(in super::super) side: Side,
    /// `optional_no_ca`
    pub(in super::super) tolerates_strangers: bool,
    pub(in super::super) depth: usize,
    pub(super) roots: Vec<Root>,
    pub(super) anchors: Vec<TrustAnchor<'static>>,
    /// Certificates of intermediate authorities: they complete chains.
    pub(super) others: Vec<CertificateDer<'static>>,
    pub(super) lists: Current,
    pub(super) check: CertificateCheck,
    pub(in super::super) algorithms: WebPkiSupportedAlgorithms,
}

/// A certificate that may end a chain; its trust anchor has the same index in the list of anchors.
pub(super) struct Root {
    pub(super) der: CertificateDer<'static>,
    pub(super) subject: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) valid: (i64, i64),
}

impl Judge {
    /// One that trusts these authorities, and tolerates no strangers.
    pub(in super::super) fn new(
        side: Side,
        trusted: Vec<CertificateDer<'static>>,
        depth: usize,
        check: CertificateCheck,
        lists: Current,
    ) -> Result<Judge, String> {
        let mut judge = Judge {
            side,
            tolerates_strangers: false,
            depth,
            roots: Vec::new(),
            anchors: Vec::new(),
            others: Vec::new(),
            lists,
            check,
            algorithms: provider::default_provider().signature_verification_algorithms,
        };
        judge.sort(trusted)?;
        Ok(judge)
    }

    /// The lists of revoked certificates in effect.
    pub(super) fn lists(&self) -> Arc<Lists> {
        self.lists.get()
    }

    /// Separates roots from intermediate authorities. As in OpenSSL, a chain ends with a self-issued certificate.
    fn sort(&mut self, trusted: Vec<CertificateDer<'static>>) -> Result<(), String> {
        for der in trusted {
            let bad =
                || "AH01895: Unable to configure verify locations for client authentication: a certificate is broken";
            let parsed = parse(&der).ok_or_else(bad)?;
            if !is_self_issued(&parsed) {
                self.others.push(der);
                continue;
            }
            let anchor = webpki::anchor_from_trusted_cert(&der).map_err(|_| bad())?.to_owned();
            let (subject, key) = (parsed.subject().as_raw().to_vec(), parsed.public_key().raw.to_vec());
            let root = Root { subject, key, valid: valid(&parsed), der: der.clone() };
            self.anchors.push(anchor);
            self.roots.push(root);
        }
        Ok(())
    }
}
