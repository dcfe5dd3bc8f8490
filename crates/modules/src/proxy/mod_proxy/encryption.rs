//! The encryption of connections to backends: mod_ssl prepares what the configuration asks for.

use conf::Settings as _;
use server::Server;

use super::settings::ProxyServer;
use crate::ssl::mod_ssl::{SslProxy, backends};

/// Prepares the connections of all virtual hosts, outside and inside their `<Proxy>` sections. `Err`: why the
/// configuration cannot be served.
pub(super) fn prepare(server: &Server) -> Result<(), String> {
    let mut all = Vec::new();
    for host in &server.hosts {
        let base = host.base_settings::<SslProxy>();
        all.push((host, base.clone()));
        for section in host.settings.get::<ProxyServer>().sections.iter() {
            all.push((host, SslProxy::merged(base, section.layer.slots.get())));
        }
    }
    backends::prepare(server, &all)
}
