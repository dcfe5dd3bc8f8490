//! Clients of encrypted connections that trust certain authorities.

use std::io;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The settings of a client that trusts the certificates in this file (PEM), or else those that the system trusts.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub(crate) fn client(ca_file: Option<&str>) -> io::Result<ClientConfig> {
    let roots = match ca_file {
        Some(file) => {
            let mut roots = RootCertStore::empty();
            let invalid = |error: &dyn std::fmt::Display| io::Error::other(format!("{file}: {error}"));
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| invalid(&error))? {
                let certificate = certificate.map_err(|error| invalid(&error))?;
                roots.add(certificate).map_err(|error| invalid(&error))?;
            }
            if roots.is_empty() {
                return Err(invalid(&"it has no certificate"));
            }
            roots
        }
        None => system_roots(),
    };
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    Ok(config.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth())
}

/// The authorities that the system trusts. Unreadable certificates are skipped; if one of them is needed, its server is not
/// trusted, and the log says so.
pub(crate) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
