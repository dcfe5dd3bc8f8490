//! The certificates that a virtual host serves at present, for those who show or watch them.

use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use server::VirtualHost;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::{context, names, notation, pem};

/// What is to be said of a certificate.
#[derive(Clone, Debug)]
pub struct ShownCertificate {
    /// The name of its issuer, in one line.
    pub issuer: String,
    /// The serial number in hexadecimal digits.
    pub serial: String,
    /// The SHA-256 digest of the certificate in hexadecimal digits.
    pub fingerprint: String,
    /// When its validity begins, in seconds since 1970.
    pub begins: i64,
    /// When its validity ends, in seconds since 1970.
    pub ends: i64,
}

/// The certificates that a virtual host serves at present; `None`: it is not encrypted.
pub fn shown(host: &VirtualHost) -> Option<Vec<ShownCertificate>> {
    let context = context::of(host)?;
    let shown = |der: &CertificateDer<'_>| {
        let (_, one) = X509Certificate::from_der(der).ok()?;
        Some(ShownCertificate {
            issuer: names::one_line(one.issuer()),
            serial: notation::serial(one.raw_serial()),
            fingerprint: fingerprint(der),
            begins: one.validity().not_before.timestamp(),
            ends: one.validity().not_after.timestamp(),
        })
    };
    Some(context.choice.current().iter().filter_map(|one| shown(one.cert.first()?)).collect())
}

/// The fingerprints of the certificates in a file (PEM or DER), in their order, as [`ShownCertificate`] has them. Keys in the
/// file are left out. `Err`: the file is damaged.
pub(super) fn fingerprints(file: &[u8]) -> Result<Vec<String>, String> {
    let sections = pem::sections(file)?;
    if sections.is_empty() {
        return Ok(vec![fingerprint(file)]);
    }
    let certificates = sections.iter().filter(|section| section.label.ends_with("CERTIFICATE"));
    Ok(certificates.map(|section| fingerprint(&section.der)).collect())
}

fn fingerprint(der: &[u8]) -> String {
    names::hex(digest(&SHA256, der).as_ref()).to_ascii_lowercase()
}
