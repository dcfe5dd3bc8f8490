//! Reads certificates and keys (`SSLCertificateFile`, `SSLCertificateKeyFile`, `SSLCertificateChainFile`).
//!
//! The n-th key belongs to the n-th certificate; a certificate without a key file has its key in its own file. The
//! checks and messages are those of Apache 2.4.71 with OpenSSL's security level 2, Debian's default.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use conf::{Level, Setting};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use server::VirtualHost;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

use super::keys::{self, Key};
use super::managed;
use super::pair::Pair;
use super::pass_phrases::{self, PassPhrases, Wanted};
use super::pem::{self, sections};
use super::settings::SslServer;
use super::values::{NamedFile, PassPhrase};

/// The minimum size of RSA keys and of the field of elliptic curves, in bits (SSL_CTX_set_security_level(3), level 2).
const RSA_BITS_MIN: usize = 2048;
const CURVE_BITS_MIN: usize = 224;

/// Signatures that level 2 rejects: MD5 and SHA-1, with RSA and ECDSA.
const WEAK_SIGNATURES: [&str; 3] = ["1.2.840.113549.1.1.4", "1.2.840.113549.1.1.5", "1.2.840.10045.4.1"];

/// The certificates loaded for a virtual host.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) pairs: Vec<Pair>,
    /// The files that hold the certificates.
    pub(super) files: Vec<String>,
    /// Lines for the log.
    pub(super) notes: Vec<(Level, String)>,
    /// Whether some were left out.
    pub(super) is_partial: bool,
}

/// The reason why a certificate could not be loaded.
enum Problem {
    /// Loading needs a right or a pass phrase that a mere check of the configuration need not have.
    Hidden(String),
    Wrong(String),
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem::Wrong(text)
    }
}

/// Loads the certificates of a virtual host with their keys. `Err` is a message for the log. A process that does not
/// start a server leaves out those that it may not read.
pub(super) fn load(host: &VirtualHost, pass_phrases: &mut PassPhrases) -> Result<Loaded, String> {
    let server = host.settings.get::<SslServer>();
    let manager = managed::manager(&host.settings);
    let managed = manager.and_then(|manager| manager.files(host, pass_phrases::serves())).transpose()?;
    let (files, keys) = match &managed {
        Some(managed) => (&managed.files[..], &managed.keys[..]),
        None => (
            server.certificate_files.get().map(Vec::as_slice).unwrap_or_default(),
            server.key_files.get().map(Vec::as_slice).unwrap_or_default(),
        ),
    };
    if files.is_empty() && managed.is_none() {
        let at = server.engine.origin().map_or_else(String::new, |origin| format!(" (SSLEngine on at {origin})"));
        let host = host.log_name();
        return Err(format!("AH02572: Failed to configure at least one certificate and key for {host}{at}"));
    }
    let mut loaded = Loaded::default();
    loaded.notes.extend(managed.iter().flat_map(|managed| managed.note(host)));
    // A certificate signed by an authority includes its chain.
    let none = Setting::default();
    let chain_file = if managed.is_some() { &none } else { &server.chain_file };
    for (index, file) in files.iter().enumerate() {
        let reading = Reading { host, server, chain_file, index, file, key_file: keys.get(index).unwrap_or(file) };
        match reading.read(pass_phrases, &mut loaded.notes) {
            Ok(pair) => {
                loaded.pairs.push(pair);
                loaded.files.push(file.path.clone());
            }
            Err(Problem::Hidden(_)) if !pass_phrases::serves() => loaded.is_partial = true,
            Err(Problem::Hidden(text) | Problem::Wrong(text)) => return Err(text),
        }
    }
    Ok(loaded)
}

/// A certificate that is being loaded.
struct Reading<'a> {
    host: &'a VirtualHost,
    server: &'a SslServer,
    chain_file: &'a Setting<String>,
    /// The position of the certificate in the virtual host.
    index: usize,
    file: &'a NamedFile,
    key_file: &'a NamedFile,
}

