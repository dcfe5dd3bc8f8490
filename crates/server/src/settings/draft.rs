//! A configuration between its lines and the running server.

use conf::{Origin, SettingsMap};

use crate::settings::core::HostAddress;

/// A configuration after its lines were applied and before it is resolved: modules check and complete it here.
pub struct Draft {
    /// The main server's settings.
    pub main: SettingsMap,
    /// The main server's settings outside sections.
    pub main_dir: SettingsMap,
    /// The virtual hosts, each already merged with the main server.
    pub hosts: Vec<DraftHost>,
}

/// A virtual host of a [`Draft`].
pub struct DraftHost {
    /// Its addresses.
    pub addresses: Vec<HostAddress>,
    /// Its server settings, merged with the main server's.
    pub server: SettingsMap,
    /// Its own settings outside sections.
    pub dir: SettingsMap,
    /// The settings of the main server and its own, outside sections.
    pub merged_dir: SettingsMap,
    /// Its `<VirtualHost>` line.
    pub origin: Origin,
    pub(crate) own: SettingsMap,
    /// The port of the main server's name, if that was read before it.
    pub(crate) main_port: Option<u16>,
}

impl Draft {
    /// The settings of the main server and of every virtual host.
    pub fn servers(&self) -> impl Iterator<Item = &SettingsMap> {
        std::iter::once(&self.main).chain(self.hosts.iter().map(|host| &host.server))
    }
}
