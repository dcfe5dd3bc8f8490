//! Virtual hosts, and the choice of one for a request: by address first, then by name (Apache manual, "An In-Depth
//! Discussion of Virtual Host Matching").

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, RwLock};

use conf::fnmatch::{is_wildcard, wildcard_ignoring_case};
use conf::{Level, Origin, Settings, SettingsMap};

use crate::config::core::{CoreServer, HostAddress};
use crate::config::http2::Http2;
use crate::config::merge::Merged;
use crate::config::plan::Plan;
use crate::config::section::Section;
use crate::files::directory_cache::DirectoryCache;
use crate::log::{ErrorLog, Levels};

/// A virtual host, or the main server.
pub struct VirtualHost {
    /// Its place among all hosts; the main server is 0.
    pub index: usize,
    /// `ServerName` without port.
    pub name: String,
    /// The port of `ServerName`.
    pub port: Option<u16>,
    /// The scheme of our own URLs: `ServerName https://…` states that it differs from that of the connection.
    pub scheme: &'static str,
    /// Its [`label`](VirtualHost::label), if all addresses have the same port.
    pub(crate) label: Option<String>,
    /// Names and wildcard names of `ServerAlias`.
    pub aliases: Vec<String>,
    /// `ServerAdmin`.
    pub admin: Option<String>,
    /// Its addresses; none for the main server.
    pub addresses: Vec<HostAddress>,
    /// Its `<VirtualHost>` line; `None` for the main server.
    pub origin: Option<Origin>,
    /// The server settings of all modules.
    pub settings: SettingsMap,
    /// Its settings outside sections.
    pub base: Merged,
    /// Its error log.
    pub error_log: Arc<ErrorLog>,
    /// `LogLevel`.
    pub(crate) levels: Levels,
    /// `DocumentRoot`, without a slash at the end.
    pub document_root: String,
    /// `<Directory>` with paths and wildcards, shortest first.
    pub(crate) directories: Vec<Arc<Section>>,
    /// `<DirectoryMatch>`, in file order.
    pub(crate) directory_matches: Vec<Arc<Section>>,
    /// `<Location>` and `<LocationMatch>`, in file order.
    pub(crate) locations: Vec<Arc<Section>>,
    pub(crate) access_file_names: Vec<String>,
    pub(crate) plan: Plan,
    pub(crate) directory_cache: RwLock<DirectoryCache>,
}

impl VirtualHost {
    /// The default port of our own URLs.
    pub fn scheme_port(&self) -> u16 {
        if self.scheme == "https" { 443 } else { 80 }
    }

    /// The scheme of URLs that lead to its connections.
    pub fn scheme_of_connections(&self) -> &'static str {
        if self.settings.get::<CoreServer>().encrypted.or(false) { "https" } else { "http" }
    }

    /// Its name with the port of its connections, for the status page: that of its first address if they differ.
    pub fn label(&self) -> String {
        let port = || self.addresses.first().and_then(|address| address.port);
        self.label.clone().or_else(|| Some(format!("{}:{}", self.name, port()?))).unwrap_or_else(|| self.log_name())
    }

    /// Its name with its port, as in log lines.
    pub fn log_name(&self) -> String {
        format!("{}:{}", self.name, self.port.unwrap_or(self.scheme_port()))
    }

    /// Writes a message about the virtual host itself to its error log, if its `LogLevel` wants it.
    pub fn log(&self, module: &str, level: Level, text: &str) {
        if level == Level::Notice || level <= self.levels.of(module) {
            self.error_log.write(module, level, text);
        }
    }

    /// The protocols allowed over its encrypted connections, the preferred ones first, by their names in a handshake
    /// (ALPN). HTTP/1.1 is always among them.
    pub fn alpn(&self) -> Vec<Vec<u8>> {
        const HTTP1: &str = "http/1.1";
        let (core, http2) = (self.settings.get::<CoreServer>(), self.settings.get::<Http2>().is_there());
        let known = core.protocols().filter(|name| *name == HTTP1 || http2 && *name == "h2");
        let last = if core.speaks(HTTP1) { None } else { Some(HTTP1) };
        known.chain(last).map(|name| name.as_bytes().to_vec()).collect()
    }

    /// A module's settings outside sections.
    pub fn base_settings<S: Settings>(&self) -> &S {
        self.base.slots.get()
    }

    /// `MaxKeepAliveRequests`; 0: no limit.
    pub fn max_keep_alive_requests(&self) -> u32 {
        self.plan.keep_alive_max
    }
}

