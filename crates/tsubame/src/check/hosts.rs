//! Finds virtual hosts that no request reaches, duplicate names, and sections that others replace.

use std::collections::HashMap;
use std::net::IpAddr;

use mpm::settings::MpmSettings;
use server::core::HostAddress;
use server::{Server, VirtualHost, survey};

use super::report::Report;
use crate::diagnosis::names::name_at;
use server::module::finding::{Finding, Topic, Weight};

/// Reports `Listen` lines, names and sections that have no effect because of others.
pub(super) fn all(report: &mut Report, server: &Server) {
    listens(report, server);
    names(report, server);
    unheard(report, server);
    for (lost, winner) in survey::replaced_sections(server) {
        let message = format!("All of its lines are replaced by the section at {winner}.");
        let name = name_at(&server.tree, &lost).unwrap_or_else(|| "section".into());
        report.add(Finding::new(Weight::Harmless, Topic::NeverMatches, &name, message).at(&lost));
    }
}

/// Finds duplicate `Listen` lines: the second one cannot be bound.
fn listens(report: &mut Report, server: &Server) {
    let listen = &server.main().settings.get::<MpmSettings>().listen;
    let mut seen = HashMap::new();
    for (line, origin) in listen.entries() {
        if let Some(first) = seen.get(&(&line.addresses, line.port)) {
            let message = format!("The same address is at {first}; it can be bound only once.");
            report.add(Finding::new(Weight::Stops, Topic::Twice, "Listen", message).at(origin));
        } else {
            seen.insert((&line.addresses, line.port), origin);
        }
    }
}

/// Finds names that belong to an earlier host of the same address, and hosts that have no other names.
fn names(report: &mut Report, server: &Server) {
    let mut owners: HashMap<(Option<IpAddr>, Option<u16>), HashMap<String, usize>> = HashMap::new();
    for host in server.hosts[1..].iter().filter(|host| !host.addresses.is_empty()) {
        let Some(origin) = &host.origin else { continue };
        let mut reached = false;
        for HostAddress { ip, port } in &host.addresses {
            let group = owners.entry((*ip, *port)).or_default();
            // The first host of an address serves all names that no host claims.
            reached |= group.is_empty();
            for name in std::iter::once(&host.name).chain(&host.aliases) {
                let owner = *group.entry(name.to_ascii_lowercase()).or_insert(host.index);
                reached |= owner == host.index;
                if owner != host.index {
                    let first = server.hosts[owner].origin.as_ref().map(ToString::to_string).unwrap_or_default();
                    let message = format!("{name} belongs to the virtual host at {first}, which comes first.");
                    report.add(Finding::new(Weight::Harmless, Topic::Host, "ServerName", message).at(origin));
                }
            }
        }
        if !reached {
            let message = format!("No request gets here: earlier virtual hosts have all of its names ({}).", host.name);
            report.add(Finding::new(Weight::Loses, Topic::Host, "<VirtualHost>", message).at(origin));
        }
    }
}

/// Finds hosts at addresses on which nothing listens.
fn unheard(report: &mut Report, server: &Server) {
    let listen = &server.main().settings.get::<MpmSettings>().listen;
    let hears = |address: &HostAddress| {
        listen.iter().any(|line| {
            address.port.is_none_or(|port| port == line.port)
                && address.ip.is_none_or(|ip| line.addresses.iter().any(|at| at.ip().is_unspecified() || at.ip() == ip))
        })
    };
    let is_unheard = |host: &&VirtualHost| !host.addresses.iter().any(hears);
    if listen.is_empty() {
        return;
    }
    for host in server.hosts[1..].iter().filter(is_unheard) {
        let Some(origin) = &host.origin else { continue };
        let ports: Vec<String> = host.addresses.iter().filter_map(|at| Some(at.port?.to_string())).collect();
        let message = match host.addresses.is_empty() {
            true => format!("It has no address: its name could not be resolved ({}).", host.name),
            false => format!("Nothing listens on its address ({}).", host.name),
        };
        let found = Finding::new(Weight::Loses, Topic::Host, "<VirtualHost>", message).at(origin);
        report.add(found.instead(ports.first().map_or_else(String::new, |port| format!("Listen {port}"))));
    }
}
