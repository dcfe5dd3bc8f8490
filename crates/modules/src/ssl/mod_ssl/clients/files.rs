//! Files of certificates and revocation lists for verifying client certificates.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use webpki::{CertRevocationList, OwnedCertRevocationList};
use x509_parser::extensions::{ParsedExtension, X509Extension};
use x509_parser::prelude::{FromDer, X509Version};
use x509_parser::revocation_list::CertificateRevocationList;

use super::parse::{is_signed, parse};

/// The certificates of the authorities in a file.
pub(super) fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates_of("AH02210: Failed to load SSLCACertificateFile", file)
}

/// The certificates in a file; `what` begins the message if there is none.
pub(in super::super) fn certificates_of(what: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{what}: {file}: {why}");
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
pub(in super::super) struct List {
    pub(super) form: Form,
    pub(in super::super) der: CertificateRevocationListDer<'static>,
    /// The name of the authority.
    issuer: Vec<u8>,
    /// The time of the next list (`nextUpdate`), in seconds since 1970.
    pub(super) until: Option<i64>,
    /// Whether it is about all certificates of its authority.
    pub(super) is_whole: bool,
    /// Keys of authorities with the list's name, and whether they have signed it.
    tried: Mutex<Vec<(Vec<u8>, bool)>>,
}

/// How many keys a list remembers: those of an authority and of its successors.
const TRIED_MAX: usize = 8;

/// The form of a list.
pub(super) enum Form {
    /// One that webpki looks into.
    Modern(CertRevocationList<'static>),
    /// X.509 version 1, which webpki does not know, and `openssl ca -gencrl` makes unless it is told to add extensions:
    /// the serial numbers, without zeros in front.
    Old(BTreeSet<Vec<u8>>),
}

impl List {
    pub(in super::super) fn read(der: CertificateRevocationListDer<'static>) -> Result<List, String> {
        let (_, parsed) = CertificateRevocationList::from_der(&der).map_err(|error| error.to_string())?;
        let form = match parsed.version() {
            None | Some(X509Version::V1) => {
                let revoked = parsed.iter_revoked_certificates().map(|one| serial(one.raw_serial()).to_vec());
                Form::Old(revoked.collect())
            }
            _ => Form::Modern(OwnedCertRevocationList::from_der(&der).map_err(|error| error.to_string())?.into()),
        };
        let until = parsed.next_update().map(|time| time.timestamp());
        let is_part =
            |one: &X509Extension<'_>| matches!(one.parsed_extension(), ParsedExtension::IssuingDistributionPoint(_));
        let (issuer, is_whole) = (parsed.issuer().as_raw().to_vec(), !parsed.extensions().iter().any(is_part));
        Ok(List { form, until, issuer, is_whole, der, tried: Mutex::default() })
    }

    /// Whether the authority with this name and key has signed the list.
    pub(super) fn is_signed_by(&self, name: &[u8], key: &[u8], algorithms: WebPkiSupportedAlgorithms) -> bool {
        if self.issuer != name {
            return false;
        }
        // A list may be long, and its signature is the same for each client.
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, has_signed)) = tried.iter().find(|(known, _)| known == key) {
            return *has_signed;
        }
        let has_signed = CertificateRevocationList::from_der(&self.der).is_ok_and(|(_, parsed)| {
            let (message, signature) = (parsed.tbs_cert_list.as_ref(), &parsed.signature_value.data);
            is_signed(key, message, signature, algorithms)
        });
        if tried.len() < TRIED_MAX {
            tried.push((key.to_vec(), has_signed));
        }
        has_signed
    }

    /// Whether the list has this serial number.
    pub(super) fn has(&self, wanted: &[u8]) -> bool {
        match &self.form {
            // An error is no assurance.
            Form::Modern(list) => !matches!(list.find_serial(wanted), Ok(None)),
            Form::Old(serials) => serials.contains(serial(wanted)),
        }
    }
}

/// A serial number without zeros in front.
fn serial(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

/// The revocation lists in a file.
pub(in super::super) fn lists(file: &str) -> Result<Vec<List>, String> {
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
pub(in super::super) fn lists_in(directory: &str) -> Result<Vec<List>, String> {
    let mut all = Vec::new();
    for file in hashed(directory, "r")? {
        all.extend(lists(&file)?);
    }
    Ok(all)
}

/// The files of a directory whose names are the hash of a name and a number: `0a1b2c3d.0`, `0a1b2c3d.r0`.
pub(in super::super) fn hashed(directory: &str, kind: &str) -> Result<Vec<String>, String> {
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
