//! Where the servers listen: addresses of the loopback network and free ports stand for those of the configuration.
//!
//! Both servers use the same ports at different addresses, so that a port in an answer is the same in both.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use super::tree::{Directive, all};
use crate::machine::error::{Error, Result};

/// The port of HTTP.
pub(crate) const HTTP: u16 = 80;
/// The port of HTTP over TLS.
pub(crate) const HTTPS: u16 = 443;

/// How many servers run: Apache, Tsubame, and an Apache that is asked a second time.
pub(crate) const SERVERS: usize = 3;

/// The most addresses of a configuration that have an address of their own: what the last byte of each server's
/// addresses can tell apart.
const ADDRESSES_MAX: usize = 80;
/// How many ports are tried for one that is free at all addresses.
const TRIES: usize = 200;

/// An address as a configuration writes it: `*:80`, `192.0.2.1:443`, `[::]:80`, `_default_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Written {
    /// The host; empty if any address is meant.
    pub(crate) host: String,
    /// The port, if it has one.
    pub(crate) port: Option<u16>,
}

impl Written {
    /// Reads one. What has only digits is a port (`Listen 80`).
    pub(crate) fn read(text: &str) -> Self {
        if let Ok(port) = text.parse() {
            return Self { host: String::new(), port: Some(port) };
        }
        let (host, port) = match text.rsplit_once(':') {
            // A colon within brackets belongs to an address of IPv6.
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
            _ => (text, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_any = matches!(host, "*" | "_default_" | "0.0.0.0" | "::");
        Self { host: if is_any { String::new() } else { host.to_owned() }, port }
    }
}

/// An address and a port of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Endpoint {
    /// The number of its address; 0 is any.
    pub(crate) address: usize,
    /// Its port in the configuration.
    pub(crate) port: u16,
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    /// The hosts of the configuration; the first is empty and stands for any.
    hosts: Vec<String>,
    /// A free port for each port of the configuration.
    ports: BTreeMap<u16, u16>,
    /// What the servers listen on, and the protocol that `Listen` says.
    listens: BTreeMap<Endpoint, Option<String>>,
}

/// The addresses of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    first: [u8; 3],
    offset: u8,
}

impl Network {
    /// Those of so many servers, which no other run uses: they depend on the number of this process.
    pub(crate) fn own() -> [Self; SERVERS] {
        let [.., high, low] = std::process::id().to_be_bytes();
        let first = [127, 64 | high & 63, low];
        [0, 1, 2].map(|number| Self { first, offset: 1 + number * ADDRESSES_MAX as u8 })
    }

    /// The address that stands for one of the configuration.
    pub(crate) fn ip(self, address: usize) -> Ipv4Addr {
        let [a, b, c] = self.first;
        Ipv4Addr::new(a, b, c, self.offset.saturating_add(address as u8))
    }
}

impl Endpoints {
    /// Those that a configuration names, with a free port for each port.
    ///
    /// # Errors
    /// It listens nowhere, has too many addresses, or there are no free ports.
    pub(crate) fn of(tree: &[Directive], networks: [Network; SERVERS]) -> Result<Self> {
        let mut endpoints = Self { hosts: vec![String::new()], ports: BTreeMap::new(), listens: BTreeMap::new() };
        let mut open = Vec::new();
        for listen in all(tree).filter(|directive| directive.is("Listen")) {
            let words = listen.words();
            let written = Written::read(words.first().map_or("", String::as_str));
            open.push((written, words.get(1).cloned()));
        }
        if open.is_empty() {
            return Err(Error::new("the configuration has no Listen"));
        }
        // A virtual host at an address of its own is reached at an address of its own, too.
        let hosts = all(tree).filter(|directive| directive.is("VirtualHost"));
        let named: Vec<Written> = hosts.flat_map(Directive::words).map(|word| Written::read(&word)).collect();
        for written in open.iter().map(|(written, _)| written).chain(&named) {
            if !endpoints.hosts.contains(&written.host) {
                endpoints.hosts.push(written.host.clone());
            }
        }
        if endpoints.hosts.len() > ADDRESSES_MAX {
            return Err(Error::new(format!("the configuration has more than {ADDRESSES_MAX} addresses")));
        }
        for (written, protocol) in open {
            let Some(port) = written.port else { continue };
            let at_port = |one: &&Written| one.port.is_none_or(|own| own == port);
            let same = |one: &Written| written.host.is_empty() || one.host == written.host || one.host.is_empty();
            let others = named.iter().filter(at_port).filter(|one| same(one)).map(|one| one.host.as_str());
            for host in std::iter::once(written.host.as_str()).chain(others) {
                let address = endpoints.hosts.iter().position(|known| known == host).unwrap_or(0);
                let known = endpoints.listens.entry(Endpoint { address, port }).or_default();
                *known = known.take().or_else(|| protocol.clone());
            }
        }
        let wanted: Vec<u16> = endpoints.listens.keys().map(|endpoint| endpoint.port).collect();
        for port in wanted {
            if !endpoints.ports.contains_key(&port) {
                let free = endpoints.free_port(networks)?;
                endpoints.ports.insert(port, free);
            }
        }
        Ok(endpoints)
    }

