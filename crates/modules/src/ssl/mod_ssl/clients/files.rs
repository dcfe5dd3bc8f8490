//! Files of certificates and revocation lists for verifying client certificates.

use std::path::Path;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use webpki::{CertRevocationList, OwnedCertRevocationList};
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::chain::is_signed;
use super::parse;

/// The certificates of the authorities in a file.
pub(super) fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("AH02210: Failed to load SSLCACertificateFile: {file}: {why}");
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))?.collect();
    match all {
        Ok(all) if all.is_empty() => Err(failed(&"there is no certificate in it")),
        Ok(all) if all.iter().any(|der| parse(der).is_none()) => Err(failed(&"a certificate in it is damaged")),
        Ok(all) => Ok(all),
        Err(error) => Err(failed(&error)),
    }
}

/// The certificates in a directory. Like OpenSSL, reads only files named by `openssl rehash`.
pub(super) fn certificates_in(directory: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut all = Vec::new();
    for file in hashed(directory, "")? {
        all.extend(certificates(&file)?);
    }
    Ok(all)
}

/// A certificate revocation list.
pub(super) struct List {
    pub(super) list: CertRevocationList<'static>,
    pub(super) der: CertificateRevocationListDer<'static>,
    /// The time of the next list (`nextUpdate`), in seconds since 1970.
    pub(super) until: Option<i64>,
}

impl List {
    fn read(der: CertificateRevocationListDer<'static>) -> Result<List, String> {
        let list = OwnedCertRevocationList::from_der(&der).map_err(|error| error.to_string())?;
        let (_, parsed) = CertificateRevocationList::from_der(&der).map_err(|error| error.to_string())?;
        let until = parsed.next_update().map(|time| time.timestamp());
        Ok(List { list: list.into(), until, der })
    }

    /// Whether the authority with this name and key has signed the list.
    pub(super) fn is_signed_by(&self, name: &[u8], key: &[u8], algorithms: WebPkiSupportedAlgorithms) -> bool {
        CertificateRevocationList::from_der(&self.der).is_ok_and(|(_, parsed)| {
            let (message, signature) = (parsed.tbs_cert_list.as_ref(), &parsed.signature_value.data);
            parsed.issuer().as_raw() == name && is_signed(key, message, signature, algorithms)
        })
    }
}

/// The revocation lists in a file.
pub(super) fn lists(file: &str) -> Result<Vec<List>, String> {
    let failed = |why: &dyn std::fmt::Display| {
        format!("AH01901: unable to configure X.509 CRL storage for certificate revocation: {file}: {why}")
    };
    let all: Result<Vec<_>, _> =
        CertificateRevocationListDer::pem_file_iter(file).map_err(|error| failed(&error))?.collect();
    let all = all.map_err(|error| failed(&error))?;
    if all.is_empty() {
        return Err(failed(&"there is no list in it"));
    }
    all.into_iter().map(|der| List::read(der).map_err(|error| failed(&error))).collect()
}

/// The revocation lists in a directory.
pub(super) fn lists_in(directory: &str) -> Result<Vec<List>, String> {
    let mut all = Vec::new();
    for file in hashed(directory, "r")? {
        all.extend(lists(&file)?);
    }
    Ok(all)
}

/// The files of a directory whose names are the hash of a name and a number: `0a1b2c3d.0`, `0a1b2c3d.r0`.
fn hashed(directory: &str, kind: &str) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| {
        format!("AH02211: Failed to open Certificate Path `{directory}': {}", sys::describe(&error))
    };
    let is_named = |name: &str| {
        let number = name
            .split_once('.')
            .filter(|(hash, _)| hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let number = number.and_then(|(_, rest)| rest.strip_prefix(kind));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if let Some(name) = name.to_str().filter(|name| is_named(name)) {
            files.push(Path::new(directory).join(name).to_string_lossy().into_owned());
        }
    }
    files.sort();
    Ok(files)
}