impl Reading<'_> {
    /// The certificate's name in the log.
    fn id(&self) -> String {
        format!("{}:{}", self.host.log_name(), self.index)
    }

    fn read(&self, pass_phrases: &mut PassPhrases, notes: &mut Vec<(Level, String)>) -> Result<Pair, Problem> {
        let (id, file, key_file) = (self.id(), self.file, self.key_file);
        for named in [file, key_file] {
            if named.path.starts_with("pkcs11:") {
                let NamedFile { path, origin } = named;
                return Err(
                    format!("{path} at {origin}: keys in security modules are not supported; name a file").into()
                );
            }
        }
        let chain = self.chain(notes)?;
        let end = self.examine(&chain, notes).map_err(|why| self.refused(&why))?;
        let key = self.key(pass_phrases)?;
        let pair = Pair { chain, key, end };
        let certified = pair.certified().map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let NamedFile { path, origin } = key_file;
                let certificate = &file.path;
                format!(
                    "AH02565: Certificate and private key {id} from {certificate} and {path} do not match ({origin})"
                )
            }
            error => self.bad_key(&format!("it is not an RSA, ECDSA or Ed25519 key ({error})")),
        })?;
        drop(certified);
        let text =
            format!("AH02568: Certificate and private key {id} configured from {} and {}", file.path, key_file.path);
        notes.push((Level::Info, text));
        Ok(pair)
    }

    /// The certificate and its chain: the rest of its file, or else `SSLCertificateChainFile`.
    fn chain(&self, notes: &mut Vec<(Level, String)>) -> Result<Vec<CertificateDer<'static>>, Problem> {
        let (text, _) = read_file(self.file, |why| self.refused(why))?;
        let mut chain = certificates(&text).map_err(|why| self.refused(&why))?;
        if chain.is_empty() {
            return Err(self.refused("there is no certificate in it").into());
        }
        let Some(path) = self.chain_file.get() else { return Ok(chain) };
        chain.truncate(1);
        let origin = self.chain_file.origin().unwrap_or(&self.file.origin);
        let failed = |why: &str| format!("AH01903: Failed to configure CA certificate chain! {path} ({origin}): {why}");
        let (text, _) = read_file(&NamedFile { path: path.clone(), origin: origin.clone() }, failed)?;
        let more = certificates(&text).map_err(|why| failed(&why))?;
        if more.is_empty() {
            notes.push((Level::Warn, failed("there is no certificate in it")));
        }
        // The file may begin with the certificate itself.
        chain.extend(more.into_iter().filter(|one| *one != chain[0]).collect::<Vec<_>>());
        Ok(chain)
    }

    /// Checks for flaws that make a certificate useless, and notes oddities. Returns the end of its validity.
    fn examine(&self, chain: &[CertificateDer<'_>], notes: &mut Vec<(Level, String)>) -> Result<i64, String> {
        for (at, der) in chain.iter().enumerate() {
            let (_, certificate) =
                X509Certificate::from_der(der).map_err(|error| format!("it is not a certificate ({error})"))?;
            is_strong(&certificate).map_err(|why| format!("{} {why}", if at == 0 { "ee" } else { "ca" }))?;
        }
        let (_, certificate) = X509Certificate::from_der(&chain[0]).map_err(|error| error.to_string())?;
        let id = self.id();
        let mut warn = |text: String| notes.push((Level::Warn, text));
        let constraints = certificate.basic_constraints().ok().flatten().map(|extension| extension.value);
        if constraints.is_some_and(|constraints| constraints.ca) {
            warn(format!("AH01906: {id} server certificate is a CA certificate (BasicConstraints: CA == TRUE !?)"));
        }
        if let Some(length) =
            constraints.and_then(|constraints| constraints.path_len_constraint).filter(|length| *length > 0)
        {
            warn(format!(
                "AH01907: {id} server certificate is not a leaf certificate (BasicConstraints: pathlen == {length} > 0 !?)"
            ));
        }
        if !names(&certificate).any(|name| is_for(name, &self.host.name)) {
            warn(format!("AH01909: {id} server certificate does NOT include an ID which matches the server name"));
        }
        Ok(certificate.validity().not_after.timestamp())
    }

    fn key(&self, pass_phrases: &mut PassPhrases) -> Result<PrivateKeyDer<'static>, Problem> {
        let (text, meta) = read_file(self.key_file, |why| self.bad_key(why))?;
        let is_its_own = std::ptr::eq(self.key_file, self.file);
        let key = match keys::find(&text).map_err(|why| self.bad_key(&why))? {
            Some(key) => key,
            None => {
                let advice = if is_its_own { "; see SSLCertificateKeyFile" } else { "" };
                return Err(self.bad_key(&format!("AH02579: Init: Private key not found{advice}")).into());
            }
        };
        let encrypted = match key {
            Key::Plain(key) => return Ok(key),
            Key::Encrypted(_) if !pass_phrases::serves() => return Err(Problem::Hidden(String::new())),
            Key::Encrypted(encrypted) => encrypted,
        };
        let source = self.server.pass_phrase.get().unwrap_or(&PassPhrase::Builtin);
        let (host, file) = (self.host.log_name(), &*self.key_file.path);
        let wanted = Wanted { source, host, index: self.index, file, meta: &meta };
        Ok(pass_phrases.decrypt(&encrypted, &wanted).map_err(|why| self.bad_key(&why))?)
    }

    fn refused(&self, why: &str) -> String {
        let (id, NamedFile { path, origin }) = (self.id(), self.file);
        match self.chain_file.get() {
            Some(_) => format!("AH02561: Failed to configure certificate {id}, check {path} ({origin}): {why}"),
            None => {
                format!("AH02562: Failed to configure certificate {id} (with chain), check {path} ({origin}): {why}")
            }
        }
    }

    fn bad_key(&self, why: &str) -> String {
        let (id, NamedFile { path, origin }) = (self.id(), self.key_file);
        format!("AH02564: Failed to configure encrypted (?) private key {id}, check {path} ({origin}): {why}")
    }
}