    /// A port that is free at all addresses of all servers.
    fn free_port(&self, networks: [Network; SERVERS]) -> Result<u16> {
        let ips: Vec<Ipv4Addr> =
            networks.iter().flat_map(|network| (0..self.hosts.len()).map(|address| network.ip(address))).collect();
        let candidate = || TcpListener::bind((ips[0], 0)).and_then(|listener| listener.local_addr()).ok();
        let is_free = |port: &u16| {
            !self.ports.values().any(|used| used == port)
                && ips.iter().all(|ip| TcpListener::bind((*ip, *port)).is_ok())
        };
        let found = std::iter::repeat_with(candidate).take(TRIES).flatten().map(|address| address.port()).find(is_free);
        found.ok_or_else(|| Error::new("no port is free at all addresses of the loopback network"))
    }

    /// The lines `Listen` of a server.
    pub(crate) fn listen(&self, network: Network) -> String {
        let lines = self.listens.iter().map(|(endpoint, protocol)| {
            let protocol = protocol.as_ref().map(|protocol| format!(" {protocol}")).unwrap_or_default();
            format!("Listen {}{protocol}\n", self.socket(*endpoint, network))
        });
        lines.collect()
    }

    /// The address that stands for one of `<VirtualHost>`.
    pub(crate) fn virtual_host(&self, word: &str, network: Network) -> String {
        let written = Written::read(word);
        let port = written.port.map(|port| format!(":{}", self.ports.get(&port).copied().unwrap_or(port)));
        let host = match self.address(&written) {
            0 => "*".to_owned(),
            address => network.ip(address).to_string(),
        };
        host + &port.unwrap_or_default()
    }

    /// Where a server listens.
    pub(crate) fn socket(&self, endpoint: Endpoint, network: Network) -> SocketAddr {
        let port = self.ports.get(&endpoint.port).copied().unwrap_or(endpoint.port);
        SocketAddr::from((network.ip(endpoint.address), port))
    }

    /// Everything that they listen on, with the protocol that `Listen` says.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Endpoint, Option<&str>)> {
        self.listens.iter().map(|(endpoint, protocol)| (*endpoint, protocol.as_deref()))
    }

    /// The endpoints of a virtual host that something listens on.
    pub(crate) fn of_host(&self, words: &[String]) -> Vec<Endpoint> {
        let mut found: Vec<Endpoint> = Vec::new();
        for written in words.iter().map(|word| Written::read(word)) {
            let address = self.address(&written);
            let fits = |endpoint: &&Endpoint| {
                endpoint.address == address && written.port.is_none_or(|port| port == endpoint.port)
            };
            found.extend(self.listens.keys().filter(fits));
        }
        found
    }

    /// An address of the live server, for a client of the same family.
    pub(crate) fn original(&self, endpoint: Endpoint, client: Option<IpAddr>) -> SocketAddr {
        let own = self.hosts.get(endpoint.address).and_then(|host| host.parse::<IpAddr>().ok());
        let any = if client.is_some_and(|client| client.is_ipv6()) {
            IpAddr::from(Ipv6Addr::LOCALHOST)
        } else {
            Ipv4Addr::LOCALHOST.into()
        };
        SocketAddr::new(own.unwrap_or(any), endpoint.port)
    }

    /// How many addresses there are, with the one that stands for any.
    pub(crate) fn addresses(&self) -> usize {
        self.hosts.len()
    }

    /// The ports, and those that stand for them.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (u16, u16)> {
        self.ports.iter().map(|(original, own)| (*original, *own))
    }

    fn address(&self, written: &Written) -> usize {
        self.hosts.iter().position(|host| *host == written.host).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_they_are_written() {
        for (text, host, port) in [
            ("80", "", Some(80)),
            ("*:80", "", Some(80)),
            ("_default_:443", "", Some(443)),
            ("[::]:80", "", Some(80)),
            ("*", "", None),
            ("192.0.2.1:8080", "192.0.2.1", Some(8080)),
            ("[2001:db8::1]:443", "2001:db8::1", Some(443)),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("example.org:*", "example.org", None),
        ] {
            assert_eq!(Written::read(text), Written { host: host.to_owned(), port }, "{text}");
        }
    }
}
