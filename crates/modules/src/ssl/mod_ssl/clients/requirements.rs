//! The requirements of a virtual host on client certificates (`SSLVerifyClient` and its relatives).

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use conf::Level;
use rustls::DistinguishedName;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs as provider};
use rustls::pki_types::{CertificateDer, TrustAnchor};
use server::VirtualHost;

use super::files;
use super::lists::{self, Lists};
use super::online::Online;
use super::parse::{is_self_issued, parse, valid};
use crate::ssl::mod_ssl::names;
use crate::ssl::mod_ssl::published::Published;
use crate::ssl::mod_ssl::settings::{SslDir, SslServer, VERIFY_DEPTH};
use crate::ssl::mod_ssl::values::{CertificateCheck, CheckDepth, Verify};

/// The requirements that a virtual host makes on client certificates.
pub(in super::super) struct Clients {
    /// Whether the handshake fails without a certificate.
    pub(super) is_required: bool,
    /// Whether only sections want certificates. Then one that is not valid counts as none, since most of the host is open
    /// to clients without any.
    pub(super) is_for_sections: bool,
    /// `optional_no_ca`
    pub(super) tolerates_strangers: bool,
    pub(super) depth: usize,
    pub(super) roots: Vec<Root>,
    pub(super) anchors: Vec<TrustAnchor<'static>>,
    /// Certificates of intermediate authorities: they complete chains.
    pub(super) others: Vec<CertificateDer<'static>>,
    /// The names of the authorities announced to the client.
    pub(super) asked: Vec<DistinguishedName>,
    lists: lists::Current,
    pub(super) check: CertificateCheck,
    /// The responders to ask about certificates, if any are.
    pub(super) online: Option<Arc<Online>>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    mark: String,
}

/// A certificate that may end a chain; its trust anchor has the same index in the list of anchors.
pub(super) struct Root {
    pub(super) der: CertificateDer<'static>,
    pub(super) subject: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) valid: (i64, i64),
}

/// The requirements of a virtual host on connecting clients; `None`: neither it nor any of its sections has any.
pub(in super::super) fn prepare(
    host: &VirtualHost,
    notes: &mut Vec<(Level, String)>,
) -> Result<Option<Clients>, String> {
    let server = host.settings.get::<SslServer>();
    let base = host.base_settings::<SslDir>();
    let mode = base.verify_client.value_or(Verify::None);
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
    let check = server.revocation_check.value_or(CertificateCheck { depth: CheckDepth::None, unknown_is_good: false });
    let depths = server.depths_in_sections.iter().filter(|_| is_for_sections);
    let depth = depths.copied().chain([base.verify_depth.value_or(VERIFY_DEPTH)]).max().unwrap_or(VERIFY_DEPTH);
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

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients")
            .field("is_required", &self.is_required)
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

impl Clients {
    /// A digest of everything that a client's certificate is judged by. A session is resumed only under the same mark,
    /// because its certificate is not verified again.
    pub(in super::super) fn mark(&self) -> String {
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
    pub(super) fn lists(&self) -> Arc<Lists> {
        self.lists.get()
    }

    /// The index of the virtual host.
    pub(super) fn host(&self) -> usize {
        self.lists.host()
    }

    /// From now on the lists in this memory count.
    pub(in super::super) fn follow(&mut self, published: Arc<Published>) {
        self.lists.follow(published);
    }

    /// The memory that the lists come from.
    pub(super) fn followed(&self) -> Option<&Arc<Published>> {
        self.lists.followed()
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
}
