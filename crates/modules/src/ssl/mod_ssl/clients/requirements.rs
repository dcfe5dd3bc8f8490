//! The requirements of a virtual host on client certificates (`SSLVerifyClient` and its relatives).

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use conf::Level;
use rustls::DistinguishedName;
use rustls::pki_types::CertificateDer;
use server::VirtualHost;

use super::files;
use super::judge::{Judge, Side};
use super::lists;
use super::online::Online;
use super::parse::parse;
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
    /// What their certificates are judged by.
    pub(super) judge: Judge,
    /// The names of the authorities announced to the client.
    pub(super) asked: Vec<DistinguishedName>,
    /// The responders to ask about certificates, if any are.
    pub(super) online: Option<Arc<Online>>,
    mark: String,
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
    let depth = depth as usize;
    let lists = lists::Current::new(host.index, lists::read(host, notes)?);
    let mut judge = Judge::new(Side::Client, trusted.clone(), depth, check, lists)?;
    judge.tolerates_strangers = mode == Verify::OptionalNoCa || of_sections;
    let mut clients = Clients {
        is_required: mode == Verify::Require,
        is_for_sections,
        judge,
        asked,
        online: Online::new(server)?.map(Arc::new),
        mark: String::new(),
    };
    clients.mark = clients.digest(&trusted);
    Ok(Some(clients))
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients")
            .field("is_required", &self.is_required)
            .field("depth", &self.judge.depth)
            .finish_non_exhaustive()
    }
}

impl Clients {
    /// A digest of everything that a client's certificate is judged by. A session is resumed only under the same mark,
    /// because its certificate is not verified again.
    pub(in super::super) fn mark(&self) -> String {
        format!("{} {}", self.mark, self.judge.lists().mark)
    }

    fn digest(&self, trusted: &[CertificateDer<'static>]) -> String {
        let mut digest = Context::new(&SHA256);
        let modes = (self.is_required, self.is_for_sections, self.judge.tolerates_strangers);
        digest.update(format!("{modes:?} {} {:?} {:?}", self.judge.depth, self.judge.check, self.online).as_bytes());
        trusted.iter().for_each(|der| digest.update(der));
        names::hex(digest.finish().as_ref())
    }

    /// The index of the virtual host.
    pub(super) fn host(&self) -> usize {
        self.judge.lists.host()
    }

    /// From now on the lists in this memory count.
    pub(in super::super) fn follow(&mut self, published: Arc<Published>) {
        self.judge.lists.follow(published);
    }

    /// The memory that the lists come from.
    pub(super) fn followed(&self) -> Option<&Arc<Published>> {
        self.judge.lists.followed()
    }
}
