//! Reads certificates and keys (`SSLCertificateFile`, `SSLCertificateKeyFile`, `SSLCertificateChainFile`).

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use server::VirtualHost;

use super::SslServer;

/// The certificates of a virtual host with their keys. `Err` is what the log says, without the host's name.
pub(super) fn load(host: &VirtualHost) -> Result<Vec<Arc<CertifiedKey>>, String> {
    let server = host.settings.get::<SslServer>();
    let files = server.certificate_files.get().map(Vec::as_slice).unwrap_or_default();
    let keys = server.key_files.get().map(Vec::as_slice).unwrap_or_default();
    if files.is_empty() {
        return Err(format!("AH02572: Failed to configure at least one certificate and key for {}", host.log_name()));
    }
    let load = |(index, file): (usize, &String)| one(server, file, keys.get(index).unwrap_or(file)).map(Arc::new);
    files.iter().enumerate().map(load).collect()
}

fn one(server: &SslServer, file: &str, key_file: &str) -> Result<CertifiedKey, String> {
    let mut chain = certificates(file)?;
    if let Some(more) = server.chain_file.get() {
        chain.extend(certificates(more)?);
    }
    let key = PrivateKeyDer::from_pem_file(key_file)
        .map_err(|error| format!("AH02564: Failed to configure private key from {key_file}: {error}"))?;
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(|error| {
        format!("AH02565: Certificate and private key from {file} and {key_file} do not match: {error}")
    })
}

/// The certificates in a file.
fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("AH02561: Failed to configure certificate from {file}: {why}");
    let all = CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))?;
    let all: Result<Vec<_>, _> = all.collect();
    match all {
        Ok(all) if all.is_empty() => Err(failed(&"there is none in it")),
        Ok(all) => Ok(all),
        Err(error) => Err(failed(&error)),
    }
}
