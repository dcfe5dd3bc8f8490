//! Client certificates: the requirements (`SSLVerifyClient` and its relatives), and the result of their verification.
//!
//! webpki builds and checks the chains. This module adds the parts that webpki does not support: `SSLVerifyDepth`,
//! `optional_no_ca`, expired roots, certificates without extensions (X.509 version 1), which `openssl x509 -req` still
//! makes, and OpenSSL's error messages.

mod chain;
mod failure;
mod files;
mod lists;
mod online;

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use conf::Level;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs as provider, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, ProtocolVersion, SignatureScheme};
use server::tls::{Trust, remark};
use server::{Request, Session, VirtualHost};
use webpki::RawPublicKeyEntity;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::{FromDer, X509Version};

pub(super) use self::chain::is_signed;
use self::failure::{Failure, Reason};
use self::lists::Lists;
pub(super) use self::lists::{memory, read_again};
use self::online::Online;
pub(super) use self::online::admit;
use super::values::{CertificateCheck, CheckDepth, Verify};
use super::{SslDir, SslServer, names, variables};

/// The default of `SSLVerifyDepth`.
pub(super) const DEPTH: u32 = 1;

/// The requirements that a virtual host makes on client certificates.
pub(super) struct Clients {
    /// Whether the handshake fails without a certificate.
    is_required: bool,
    /// Whether only sections want certificates. Then one that is not valid counts as none, since most of the host is open
    /// to clients without any.
    is_for_sections: bool,
    /// `optional_no_ca`
    tolerates_strangers: bool,
    depth: usize,
    roots: Vec<Root>,
    anchors: Vec<TrustAnchor<'static>>,
    /// Certificates of intermediate authorities: they complete chains.
    others: Vec<CertificateDer<'static>>,
    /// The names of the authorities announced to the client.
    asked: Vec<DistinguishedName>,
    lists: lists::Current,
    check: CertificateCheck,
    /// The responders to ask about certificates, if any are.
    online: Option<Arc<Online>>,
    algorithms: WebPkiSupportedAlgorithms,
    mark: String,
}

