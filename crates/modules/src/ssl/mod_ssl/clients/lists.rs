//! The lists of revoked certificates that a virtual host checks clients by, which a running server replaces.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::digest::{Context, SHA256};
use conf::Level;
use rustls::pki_types::CertificateRevocationListDer;
use server::VirtualHost;
use webpki::CertRevocationList;

use super::files::{self, Form, List};
use crate::ssl::mod_ssl::names;
use crate::ssl::mod_ssl::published::{Part, Published};
use crate::ssl::mod_ssl::settings::SslServer;
use crate::ssl::mod_ssl::values::{CertificateCheck, CheckDepth};

/// A set of lists.
pub(super) struct Lists {
    pub(super) all: Vec<List>,
    /// A digest of them.
    pub(super) mark: String,
}

impl Lists {
    fn new(all: Vec<List>) -> Lists {
        let mut digest = Context::new(&SHA256);
        all.iter().for_each(|list| digest.update(&list.der));
        let mark = if all.is_empty() { String::new() } else { names::hex(digest.finish().as_ref()) };
        Lists { all, mark }
    }

    /// The lists in webpki's form.
    pub(super) fn modern(&self) -> impl Iterator<Item = &CertRevocationList<'static>> {
        self.all.iter().filter_map(|list| match &list.form {
            Form::Modern(list) => Some(list),
            Form::Old(_) => None,
        })
    }
}

/// The lists in effect. The first handshake after a publication takes in the new ones.
pub(in super::super) struct Current {
    /// The index of the virtual host.
    host: usize,
    published: Option<Arc<Published>>,
    /// The number of the set that was looked at last, and the lists.
    current: RwLock<(u64, Arc<Lists>)>,
}

impl Current {
    pub(in super::super) fn new(host: usize, lists: Vec<List>) -> Current {
        Current { host, published: None, current: RwLock::new((0, Arc::new(Lists::new(lists)))) }
    }

    /// The index of the virtual host.
    pub(super) fn host(&self) -> usize {
        self.host
    }

    /// From now on the lists in this memory count.
    pub(super) fn follow(&mut self, published: Arc<Published>) {
        self.published = Some(published);
    }

    /// The memory that the lists come from.
    pub(super) fn followed(&self) -> Option<&Arc<Published>> {
        self.published.as_ref()
    }

    pub(super) fn get(&self) -> Arc<Lists> {
        let number = self.published.as_ref().map_or(0, |published| published.number());
        let known = self.current.read().unwrap_or_else(PoisonError::into_inner);
        if known.0 == number {
            return known.1.clone();
        }
        drop(known);
        let mut known = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, part)) = self.published.as_ref().and_then(|published| published.part(self.host)) {
            match from_part(&part) {
                Some(lists) => known.1 = Arc::new(Lists::new(lists)),
                None => {
                    runtime::log!("ssl", Error, "published revocation lists cannot be read: the previous ones stay")
                }
            }
        }
        known.0 = number;
        known.1.clone()
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The certificate revocation lists of a virtual host, if they are to be checked.
pub(super) fn read(host: &VirtualHost, notes: &mut Vec<(Level, String)>) -> Result<Vec<List>, String> {
    let server = host.settings.get::<SslServer>();
    let (file, path) = (server.revocation_file.get(), server.revocation_path.get());
    let check = server.revocation_check.value_or(CertificateCheck { depth: CheckDepth::None, unknown_is_good: false });
    if check.depth == CheckDepth::None {
        if file.is_some() || path.is_some() {
            let name = host.log_name();
            let text = "X.509 CRL storage locations configured, but CRL checking (SSLCARevocationCheck) is not enabled";
            notes.push((Level::Warn, format!("AH01902: Host {name}: {text}")));
        }
        return Ok(Vec::new());
    }
    if file.is_none() && path.is_none() {
        return Err(format!(
            "AH01899: Host {}: CRL checking has been enabled, but neither SSLCARevocationFile nor SSLCARevocationPath is \
             configured",
            host.log_name()
        ));
    }
    let mut all = file.map(|file| files::lists(file)).transpose()?.unwrap_or_default();
    all.extend(path.map(|path| files::lists_in(path)).transpose()?.unwrap_or_default());
    Ok(all)
}

/// Encodes lists for other processes.
pub(super) fn to_part(lists: &[List]) -> Part {
    let mut bytes = Vec::new();
    for List { der, .. } in lists {
        bytes.extend_from_slice(&(der.len() as u64).to_le_bytes());
        bytes.extend_from_slice(der);
    }
    Part { ends: Vec::new(), bytes }
}

fn from_part(part: &Part) -> Option<Vec<List>> {
    let (mut rest, mut lists) = (&part.bytes[..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<8>() {
        let (der, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        lists.push(List::read(CertificateRevocationListDer::from(der.to_vec())).ok()?);
        rest = after;
    }
    rest.is_empty().then_some(lists)
}
