//! A configuration between its lines and the running server.

use conf::{Origin, SettingsMap};

use crate::config::core::HostAddress;

/// A configuration as it was applied, before it is resolved: modules check and complete it here.
pub struct Draft {
    /// The main server's settings.
    pub main: SettingsMap,
    /// What holds outside sections on the main server.
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
    /// What it says itself outside sections.
    pub dir: SettingsMap,
    /// What the main server and it say outside sections.
    pub merged_dir: SettingsMap,
    /// Its `<VirtualHost>` line.
    pub origin: Origin,
    pub(crate) own: SettingsMap,
    /// The port of the main server's name, as far as that was read before it.
    pub(crate) main_port: Option<u16>,
}

impl Draft {
    /// The settings of the main server and of every virtual host.
    pub fn servers(&self) -> impl Iterator<Item = &SettingsMap> {
        std::iter::once(&self.main).chain(self.hosts.iter().map(|host| &host.server))
    }
}