/// The content of a file, and its metadata.
fn read_file(named: &NamedFile, failed: impl Fn(&str) -> String) -> Result<(Vec<u8>, Metadata), Problem> {
    let read = || {
        let file = File::open(OsStr::from_bytes(&http::text::to_bytes(&named.path)))?;
        let meta = file.metadata()?;
        let mut bytes = Vec::new();
        if !meta.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        if file.take(pem::SIZE_MAX + 1).read_to_end(&mut bytes)? as u64 > pem::SIZE_MAX {
            return Err(io::Error::other("it is larger than any certificate"));
        }
        Ok((bytes, meta))
    };
    read().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => Problem::Hidden(failed(&sys::describe(&error))),
        _ => Problem::Wrong(failed(&sys::describe(&error))),
    })
}

/// The certificates in a file: PEM, or a single one in DER.
pub(super) fn certificates(file: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let is_one = |label: &str| matches!(label, "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE");
    let sections = sections(file)?.into_iter().filter(|section| is_one(&section.label));
    let found: Vec<_> = sections.map(|section| CertificateDer::from(section.der)).collect();
    if found.is_empty() && X509Certificate::from_der(file).is_ok_and(|(rest, _)| rest.is_empty()) {
        return Ok(vec![CertificateDer::from(file.to_vec())]);
    }
    Ok(found)
}

/// Whether OpenSSL would accept the certificate. `Err` uses OpenSSL's words.
fn is_strong(certificate: &X509Certificate<'_>) -> Result<(), String> {
    let enough = match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => key.key_size() >= RSA_BITS_MIN,
        Ok(PublicKey::EC(key)) => key.key_size() >= CURVE_BITS_MIN,
        _ => true,
    };
    if !enough {
        return Err("key too small".into());
    }
    // The signature of a self-signed certificate proves nothing, so its strength does not matter.
    let is_signed_by_itself = certificate.issuer() == certificate.subject();
    let signature = certificate.signature_algorithm.algorithm.to_id_string();
    match WEAK_SIGNATURES.contains(&&*signature) && !is_signed_by_itself {
        true => Err("md too weak".into()),
        false => Ok(()),
    }
}

/// The host names of a certificate.
pub(super) fn names<'a>(certificate: &'a X509Certificate<'_>) -> impl Iterator<Item = &'a str> {
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let alternatives = alternatives.into_iter().flat_map(|extension| &extension.value.general_names);
    let dns = alternatives.filter_map(|name| if let GeneralName::DNSName(name) = name { Some(*name) } else { None });
    dns.chain(certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok()))
}

/// Whether a name, whose first label may be an asterisk, matches a server's name.
pub(super) fn is_for(name: &str, server: &str) -> bool {
    let same_rest = || {
        let (_, rest) = server.split_once('.')?;
        Some(name.strip_prefix("*.")?.eq_ignore_ascii_case(rest))
    };
    name.eq_ignore_ascii_case(server) || same_rest().unwrap_or(false)
}

/// The end of validity of the first certificate in a file, in seconds since 1970. `None`: the file has no certificate.
pub fn end_of(file: &[u8]) -> Option<i64> {
    let chain = certificates(file).ok()?;
    let (_, certificate) = X509Certificate::from_der(chain.first()?).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// Whether a file contains a key, usable or not.
pub fn has_key(file: &[u8]) -> bool {
    !matches!(keys::find(file), Ok(None))
}
