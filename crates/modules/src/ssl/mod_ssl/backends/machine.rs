//! The certificates that this server shows to servers behind it (`SSLProxyMachineCertificateFile` and its relatives).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;

use crate::ssl::mod_ssl::clients::{is_self_issued, parse};
use crate::ssl::mod_ssl::keys::{self, Key};
use crate::ssl::mod_ssl::pair::Pair;
use crate::ssl::mod_ssl::pem::{self, Section};

/// How many certificates of authorities follow that of this server.
const CHAIN_MAX: usize = 10;

/// The certificates in a file, or in all files of a directory, each with its key and the chain above it.
pub(super) fn read(path: &str, is_directory: bool, chain: Option<&str>) -> Result<Vec<Arc<CertifiedKey>>, String> {
    let files = if is_directory { files(path)? } else { vec![path.to_string()] };
    let mut all = Vec::new();
    for file in &files {
        all.push((file, sections(file)?));
    }
    let mut above = chain.map(|file| Ok::<_, String>(certificates(&sections(file)?))).transpose()?.unwrap_or_default();
    all.iter().for_each(|(_, sections)| above.extend(certificates(sections)));
    let mut pairs = Vec::new();
    for (file, sections) in all {
        pairs.extend(of_file(file, sections, &above)?);
    }
    Ok(pairs)
}

/// The files of a directory, in order.
fn files(directory: &str) -> Result<Vec<String>, String> {
    let failed =
        |error: io::Error| format!("AH02211: Failed to open Certificate Path `{directory}': {}", sys::describe(&error));
    let path = OsStr::from_bytes(&http::text::to_bytes(directory)).to_owned();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = http::text::from_bytes(name.as_bytes()).into_owned();
        if !name.starts_with('.') && entry.file_type().map_err(failed)?.is_file() {
            files.push(Path::new(directory).join(name).to_string_lossy().into_owned());
        }
    }
    files.sort();
    Ok(files)
}

fn sections(file: &str) -> Result<Vec<Section>, String> {
    let read = || {
        let file = File::open(OsStr::from_bytes(&http::text::to_bytes(file)))?;
        let mut bytes = Vec::new();
        if file.take(pem::SIZE_MAX + 1).read_to_end(&mut bytes)? as u64 > pem::SIZE_MAX {
            return Err(io::Error::other("it is larger than any certificate"));
        }
        Ok(bytes)
    };
    let failed = |why: String| format!("the client certificates in {file} cannot be read: {why}");
    pem::sections(&read().map_err(|error| failed(sys::describe(&error)))?).map_err(failed)
}

fn is_certificate(section: &Section) -> bool {
    matches!(&*section.label, "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE")
}

fn certificates(sections: &[Section]) -> Vec<CertificateDer<'static>> {
    sections.iter().filter(|one| is_certificate(one)).map(|one| one.der.clone().into()).collect()
}

/// The pairs in a file: each key belongs to the certificate next to it. Further certificates are those of authorities.
fn of_file(
    file: &str,
    sections: Vec<Section>,
    above: &[CertificateDer<'static>],
) -> Result<Vec<Arc<CertifiedKey>>, String> {
    let (mut pairs, mut certificate, mut key) = (Vec::new(), None, None);
    for section in sections {
        match () {
            () if is_certificate(&section) => certificate = Some(CertificateDer::from(section.der)),
            () if section.label.ends_with("PRIVATE KEY") => key = Some(section),
            () => continue,
        }
        if certificate.is_some()
            && let Some(key) = key.take()
            && let Some(leaf) = certificate.take()
        {
            pairs.push(pair(file, leaf, key, above)?);
        }
    }
    match key {
        Some(_) => {
            Err(format!("AH02326: proxy client certificate and private key do not match: {file} has a key only"))
        }
        None => Ok(pairs),
    }
}

fn pair(
    file: &str,
    leaf: CertificateDer<'static>,
    key: Section,
    above: &[CertificateDer<'static>],
) -> Result<Arc<CertifiedKey>, String> {
    let bad = |why: String| format!("AH02252: incomplete client cert configured for SSL proxy: {file}: {why}");
    let key = match keys::of_section(key).map_err(bad)? {
        Key::Plain(key) => key,
        Key::Encrypted(_) => return Err(bad("its private key is encrypted".into())),
    };
    let chain = complete(leaf, above);
    Pair { chain, key, end: 0 }.certified().map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("AH02326: proxy client certificate and private key do not match: {file}")
        }
        error => bad(error.to_string()),
    })
}

/// A certificate with those of the authorities above it, without the root: the other side has that, or does not trust it.
fn complete(leaf: CertificateDer<'static>, above: &[CertificateDer<'static>]) -> Vec<CertificateDer<'static>> {
    let mut chain = vec![leaf];
    while let Some(last) = chain.last().and_then(|der| parse(der)).filter(|last| !is_self_issued(last))
        && chain.len() <= CHAIN_MAX
    {
        let is_next = |der: &&CertificateDer<'static>| {
            parse(der).is_some_and(|one| one.subject().as_raw() == last.issuer().as_raw() && !is_self_issued(&one))
        };
        let Some(next) = above.iter().find(is_next).cloned() else { break };
        chain.push(next);
    }
    chain
}

/// Chooses a certificate that the other side accepts.
#[derive(Debug)]
pub(super) struct Machines(pub(super) Vec<Arc<CertifiedKey>>);

impl ResolvesClientCert for Machines {
    fn resolve(&self, authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let is_accepted = |one: &&Arc<CertifiedKey>| {
            let is_issued = |der: &CertificateDer<'_>| {
                parse(der).is_some_and(|certificate| authorities.contains(&certificate.issuer().as_raw()))
            };
            (authorities.is_empty() || one.cert.iter().any(is_issued)) && one.key.choose_scheme(schemes).is_some()
        };
        self.0.iter().find(is_accepted).cloned()
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}
