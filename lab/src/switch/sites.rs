//! The virtual hosts of a configuration: how each is reached, and its logs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::endpoints::{Endpoint, Endpoints, HTTP, HTTPS};
use super::tree::{Directive, Origin, all};

/// A virtual host, or the main server.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// `ServerName` without scheme and port; the main server's name where a host has none, empty if nothing has one.
    pub(crate) name: String,
    /// `ServerAlias`es, which may have wildcards.
    pub(crate) aliases: Vec<String>,
    /// Where it is reached; nowhere if nothing listens there.
    pub(crate) endpoints: Vec<Endpoint>,
    /// Whether it speaks TLS.
    pub(crate) is_encrypted: bool,
    /// `DocumentRoot`.
    pub(crate) documents: Option<PathBuf>,
    /// Its access logs.
    pub(crate) logs: Vec<AccessLog>,
    /// Its line; none for the main server.
    pub(crate) origin: Option<Origin>,
}

/// An access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessLog {
    /// The file, or `|` and a command.
    pub(crate) to: String,
    /// Its format, without nickname.
    pub(crate) format: String,
    /// Its line.
    pub(crate) origin: Origin,
    /// Its number among all logs, in the order of their lines in the tree.
    pub(crate) number: usize,
}

/// What `TransferLog` and a `CustomLog` without a format write.
const COMMON: &str = "%h %l %u %t \"%r\" %>s %b";

/// The sites, the main server first.
#[derive(Clone, Debug)]
pub(crate) struct Sites(Vec<Site>);

impl Sites {
    /// Those of a tree.
    pub(crate) fn of(tree: &[Directive], endpoints: &Endpoints) -> Self {
        let lines: Vec<&Directive> = all(tree).filter(|directive| is_access_log(directive)).collect();
        let mut formats = BTreeMap::new();
        let mut main = site(tree, None, &mut formats, &lines);
        let mut sites = Vec::new();
        for host in tree.iter().filter(|directive| directive.is("VirtualHost")) {
            let mut own = formats.clone();
            let mut site = site(host.inside(), Some(&main), &mut own, &lines);
            site.endpoints = endpoints.of_host(&host.words());
            let is_https = |endpoint: &Endpoint| {
                endpoints.all().any(|(one, protocol)| one == *endpoint && protocol == Some("https"))
            };
            site.is_encrypted |= site.endpoints.iter().any(is_https) && !is_off(host.inside());
            site.origin = Some(host.origin.clone());
            sites.push(site);
        }
        let has_host = |endpoint: &Endpoint| sites.iter().any(|site| site.endpoints.contains(endpoint));
        main.endpoints = endpoints.all().map(|(endpoint, _)| endpoint).filter(|one| !has_host(one)).collect();
        sites.insert(0, main);
        Self(sites)
    }

    /// All of them, the main server first.
    pub(crate) fn all(&self) -> &[Site] {
        &self.0
    }

    /// An access log, by its number.
    pub(crate) fn log(&self, number: usize) -> Option<&AccessLog> {
        self.0.iter().flat_map(|site| &site.logs).find(|log| log.number == number)
    }

    /// Whether a site has this name.
    pub(crate) fn has(&self, host: &str) -> bool {
        self.0.iter().any(|site| site.is_named(host))
    }

    /// The number of the site that answers the request of a log line: a host's log is of that host alone; otherwise the site with
    /// that name, or the first one at that port, or at the port of HTTP. `own` is the site of the log, 0 if that is nobody's own.
    pub(crate) fn named(&self, own: usize, host: Option<&str>, port: Option<u16>) -> usize {
        if own > 0 {
            return own;
        }
        let is_at = |site: &Site, port: u16| site.endpoints.iter().any(|endpoint| endpoint.port == port);
        let is_meant = |site: &Site| port.is_none_or(|port| is_at(site, port));
        let is_named = |site: &Site| host.is_some_and(|host| site.is_named(host));
        let reachable = || self.0.iter().enumerate().filter(|(_, site)| !site.endpoints.is_empty());
        let named =
            reachable().skip_while(|(number, _)| *number == 0).find(|(_, site)| is_named(site) && is_meant(site));
        let at_port = || reachable().find(|(_, site)| port.is_some() && is_meant(site));
        let of_http = || reachable().find(|(_, site)| is_at(site, HTTP));
        let found = named.or_else(at_port).or_else(of_http).or_else(|| reachable().next());
        found.map_or(own, |(number, _)| number)
    }
}

