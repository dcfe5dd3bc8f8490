//! Parts of a certificate that the verification of clients looks at, and signatures by any known algorithm.

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use webpki::RawPublicKeyEntity;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// A certificate; `None`: it is damaged.
pub(in super::super) fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

/// The limits of a certificate's validity, in seconds since 1970.
pub(in super::super) fn valid(certificate: &X509Certificate<'_>) -> (i64, i64) {
    (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp())
}

/// Whether the issuer and the subject of a certificate have the same name.
pub(in super::super) fn is_self_issued(certificate: &X509Certificate<'_>) -> bool {
    certificate.subject().as_raw() == certificate.issuer().as_raw()
}

/// Whether a key has signed a message, with any of the known algorithms.
pub(in super::super) fn is_signed(
    key: &[u8],
    message: &[u8],
    signature: &[u8],
    algorithms: WebPkiSupportedAlgorithms,
) -> bool {
    let key = SubjectPublicKeyInfoDer::from(key);
    RawPublicKeyEntity::try_from(&key)
        .is_ok_and(|key| algorithms.all.iter().any(|one| key.verify_signature(*one, message, signature).is_ok()))
}
