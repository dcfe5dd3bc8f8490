//! A certificate with its chain and its key, and the form in which processes hand it to each other.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::published::Part;

/// A certificate with its chain and its key.
pub(super) struct Pair {
    /// The server's certificate comes first.
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    /// The end of the certificate's validity, in seconds since 1970.
    pub(super) end: i64,
}

impl Pair {
    /// The pair in rustls's form. `Err`: the key does not belong to the certificate, or is of no supported kind.
    pub(super) fn certified(&self) -> Result<Arc<CertifiedKey>, rustls::Error> {
        let key = provider::default_provider().key_provider.load_private_key(self.key.clone_key())?;
        // rustls compares them too, but rejects X.509 version 1 certificates, which `openssl x509 -req` makes.
        let first = self.chain.first().and_then(|first| X509Certificate::from_der(first).ok());
        let (_, first) = first.ok_or(rustls::Error::NoCertificatesPresented)?;
        if key.public_key().is_some_and(|own| own.as_ref() != first.public_key().raw) {
            return Err(rustls::InconsistentKeys::KeyMismatch.into());
        }
        Ok(Arc::new(CertifiedKey::new(self.chain.clone(), key)))
    }
}

/// Encodes the certificates of a virtual host for other processes.
pub(super) fn to_part(pairs: &[Pair]) -> Part {
    let mut bytes = Vec::new();
    let mut put = |piece: &[u8]| {
        bytes.extend((piece.len() as u64).to_le_bytes());
        bytes.extend(piece);
    };
    for Pair { chain, key, .. } in pairs {
        put(key.secret_der());
        put(&[chain.len().min(255) as u8]);
        chain.iter().take(255).for_each(|certificate| put(certificate));
    }
    Part { ends: pairs.iter().map(|pair| pair.end).collect(), bytes }
}

/// Decodes the output of [`to_part`]. `None`: the bytes are something else.
pub(super) fn from_part(part: &Part) -> Option<Vec<Arc<CertifiedKey>>> {
    let mut rest = &part.bytes[..];
    let mut take = || {
        let (length, behind) = rest.split_at_checked(8)?;
        let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
        let (piece, behind) = behind.split_at_checked(length)?;
        rest = behind;
        Some(piece)
    };
    let pairs = part.ends.iter().map(|end| {
        let key = PrivateKeyDer::try_from(take()?.to_vec()).ok()?;
        let count = *take()?.first()?;
        let chain: Option<Vec<_>> = (0..count).map(|_| Some(CertificateDer::from(take()?.to_vec()))).collect();
        Pair { chain: chain?, key, end: *end }.certified().ok()
    });
    pairs.collect()
}