/// Whether the line is one of an access log.
fn is_access_log(directive: &Directive) -> bool {
    ["CustomLog", "TransferLog", "GlobalLog"].iter().any(|name| directive.is(name))
}

/// Whether a `ServerAlias` stands for a host: `*` for any characters, `?` for one.
fn matches(alias: &str, host: &str) -> bool {
    fn rest(alias: &[u8], host: &[u8]) -> bool {
        match (alias.first(), host.first()) {
            (None, None) => true,
            (Some(b'*'), _) => (0..=host.len()).any(|from| rest(&alias[1..], &host[from..])),
            (Some(b'?'), Some(_)) => rest(&alias[1..], &host[1..]),
            (Some(one), Some(other)) => one.eq_ignore_ascii_case(other) && rest(&alias[1..], &host[1..]),
            _ => false,
        }
    }
    // A pattern with many stars would take long, and no name has them.
    if alias.matches('*').count() > 4 {
        alias.eq_ignore_ascii_case(host)
    } else {
        rest(alias.as_bytes(), host.as_bytes())
    }
}

fn is_off(directives: &[Directive]) -> bool {
    let engine = directives.iter().rfind(|one| one.is("SSLEngine"));
    engine.is_some_and(|engine| engine.arguments.eq_ignore_ascii_case("off"))
}

/// The site of these directives. Formats and logs are inherited as Apache does: a host with logs of its own has only
/// those.
fn site(
    directives: &[Directive],
    main: Option<&Site>,
    formats: &mut BTreeMap<String, String>,
    lines: &[&Directive],
) -> Site {
    let mut site = Site {
        name: main.map(|main| main.name.clone()).unwrap_or_default(),
        aliases: Vec::new(),
        endpoints: Vec::new(),
        is_encrypted: main.is_some_and(|main| main.is_encrypted),
        documents: main.and_then(|main| main.documents.clone()),
        logs: Vec::new(),
        origin: None,
    };
    let mut transfer_format = None;
    for directive in directives {
        let words = directive.words();
        let first = || words.first().cloned().unwrap_or_default();
        match directive.name.to_ascii_lowercase().as_str() {
            "servername" => site.name = bare(&first()).to_owned(),
            "serveralias" => site.aliases.extend(words.clone()),
            "documentroot" => site.documents = Some(first().into()),
            "sslengine" => site.is_encrypted = !first().eq_ignore_ascii_case("off"),
            "logformat" => match words.get(1) {
                Some(nickname) => drop(formats.insert(nickname.clone(), first())),
                None => transfer_format = Some(first()),
            },
            "customlog" | "transferlog" | "globallog" => {
                let format = words.get(1).filter(|_| !directive.is("TransferLog")).cloned();
                let format = format.or_else(|| transfer_format.clone()).unwrap_or_else(|| COMMON.to_owned());
                let number = lines.iter().position(|line| std::ptr::eq(*line, directive)).unwrap_or(lines.len());
                site.logs.push(AccessLog { to: first(), format, origin: directive.origin.clone(), number });
            }
            _ => {}
        }
    }
    for log in &mut site.logs {
        if let Some(format) = formats.get(&log.format) {
            log.format.clone_from(format);
        }
    }
    site
}

/// The name in `https://name:443`.
fn bare(name: &str) -> &str {
    let name = name.split_once("://").map_or(name, |(_, name)| name);
    name.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(name, |(name, _)| name)
}

impl Site {
    /// Whether this is its name, or one of its aliases.
    fn is_named(&self, host: &str) -> bool {
        self.name.eq_ignore_ascii_case(host) || self.aliases.iter().any(|alias| matches(alias, host))
    }

    /// The endpoint at which requests are sent: that of TLS if it has one.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        let secure = self.endpoints.iter().find(|endpoint| endpoint.port == HTTPS && self.is_encrypted);
        secure.or_else(|| self.endpoints.first()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_have_wildcards() {
        for (alias, host, expected) in [
            ("*.example.org", "www.Example.org", true),
            ("*.example.org", "example.org", false),
            ("w?w.x", "wow.x", true),
            ("*", "", true),
            ("*a*b*c*d*e*", "abcde", false),
        ] {
            assert_eq!(matches(alias, host), expected, "{alias} {host}");
        }
    }

    #[test]
    fn names_are_bare() {
        assert_eq!(["https://a.b:443", "a.b", "a.b:80"].map(bare), ["a.b"; 3]);
    }
}
