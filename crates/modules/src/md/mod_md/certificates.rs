//! The certificates of a domain: which files virtual hosts use, and when it is time for new ones.

use std::time::SystemTime;

use conf::Level;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use server::VirtualHost;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::MdServer;
use super::domains::Domain;
use super::keys::{self, KeyKind};
use super::values::Span;
use crate::ssl::mod_ssl::{NamedFile, SslServer};

/// `MDRenewWindow` and `MDWarnWindow` where nothing is said.
const RENEW_WINDOW: Span = Span::Percent(33);
const WARN_WINDOW: Span = Span::Percent(10);

/// The files of a virtual host that belongs to a managed domain.
pub(crate) struct Served {
    /// Those with certificates.
    pub(crate) files: Vec<NamedFile>,
    /// Those with their keys.
    pub(crate) keys: Vec<NamedFile>,
    /// Nobody else has signed the certificates.
    pub(crate) is_fallback: bool,
}

impl Served {
    /// What the log is told of them.
    pub(crate) fn note(&self, host: &VirtualHost) -> Option<(Level, String)> {
        let name = host.log_name();
        if self.is_fallback {
            let text = format!(
                "AH10085: Init: {name} will respond with '503 Service Unavailable' for now. There are no SSL certificates \
                 configured and no other module contributed any."
            );
            return Some((Level::Warn, text));
        }
        host.settings.get::<SslServer>().certificate_files.is_set().then(|| {
            let text = format!(
                "AH10084: host '{}' is covered by a Managed Domain, but certificate/key files are already configured for it (most \
                 likely via SSLCertificateFile).",
                host.name
            );
            (Level::Warn, text)
        })
    }
}

/// The files with the certificates of a virtual host, where they are not those of `SSLCertificateFile` because it belongs to a managed
/// domain. For a process that may read them; where there are none of either kind, one that `serves` makes one that nobody else has
/// signed. `Err` is what the log says.
pub(crate) fn served(host: &VirtualHost, serves: bool) -> Option<Result<Served, String>> {
    let settings = host.settings.get::<MdServer>();
    let domain = settings.found.own.as_ref()?;
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

/// The names of the files with certificates that an authority has signed, where a virtual host has such that are fetched: none before
/// there are any.
pub(crate) fn certificate_names(host: &VirtualHost) -> Option<Vec<String>> {
    let domain = host.settings.get::<MdServer>().found.own.as_ref().filter(|domain| !domain.is_static())?;
    let kinds = if domain.is_ready() { domain.key_kinds() } else { &[] };
    let path = |kind: &KeyKind| domain.store.path(&["domains", &domain.name, &kind.file("pubcert")]);
    Some(kinds.iter().map(|kind| path(kind).to_string_lossy().into_owned()).collect())
}

/// A certificate and its key: the names of their files.
type Pair = (String, String);

fn fetched(domain: &Domain) -> Vec<Pair> {
    domain.key_kinds().iter().filter_map(|kind| existing(domain, *kind, "pubcert", "privkey")).collect()
}

fn fallbacks(domain: &Domain) -> Result<Vec<Pair>, String> {
    let pairs: Result<_, String> = domain.key_kinds().iter().map(|kind| fallback(domain, *kind)).collect();
    pairs.map_err(|error| format!("AH10174: {}: make fallback certificate: {error}", domain.name))
}

/// The files of a kind of key, if they are there.
fn existing(domain: &Domain, kind: KeyKind, certificate: &str, key: &str) -> Option<Pair> {
    let path = |stem: &str| domain.store.path(&["domains", &domain.name, &kind.file(stem)]);
    let (certificate, key) = (path(certificate), path(key));
    let text = |path: &std::path::Path| http1::text::from_bytes(path.as_os_str().as_encoded_bytes()).into_owned();
    (certificate.exists() && key.exists()).then(|| (text(&certificate), text(&key)))
}

/// A certificate of our own, which is made anew each time: none that is about to end is served.
fn fallback(domain: &Domain, kind: KeyKind) -> Result<Pair, String> {
    const STEMS: [&str; 2] = ["fallback-pubcert", "fallback-privkey"];
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

/// Whether a domain has certificates that were fetched since then.
pub(super) fn is_newer(domain: &Domain, than: SystemTime) -> bool {
    let is_newer = |kind: &KeyKind| {
        let path = domain.store.path(&["domains", &domain.name, &kind.file("pubcert")]);
        std::fs::metadata(path).and_then(|meta| meta.modified()).is_ok_and(|modified| modified > than)
    };
    domain.encrypted_hosts > 0 && domain.key_kinds().iter().any(is_newer)
}

/// When a domain needs new certificates, in seconds since 1970, and why; and when it has to be warned of the end of what it has.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) renew: i64,
    pub(super) why: &'static str,
    pub(super) warn: i64,
}

/// Looks at the certificates of a domain in the store.
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
        let renew = ends - domain.conf().renew_window.or(RENEW_WINDOW).of(life);
        if renew < due.renew {
            due = Due { renew, why: "its end is near", ..due };
        }
        due.warn = due.warn.min(ends - domain.conf().warn_window.or(WARN_WINDOW).of(life));
    }
    due
}

/// What a certificate says of itself: the names of hosts, in lower case, and from when until when it is good, in seconds since 1970.
struct Facts {
    names: Vec<String>,
    begins: i64,
    ends: i64,
}

/// What the first certificate of a PEM file says.
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

/// Whether what an authority has sent is what was ordered: certificates, for all names, good at this moment, and for this key.
/// `Err`: what is wrong with it.
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
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der())?;
    let pair = rustls::sign::CertifiedKey::from_der(chain, key, &rustls::crypto::aws_lc_rs::default_provider());
    pair.map(|_| ()).map_err(|error| format!("a certificate that does not fit the key: {error}"))
}
