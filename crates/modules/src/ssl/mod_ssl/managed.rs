//! Certificates that another module manages: mod_md gives them to the virtual hosts of its domains.

use std::fmt;
use std::sync::Arc;

use conf::{Level, Merge, Origin, SettingsMap, settings};
use rustls::ServerConfig;
use rustls::server::ClientHello;
use server::{Server, VirtualHost};

use super::settings::SslServer;
use super::values::NamedFile;

/// A module that manages the certificates of virtual hosts.
pub(crate) trait Managed: Sync {
    /// The certificate files of a virtual host; `None` if it uses those of `SSLCertificateFile`. Call it in a process
    /// that may read them. If there are no files yet, a process that `serves` gets a self-signed certificate. `Err` is a
    /// message for the log.
    fn files(&self, host: &VirtualHost, serves: bool) -> Option<Result<Served, String>>;

    /// The names of a virtual host's files with certificates from an authority, if the module fetches them; empty before
    /// the first are there.
    fn names(&self, host: &VirtualHost) -> Option<Vec<String>>;

    /// The configuration that answers a certificate authority's challenge. `None`: the client does not ask for one, or
    /// there is none for the name.
    fn challenge(&self, server: &Server, hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>>;
}

/// The certificate files of a virtual host whose certificates are managed.
pub(crate) struct Served {
    /// The files of the certificates.
    pub(crate) files: Vec<NamedFile>,
    /// The files of their keys.
    pub(crate) keys: Vec<NamedFile>,
    /// The certificates are self-signed fallbacks.
    pub(crate) is_fallback: bool,
}

impl Served {
    /// A line for the log about these files.
    pub(super) fn note(&self, host: &VirtualHost) -> Option<(Level, String)> {
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

settings! {
    /// The module that manages certificates, in the settings of each server.
    pub struct ManagedCertificates {
        manager: Manager,
    }
}

/// The module, if there is one.
#[derive(Clone, Default)]
struct Manager(Option<&'static dyn Managed>);

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Manager").field(&self.0.is_some()).finish()
    }
}

impl Merge for Manager {
    fn merge(base: &Self, add: &Self) -> Self {
        Manager(add.0.or(base.0))
    }

    /// The module names itself; no directive does.
    fn origins(&self, _: &mut dyn FnMut(&Origin)) {}
}

/// Lets a module manage the certificates of a server.
pub(crate) fn manage(server: &mut SettingsMap, manager: &'static dyn Managed) {
    server.edit::<ManagedCertificates>().manager = Manager(Some(manager));
}

/// The module that manages the certificates of a server.
pub(super) fn manager(server: &SettingsMap) -> Option<&'static dyn Managed> {
    server.get::<ManagedCertificates>().manager.0
}