/// The hosts of one address and port.
#[derive(Debug, Default)]
struct Group {
    /// Indices into the list of hosts, in file order.
    members: Vec<usize>,
    /// Names in lower case: the first host that has it.
    names: HashMap<String, usize>,
    /// Names with wildcards, in file order.
    wild: Vec<(String, usize)>,
}

/// Data for the choice, computed once.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    groups: Vec<(Option<IpAddr>, Option<u16>, Group)>,
}

impl Hosts {
    pub(crate) fn new(hosts: &[VirtualHost]) -> Hosts {
        let mut groups: Vec<(Option<IpAddr>, Option<u16>, Group)> = Vec::new();
        for host in &hosts[1..] {
            for address in &host.addresses {
                let at = groups.iter().position(|(ip, port, _)| (*ip, *port) == (address.ip, address.port));
                let at = at.unwrap_or_else(|| {
                    groups.push((address.ip, address.port, Group::default()));
                    groups.len() - 1
                });
                groups[at].2.add(host);
            }
        }
        Hosts { groups }
    }

    /// Whether the choice is trivial.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The host for a connection to `local` that asks for `name` (lower case, without port): its index, and whether it
    /// knows the name.
    pub(crate) fn choose(&self, local: SocketAddr, name: Option<&str>) -> (usize, bool) {
        let Some(group) = self.group(local) else { return (0, false) };
        match name.and_then(|name| group.named(name)) {
            Some(index) => (index, true),
            None => (group.members[0], false),
        }
    }

    /// How many hosts share the address of a connection to `local`.
    pub(crate) fn candidates(&self, local: SocketAddr) -> usize {
        self.group(local).map_or(0, |group| group.members.len())
    }

    /// An exact address takes precedence over any address, and an exact port over any port.
    fn group(&self, local: SocketAddr) -> Option<&Group> {
        let ip = local.ip().to_canonical();
        let group = |wanted_ip: Option<IpAddr>, port: Option<u16>| {
            self.groups.iter().find(|(ip, p, _)| (*ip, *p) == (wanted_ip, port)).map(|(_, _, group)| group)
        };
        let port = Some(local.port());
        let found = group(Some(ip), port).or_else(|| group(Some(ip), None));
        found.or_else(|| group(None, port)).or_else(|| group(None, None))
    }
}

impl Group {
    fn add(&mut self, host: &VirtualHost) {
        self.members.push(host.index);
        for name in std::iter::once(&host.name).chain(&host.aliases) {
            if is_wildcard(name) {
                self.wild.push((name.clone(), host.index));
            } else {
                self.names.entry(name.to_ascii_lowercase()).or_insert(host.index);
            }
        }
    }

    fn named(&self, name: &str) -> Option<usize> {
        let exact = self.names.get(name).copied();
        let wild = self.wild.iter().find(|(pattern, _)| wildcard_ignoring_case(pattern, name)).map(|(_, index)| *index);
        match (exact, wild) {
            (Some(exact), Some(wild)) => Some(exact.min(wild)),
            (exact, wild) => exact.or(wild),
        }
    }
}

/// Whether to refuse an unknown name (`StrictHostCheck`).
pub(crate) fn is_strict(host: &VirtualHost) -> bool {
    host.settings.get::<CoreServer>().strict_host_check()
}