/// A certificate that may end a chain; its trust anchor has the same index in the list of anchors.
struct Root {
    der: CertificateDer<'static>,
    subject: Vec<u8>,
    key: Vec<u8>,
    valid: (i64, i64),
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients")
            .field("is_required", &self.is_required)
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

/// The result of verifying the client's certificate, in the form of `SSL_CLIENT_VERIFY`.
pub(super) fn outcome(request: &Request, session: &Session) -> String {
    if session.client_chain.is_empty() {
        return "NONE".into();
    }
    match trust(request, session) {
        Some(Trust { flaw: None, .. }) => "SUCCESS".into(),
        // Measured with Apache: the result in TLS 1.3.
        Some(Trust { flaw: Some(words), .. }) if session.version == ProtocolVersion::TLSv1_3 => {
            format!("FAILED:{words}")
        }
        Some(_) => "GENEROUS".into(),
        None => format!("FAILED:{}", Reason::Other.codes().1),
    }
}

/// The trust in the client's certificate. The verification during the handshake keeps no result, so the first call
/// verifies the certificate again.
pub(super) fn trust(request: &Request, session: &Session) -> Option<Trust> {
    *session.trust.get_or_init(|| {
        let host = request.server.hosts.get(session.host)?;
        let clients = host.settings.get::<SslServer>().context.get()?.clients.as_ref()?;
        clients.judge(&session.client_chain, UnixTime::now()).ok()
    })
}

/// The requirements of a virtual host on connecting clients; `None`: neither it nor any of its sections has any.
pub(super) fn prepare(host: &VirtualHost, notes: &mut Vec<(Level, String)>) -> Result<Option<Clients>, String> {
    let server = host.settings.get::<SslServer>();
    let base = host.base_settings::<SslDir>();
    let mode = base.verify_client.or(Verify::None);
    let sections = || server.verify_in_sections.iter().filter(|mode| **mode != Verify::None);
    let is_for_sections = mode == Verify::None;
    if is_for_sections && sections().next().is_none() {
        return Ok(None);
    }
    let mut trusted = base.ca_file.get().map(|file| files::certificates(file)).transpose()?.unwrap_or_default();
    trusted.extend(base.ca_path.get().map(|path| files::certificates_in(path)).transpose()?.unwrap_or_default());
    let of_sections = is_for_sections && sections().any(|mode| *mode == Verify::OptionalNoCa);
    if trusted.is_empty() && is_for_sections && !of_sections {
        // A section of the main server, and a host where nobody could be verified: browsers would show their users all
        // certificates that they have, in vain.
        let name = host.log_name();
        let text =
            "sections want clients' certificates, and none is asked for: no CAs are known (SSLCACertificateFile)";
        notes.push((Level::Notice, format!("{name}: {text}")));
        return Ok(None);
    }
    if trusted.is_empty() {
        let text = "AH01897: Init: Oops, you want to request client authentication, but no CAs are known for verification!?  \
                    [Hint: SSLCACertificate*]";
        notes.push((Level::Warn, text.into()));
    }
    let mut named = server.ca_names_file.get().map(|file| files::certificates(file)).transpose()?.unwrap_or_default();
    named.extend(server.ca_names_path.get().map(|path| files::certificates_in(path)).transpose()?.unwrap_or_default());
    let is_named = server.ca_names_file.get().is_some() || server.ca_names_path.get().is_some();
    let asked = if is_named { &named } else { &trusted };
    let asked = asked.iter().filter_map(|der| Some(parse(der)?.subject().as_raw().to_vec().into())).collect();
    let check = server.revocation_check.or(CertificateCheck { depth: CheckDepth::None, unknown_is_good: false });
    let depths = server.depths_in_sections.iter().filter(|_| is_for_sections);
    let depth = depths.copied().chain([base.verify_depth.or(DEPTH)]).max().unwrap_or(DEPTH);
    let mut clients = Clients {
        is_required: mode == Verify::Require,
        is_for_sections,
        tolerates_strangers: mode == Verify::OptionalNoCa || of_sections,
        depth: depth as usize,
        roots: Vec::new(),
        anchors: Vec::new(),
        others: Vec::new(),
        asked,
        lists: lists::Current::new(host.index, lists::read(host, notes)?),
        check,
        online: Online::new(server)?.map(Arc::new),
        algorithms: provider::default_provider().signature_verification_algorithms,
        mark: String::new(),
    };
    clients.mark = clients.digest(&trusted);
    clients.sort(trusted)?;
    Ok(Some(clients))
}

pub(super) fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

fn is_self_issued(certificate: &X509Certificate<'_>) -> bool {
    certificate.subject().as_raw() == certificate.issuer().as_raw()
}

fn valid(certificate: &X509Certificate<'_>) -> (i64, i64) {
    (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp())
}

impl Clients {
    /// A digest of everything that a client's certificate is judged by. A session is resumed only under the same mark,
    /// because its certificate is not verified again.
    pub(super) fn mark(&self) -> String {
        format!("{} {}", self.mark, self.lists().mark)
    }

