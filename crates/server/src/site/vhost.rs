//! Virtual hosts, and the choice of one for a request: by address first, then by name (Apache manual, "An In-Depth
//! Discussion of Virtual Host Matching").

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use conf::fnmatch::{is_wildcard, wildcard_ignoring_case};
use conf::{Level, Origin, Settings, SettingsMap};

use crate::log::ErrorLog;
use crate::log::Levels;
use crate::settings::core::{CoreServer, HostAddress};
use crate::settings::http2::Http2;
use crate::settings::merge::Layer;
use crate::settings::plan::Plan;
use crate::settings::section::{Matcher, Section};

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
    pub base: Layer,
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
}

/// The paths and settings of the sections that have a plain path.
fn plain(sections: &[Arc<Section>]) -> impl Iterator<Item = (&str, &SettingsMap)> {
    sections.iter().filter_map(|section| match &section.matcher {
        Matcher::Path(path) => Some((&**path, &*section.layer.slots)),
        _ => None,
    })
}

impl VirtualHost {
    /// The default port of our own URLs.
    pub fn scheme_port(&self) -> u16 {
        if self.scheme == "https" { 443 } else { 80 }
    }

    /// The scheme of URLs that lead to its connections.
    pub fn scheme_of_connections(&self) -> &'static str {
        if self.settings.get::<CoreServer>().encrypted.value_or(false) { "https" } else { "http" }
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

    /// The paths and settings of its `<Directory>` sections that have no wildcards.
    pub fn directories(&self) -> impl Iterator<Item = (&str, &SettingsMap)> {
        plain(&self.directories)
    }

    /// The paths and settings of its `<Location>` sections that have no wildcards.
    pub fn locations(&self) -> impl Iterator<Item = (&str, &SettingsMap)> {
        plain(&self.locations)
    }

    /// `MaxKeepAliveRequests`; 0: no limit.
    pub fn max_keep_alive_requests(&self) -> u32 {
        self.plan.keep_alive_max
    }
}

/// The hosts of one address and port. A request chooses among ten thousand as fast as among ten.
#[derive(Debug, Default)]
struct Group {
    /// Indices into the list of hosts, in file order.
    members: Vec<usize>,
    /// Names in lower case: the first host that has it.
    names: HashMap<String, usize>,
    /// What follows the star in names such as `*.example.com`, from the dot on: the first host that has it.
    suffixes: HashMap<String, usize>,
    /// All other names with wildcards, in file order.
    patterns: Vec<(String, usize)>,
}

/// An address and a port, as `<VirtualHost>` has them.
type AddressPort = (Option<IpAddr>, Option<u16>);

/// Data for the choice, computed once.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    /// In the order of their places.
    groups: Vec<(AddressPort, Group)>,
}

impl Hosts {
    pub(crate) fn new(hosts: &[VirtualHost]) -> Hosts {
        let mut groups: BTreeMap<AddressPort, Group> = BTreeMap::new();
        for host in &hosts[1..] {
            for address in &host.addresses {
                let names = std::iter::once(&host.name).chain(&host.aliases);
                groups.entry((address.ip, address.port)).or_default().add(host.index, names);
            }
        }
        Hosts { groups: groups.into_iter().collect() }
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
        let group = |place: AddressPort| {
            self.groups.binary_search_by(|(other, _)| other.cmp(&place)).ok().map(|at| &self.groups[at].1)
        };
        let port = Some(local.port());
        let found = group((Some(ip), port)).or_else(|| group((Some(ip), None)));
        found.or_else(|| group((None, port))).or_else(|| group((None, None)))
    }
}

impl Group {
    fn add<'a>(&mut self, index: usize, names: impl Iterator<Item = &'a String>) {
        self.members.push(index);
        for name in names {
            let lower = name.to_ascii_lowercase();
            match lower.strip_prefix('*') {
                Some(suffix) if suffix.starts_with('.') && !is_wildcard(suffix) => {
                    self.suffixes.entry(suffix.to_string()).or_insert(index);
                }
                _ if is_wildcard(&lower) => self.patterns.push((lower, index)),
                _ => {
                    self.names.entry(lower).or_insert(index);
                }
            }
        }
    }

    /// The first host in the file that has the name, exactly or by a pattern.
    fn named(&self, name: &str) -> Option<usize> {
        let mut first = self.names.get(name).copied();
        if !self.suffixes.is_empty() {
            let by_suffix = name.match_indices('.').filter_map(|(at, _)| self.suffixes.get(&name[at..]).copied());
            first = first.into_iter().chain(by_suffix).min();
        }
        // Patterns behind the host that is already found lose anyway.
        let mut before = self.patterns.iter().take_while(|(_, index)| first.is_none_or(|first| *index < first));
        let by_pattern = before.find(|(pattern, _)| wildcard_ignoring_case(pattern, name)).map(|(_, index)| *index);
        by_pattern.or(first)
    }
}

/// Whether to refuse an unknown name (`StrictHostCheck`).
pub(crate) fn is_strict(host: &VirtualHost) -> bool {
    host.settings.get::<CoreServer>().strict_host_check()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(hosts: &[Vec<String>]) -> Group {
        let mut group = Group::default();
        hosts.iter().enumerate().for_each(|(index, names)| group.add(index, names.iter()));
        group
    }

    /// The first host in the list that has the name, as Apache finds it.
    fn first(hosts: &[Vec<String>], name: &str) -> Option<usize> {
        hosts.iter().position(|names| names.iter().any(|pattern| wildcard_ignoring_case(pattern, name)))
    }

    #[test]
    fn the_first_host_that_has_a_name_is_chosen() {
        const NAMES: [&str; 16] = [
            "a", "a.b", "B.c", "*", "*.b", "*.C", "*.b.c", "a*", "a.*", "*b", "?.b", "*.*.c", "*a.b", "x.b.c", "*.",
            ".b",
        ];
        const ASKED: [&str; 14] =
            ["a", "b", "a.b", "b.c", "x.b", "x.b.c", "a.x.b.c", "ab", "", ".", ".b", "b.", "a..c", "c"];
        // Every choice of three names for three hosts, and back.
        for one in NAMES {
            for two in NAMES {
                for three in NAMES {
                    let hosts = [vec![one.to_string()], vec![two.to_string(), "q".into()], vec![three.to_string()]];
                    let group = group(&hosts);
                    for name in ASKED {
                        assert_eq!(group.named(name), first(&hosts, name), "{name}: {one}, {two}, {three}");
                    }
                }
            }
        }
    }

    /// A name is looked up, not compared with the names of all hosts.
    #[test]
    fn many_hosts_leave_nothing_to_compare() {
        let hosts: Vec<Vec<String>> =
            (0..2000).map(|n| vec![format!("h{n}.test"), format!("www.h{n}.test"), format!("*.h{n}.test")]).collect();
        let group = group(&hosts);
        assert!(group.patterns.is_empty());
        for (name, want) in
            [("h7.test", Some(7)), ("a.b.h1999.test", Some(1999)), ("www.h0.test", Some(0)), ("test", None)]
        {
            assert_eq!(group.named(name), want, "{name}");
        }
    }
}
