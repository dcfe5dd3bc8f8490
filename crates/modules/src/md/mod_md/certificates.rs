//! The certificates of a domain: the files that virtual hosts use, and when to renew them.

use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use server::VirtualHost;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::domains::{self, Domain};
use super::keys::{self, KeyKind};
use super::store::Stamp;
use crate::ssl::mod_ssl::{NamedFile, Served, SslServer};

/// The certificate files of a virtual host in a managed domain; `None` if it uses those of `SSLCertificateFile`. Call
/// it in a process that may read them. If the domain has no files yet, a process that `serves` creates a self-signed
/// certificate. `Err` is a message for the log.
pub(super) fn served(host: &VirtualHost, serves: bool) -> Option<Result<Served, String>> {
    let domain = domains::of(&host.settings)?;
    let named = |path: String| NamedFile { path, origin: domain.origin.clone() };
    let pairs = if domain.is_static() {
        let (files, keys) = (domain.conf().certificate_files.iter(), domain.conf().key_files.iter());
        Ok((files.cloned().zip(keys.cloned()).collect(), false))
    } else {
        let pairs = fetched(domain);
        if pairs.is_empty() && host.settings.get::<SslServer>().certificate_files.is_set() {
            domain.set_ready(true);
            return None;
        }
        if pairs.is_empty() && serves { fallbacks(domain).map(|pairs| (pairs, true)) } else { Ok((pairs, false)) }
    };
    Some(pairs.map(|(pairs, is_fallback)| {
        domain.set_ready(!is_fallback);
        let (files, keys) = pairs.into_iter().map(|(file, key)| (named(file), named(key))).unzip();
        Served { files, keys, is_fallback }
    }))
}

/// The names of a virtual host's files with certificates from an authority, if they are fetched; empty before the first
/// are there.
pub(super) fn certificate_names(host: &VirtualHost) -> Option<Vec<String>> {
    let domain = domains::of(&host.settings).filter(|domain| !domain.is_static())?;
    let kinds = if domain.is_ready() { domain.key_kinds() } else { &[] };
    let path = |kind: &KeyKind| domain.store.path(&["domains", &domain.name, &kind.file("pubcert")]);
    Some(kinds.iter().map(|kind| path(kind).to_string_lossy().into_owned()).collect())
}

/// Whether a virtual host belongs to the managed domain of this name.
pub(super) fn is_of(host: &VirtualHost, name: &str) -> bool {
    domains::of(&host.settings).is_some_and(|domain| domain.name == name)
}

/// The file names of a certificate and its key.
type Pair = (String, String);

fn fetched(domain: &Domain) -> Vec<Pair> {
    domain.key_kinds().iter().filter_map(|kind| existing(domain, *kind, "pubcert", "privkey")).collect()
}

fn fallbacks(domain: &Domain) -> Result<Vec<Pair>, String> {
    let pairs: Result<_, String> = domain.key_kinds().iter().map(|kind| fallback(domain, *kind)).collect();
    pairs.map_err(|error| format!("AH10174: {}: make fallback certificate: {error}", domain.name))
}

/// The files for a kind of key, if they exist.
fn existing(domain: &Domain, kind: KeyKind, certificate: &str, key: &str) -> Option<Pair> {
    let path = |stem: &str| domain.store.path(&["domains", &domain.name, &kind.file(stem)]);
    let (certificate, key) = (path(certificate), path(key));
    let text = |path: &std::path::Path| http::text::from_bytes(path.as_os_str().as_encoded_bytes()).into_owned();
    (certificate.exists() && key.exists()).then(|| (text(&certificate), text(&key)))
}

/// The self-signed certificate of a domain: the one in the store, or a new one. Keys are expensive, and each start,
/// reload and new certificate of another domain comes here.
fn fallback(domain: &Domain, kind: KeyKind) -> Result<Pair, String> {
    const STEMS: [&str; 2] = ["fallback-pubcert", "fallback-privkey"];
    if is_usable_fallback(domain, STEMS.map(|stem| kind.file(stem)))
        && let Some(pair) = existing(domain, kind, STEMS[0], STEMS[1])
    {
        return Ok(pair);
    }
    let broken = |error: &dyn std::fmt::Display| error.to_string();
    domain.store.open(None).map_err(|error| broken(&error))?;
    let key = kind.generate().map_err(|error| broken(&error))?;
    let certificate = keys::fallback(&key, &domain.names).map_err(|error| broken(&error))?;
    for (stem, contents) in STEMS.into_iter().zip([certificate, key.serialize_pem()]) {
        let parts = ["domains", &domain.name, &kind.file(stem)];
        domain.store.write(&parts, contents.as_bytes()).map_err(|error| broken(&error))?;
    }
    existing(domain, kind, STEMS[0], STEMS[1]).ok_or_else(|| "it cannot be read".into())
}

