//! `Listen`.

use std::net::{IpAddr, SocketAddr};

use conf::values::number;
use conf::{Cmd, Outcome};

use crate::settings::{Listen, MpmSettings, host_and_port};

pub(super) fn listen(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let (address, protocol) = match words {
        [address] => (address, None),
        [address, protocol] => (address, Some(protocol.to_ascii_lowercase())),
        _ => return Err("Listen requires 1 or 2 arguments.".into()),
    };
    let (host, port) = host_and_port(address)?;
    let addresses = match host {
        None => Vec::new(),
        Some(host) => resolve(cmd, host, port)?,
    };
    let known = cmd.server.get::<MpmSettings>();
    let is_same = |other: &Listen| other.port == port && other.addresses == addresses;
    if let Some((_, origin)) = known.listen.entries().iter().find(|(other, _)| is_same(other)) {
        // Every multi-processing module has this directive, and loading more than one is a separate error.
        let is_this_line = *origin == cmd.node.origin;
        return if is_this_line { Ok(()) } else { Err("Cannot define multiple Listeners on the same IP:port".into()) };
    }
    cmd.server_push(|s: &mut MpmSettings| &mut s.listen, Listen { addresses, port, protocol })
}

fn resolve(cmd: &mut Cmd<'_>, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    if let Some((address, scope)) = host.split_once('%') {
        let index = scope_index(scope).ok_or_else(|| "Listen setup failed".to_string())?;
        let address = address.parse().map_err(|_| "Invalid address or port".to_string())?;
        return Ok(vec![std::net::SocketAddrV6::new(address, port, 0, index).into()]);
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    match cmd.context.system.resolve(host) {
        Ok(found) if !found.is_empty() => Ok(found.into_iter().map(|address| (address, port).into()).collect()),
        Ok(_) | Err(_) => Err(format!("Listen setup failed: {host} has no address")),
    }
}

/// The number of a network interface by its name, from sysfs.
fn scope_index(scope: &str) -> Option<u32> {
    let named = || std::fs::read_to_string(format!("/sys/class/net/{scope}/ifindex")).ok();
    number(scope).or_else(|| number(named()?.trim())).and_then(|index| u32::try_from(index).ok())
}
