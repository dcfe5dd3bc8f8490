//! Clients of encrypted connections that trust certain authorities.

use std::io;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The settings of a client that trusts the certificates in this file (PEM), or else those that the system trusts.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub(crate) fn client(ca_file: Option<&str>) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let invalid = |error: &dyn std::fmt::Display| io::Error::other(format!("{file}: {error}"));
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| invalid(&error))? {
                let certificate = certificate.map_err(|error| invalid(&error))?;
                roots.add(certificate).map_err(|error| invalid(&error))?;
            }
            if roots.is_empty() {
                return Err(invalid(&"it has no certificate"));
            }
        }
        // Unreadable certificates are skipped; if one of them is needed, its server is not trusted, and the log says so.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(config.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth())
}