    fn digest(&self, trusted: &[CertificateDer<'static>]) -> String {
        let mut digest = Context::new(&SHA256);
        let modes = (self.is_required, self.is_for_sections, self.tolerates_strangers);
        digest.update(format!("{modes:?} {} {:?} {:?}", self.depth, self.check, self.online).as_bytes());
        trusted.iter().for_each(|der| digest.update(der));
        names::hex(digest.finish().as_ref())
    }

    /// The lists of revoked certificates in effect.
    fn lists(&self) -> Arc<Lists> {
        self.lists.get()
    }

    /// Separates roots from intermediate authorities. As in OpenSSL, a chain ends with a self-issued certificate.
    fn sort(&mut self, trusted: Vec<CertificateDer<'static>>) -> Result<(), String> {
        for der in trusted {
            let bad =
                || "AH01895: Unable to configure verify locations for client authentication: a certificate is broken";
            let parsed = parse(&der).ok_or_else(bad)?;
            if !is_self_issued(&parsed) {
                self.others.push(der);
                continue;
            }
            let anchor = webpki::anchor_from_trusted_cert(&der).map_err(|_| bad())?.to_owned();
            let (subject, key) = (parsed.subject().as_raw().to_vec(), parsed.public_key().raw.to_vec());
            let root = Root { subject, key, valid: valid(&parsed), der: der.clone() };
            self.anchors.push(anchor);
            self.roots.push(root);
        }
        Ok(())
    }

    /// Logs the flaw of a certificate as Apache does.
    fn remark(&self, failure: Failure, chain: &[CertificateDer<'_>]) {
        let (code, words, _) = failure.reason.codes();
        let about = self.climb(chain).get(failure.depth).and_then(|der| parse(der)).map(|one| describe(&one));
        let about = about.unwrap_or_default();
        if failure.reason != Reason::TooLong {
            let (level, number) = verification_failed();
            remark(level, format!("{number}: Certificate Verification: Error ({code}): {words}{about}"));
        }
        if failure.depth > self.depth {
            let (is, may) = (failure.depth, self.depth);
            remark(
                Level::Error,
                format!(
                    "AH02040: Certificate Verification: Certificate Chain too long (chain has {is} certificates, but maximum \
                     allowed are only {may})"
                ),
            );
        }
        if self.is_for_sections {
            remark(Level::Info, "the client's certificate is not valid, and counts as none".into());
        }
    }
}

/// The level and the number of the line about a certificate that is not valid.
fn verification_failed() -> (Level, &'static str) {
    match runtime::log::enabled("ssl", Level::Info) {
        true => (Level::Info, "AH02276"),
        false => (Level::Error, "AH02039"),
    }
}

/// Describes a certificate in a log line.
fn describe(one: &X509Certificate<'_>) -> String {
    let [subject, issuer] = [one.subject(), one.issuer()].map(|name| names::ascii(&names::rfc2253(name)));
    let serial = variables::serial(one.raw_serial());
    let [start, end] = [one.validity().not_before, one.validity().not_after].map(variables::date);
    format!(" [subject: {subject} / issuer: {issuer} / serial: {serial} / notbefore: {start} / notafter: {end}]")
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.is_required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.asked
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain: Vec<_> = std::iter::once(end_entity).chain(intermediates).cloned().collect();
        match self.judge(&chain, now) {
            Ok(trust) => {
                if trust.flaw.is_some() {
                    remark(
                        Level::Info,
                        "AH02009: SSL client authentication failed, accepting certificate based on \"SSLVerifyClient \
                         optional_no_ca\" configuration"
                            .into(),
                    );
                }
                Ok(ClientCertVerified::assertion())
            }
            Err(failure) => {
                self.remark(failure, &chain);
                if self.is_for_sections {
                    // `admit` takes it away.
                    return Ok(ClientCertVerified::assertion());
                }
                let (_, _, alert) = failure.reason.codes();
                Err(Error::InvalidCertificate(alert))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if parse(cert).is_none_or(|certificate| certificate.version() != X509Version::V1) {
            return verify_tls12_signature(message, cert, dss, &self.algorithms);
        }
        let bad = || Error::InvalidCertificate(CertificateError::BadSignature);
        let certificate = parse(cert).ok_or_else(bad)?;
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
        let key = RawPublicKeyEntity::try_from(&key).map_err(|_| bad())?;
        let known = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == dss.scheme).ok_or_else(bad)?;
        match known.1.iter().any(|one| key.verify_signature(*one, message, dss.signature()).is_ok()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(bad()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match parse(cert) {
            Some(certificate) if certificate.version() == X509Version::V1 => {
                let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
                verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
            }
            _ => verify_tls13_signature(message, cert, dss, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