/// Whether the files of a self-signed certificate and its key fit each other and the names of the domain, and are good
/// for half of their life from now on, so that they do not expire in use.
fn is_usable_fallback(domain: &Domain, files: [String; 2]) -> bool {
    let [certificate, key] = files.map(|file| domain.store.read(&["domains", &domain.name, &file]).ok().flatten());
    let (Some(certificate), Some(key)) = (certificate, key) else { return false };
    let Some(Facts { names, begins, ends }) = facts(&certificate) else { return false };
    let now = sys::time::realtime().as_secs().cast_signed();
    if begins > now || ends - now < (ends - begins) / 2 || !domain.is_covered_by(&names) {
        return false;
    }
    let (chain, key) = (CertificateDer::from_pem_slice(&certificate), PrivateKeyDer::from_pem_slice(&key));
    let (Ok(leaf), Ok(key)) = (chain, key) else { return false };
    CertifiedKey::from_der(vec![leaf], key, &rustls::crypto::aws_lc_rs::default_provider()).is_ok()
}

/// Whether a domain has certificates that were fetched after the configuration was read.
pub(super) fn is_newer(domain: &Domain) -> bool {
    let changed = |(now, seen): (Option<Stamp>, &Option<Stamp>)| now.is_some_and(|now| Some(now) != *seen);
    domain.encrypted_hosts > 0 && domain.stamps().into_iter().zip(&domain.seen).any(changed)
}

/// The time at which a domain needs new certificates, in seconds since 1970, and the reason; and when to warn that the
/// current ones expire.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) renew: i64,
    pub(super) why: &'static str,
    pub(super) warn: i64,
}

/// Inspects the certificates of a domain in the store.
pub(super) fn due(domain: &Domain) -> Due {
    let mut due = Due { renew: i64::MAX, why: "", warn: i64::MAX };
    for kind in domain.key_kinds() {
        let now = |why| Due { renew: 0, why, warn: i64::MAX };
        let text = domain.store.read(&["domains", &domain.name, &kind.file("pubcert")]).ok().flatten();
        let Some(text) = text.filter(|_| existing(domain, *kind, "pubcert", "privkey").is_some()) else {
            return now("there is none");
        };
        let Some(Facts { names, begins, ends }) = facts(&text) else { return now("it cannot be read") };
        if !domain.is_covered_by(&names) {
            return now("it does not cover all domains");
        }
        let life = ends - begins;
        let renew = ends - domain.conf().renew_window().of(life);
        if renew < due.renew {
            due = Due { renew, why: "it expires soon", ..due };
        }
        due.warn = due.warn.min(ends - domain.conf().warn_window().of(life));
    }
    due
}

/// Facts from a certificate: the host names, in lower case, and the limits of its validity, in seconds since 1970.
struct Facts {
    names: Vec<String>,
    begins: i64,
    ends: i64,
}

/// The facts from the first certificate of a PEM file.
fn facts(pem: &[u8]) -> Option<Facts> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let alternatives = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    };
    let validity = certificate.validity();
    let (begins, ends) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    Some(Facts { names: alternatives.filter_map(name).collect(), begins, ends })
}

/// Checks that an authority has sent what was ordered: certificates for all names, valid now, and for this key. `Err`:
/// the mismatch.
pub(super) fn check(domain: &Domain, key: &KeyPair, pem: &str) -> Result<(), String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let chain = chain.map_err(|error| format!("certificates that cannot be read: {error}"))?;
    let facts = facts(pem.as_bytes()).ok_or("no certificates")?;
    if !domain.is_covered_by(&facts.names) {
        return Err("a certificate that does not cover all domains".into());
    }
    if facts.ends <= sys::time::realtime().as_secs().cast_signed() {
        return Err("a certificate that has expired".into());
    }
    let key = PrivateKeyDer::try_from(key.serialize_der())?;
    let pair = CertifiedKey::from_der(chain, key, &rustls::crypto::aws_lc_rs::default_provider());
    pair.map(|_| ()).map_err(|error| format!("a certificate that does not fit the key: {error}"))
}
