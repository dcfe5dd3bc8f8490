//! The signatures that prove in a handshake that the other side has the key of its certificate. webpki rejects
//! certificates without extensions (X.509 version 1), so their keys are used directly.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::{CertificateError, DigitallySignedStruct, Error};
use webpki::RawPublicKeyEntity;
use x509_parser::prelude::X509Version;

use super::parse::parse;

/// Verifies a signature of TLS 1.2.
pub(in super::super) fn verify_tls12(
    message: &[u8],
    cert: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    if parse(cert).is_none_or(|certificate| certificate.version() != X509Version::V1) {
        return verify_tls12_signature(message, cert, dss, algorithms);
    }
    let bad = || Error::InvalidCertificate(CertificateError::BadSignature);
    let certificate = parse(cert).ok_or_else(bad)?;
    let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
    let key = RawPublicKeyEntity::try_from(&key).map_err(|_| bad())?;
    let known = algorithms.mapping.iter().find(|(scheme, _)| *scheme == dss.scheme).ok_or_else(bad)?;
    match known.1.iter().any(|one| key.verify_signature(*one, message, dss.signature()).is_ok()) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(bad()),
    }
}

/// Verifies a signature of TLS 1.3.
pub(in super::super) fn verify_tls13(
    message: &[u8],
    cert: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    match parse(cert) {
        Some(certificate) if certificate.version() == X509Version::V1 => {
            let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
            verify_tls13_signature_with_raw_key(message, &key, dss, algorithms)
        }
        _ => verify_tls13_signature(message, cert, dss, algorithms),
    }
}
