//! The network of a fleet: a namespace for the balancer and its clients, one for each node, and cables between them.
//!
//! The machine's own network is not touched: all addresses and devices are in namespaces of the run.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::cgroup::PREFIX;
use crate::machine::error::{Error, Result};
use crate::machine::{launch, procfs};

/// Where `ip netns` keeps namespaces by name.
const NAMES: &str = "/run/netns";

/// The name of a node's only device beside its loopback.
const CABLE: &str = "eth0";

/// The namespaces of a run; dropping this removes them.
#[derive(Debug)]
pub(super) struct Network {
    nodes: Vec<Namespace>,
    _front: Namespace,
}

impl Network {
    /// Makes the namespaces, connects each node with the front, and moves the calling thread to the front. Removes those of
    /// killed runs.
    pub(super) fn make(nodes: usize) -> Result<Self> {
        clear_leftovers();
        let front = Namespace::make("front")?;
        let nodes: Vec<Namespace> =
            (1..=nodes).map(|number| Namespace::make(&format!("node{number}"))).collect::<Result<_>>()?;
        for (index, node) in nodes.iter().enumerate() {
            connect(&front, node, index)?;
        }
        launch::enter_network(&front.file())?;
        Ok(Self { nodes, _front: front })
    }

    /// The file of a node's namespace.
    pub(super) fn of_node(&self, index: usize) -> PathBuf {
        self.nodes[index].file()
    }

    /// Pulls a node's cable out, or plugs it in: packets are lost, and nobody is told.
    pub(super) fn plug(&self, index: usize, is_in: bool) -> Result<()> {
        self.nodes[index].ip(&["link", "set", CABLE, if is_in { "up" } else { "down" }])
    }
}

/// The address of a node, from those for measurements between machines (RFC 2544).
pub(super) fn address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, index as u8 + 1, 2)
}

/// The balancer's end of a node's cable.
pub(super) fn front_address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, index as u8 + 1, 1)
}

fn connect(front: &Namespace, node: &Namespace, index: usize) -> Result<()> {
    let end = format!("node{}", index + 1);
    front.ip(&["link", "add", &end, "type", "veth", "peer", "name", CABLE, "netns", &node.name])?;
    for (namespace, device, address) in [(front, end.as_str(), front_address(index)), (node, CABLE, address(index))] {
        namespace.ip(&["address", "add", &format!("{address}/24"), "dev", device])?;
        namespace.ip(&["link", "set", device, "up"])?;
    }
    Ok(())
}

/// A network namespace with a name; dropping this removes it.
#[derive(Debug)]
struct Namespace {
    name: String,
}

impl Namespace {
    fn make(role: &str) -> Result<Self> {
        let name = format!("{PREFIX}{}.{role}", std::process::id());
        ip(&["netns", "add", &name])?;
        let made = Self { name };
        made.ip(&["link", "set", "lo", "up"])?;
        Ok(made)
    }

    fn file(&self) -> PathBuf {
        Path::new(NAMES).join(&self.name)
    }

    /// Runs `ip` within it.
    fn ip(&self, arguments: &[&str]) -> Result<()> {
        ip(&[&["-n", &self.name], arguments].concat())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Devices go with it.
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    const REMEDY: &str =
        "run as root, outside of containers that may not make network namespaces (`unshare -n true` tells)";
    let missing =
        |error: std::io::Error| Error::new(format!("cannot run ip: {error}")).advise("apt-get install iproute2");
    let output = Command::new("ip").args(arguments).output().map_err(missing)?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said.trim().replace('\n', "; ");
            Err(Error::new(format!("`ip {}` failed: {why}", arguments.join(" "))).advise(REMEDY))
        }
    }
}

/// Removes the namespaces of laboratories that are gone.
fn clear_leftovers() {
    for entry in std::fs::read_dir(NAMES).into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_str().filter(|name| is_abandoned(name)) {
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// Whether a name is that of something that belonged to a laboratory that is gone.
pub(super) fn is_abandoned(name: &str) -> bool {
    let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('.').next()?.parse().ok());
    owner.is_some_and(|pid: u32| procfs::stat(pid).is_none())
}

/// Why this user cannot have a fleet.
pub(super) fn check() -> Result<()> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(Error::new("only root may make network namespaces and control groups").advise("sudo")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cable_has_a_network_of_its_own() {
        assert_eq!(address(0), Ipv4Addr::new(198, 18, 1, 2));
        assert_eq!((front_address(2), address(2)), (Ipv4Addr::new(198, 18, 3, 1), Ipv4Addr::new(198, 18, 3, 2)));
    }

    #[test]
    fn only_what_dead_laboratories_left_is_abandoned() {
        assert!(!is_abandoned(&format!("{PREFIX}{}.front", std::process::id())));
        // Numbers of processes end below four million.
        assert!(is_abandoned(&format!("{PREFIX}4000000000.front")));
        assert!(!is_abandoned("front") && !is_abandoned("tsubame-lab.x.front"));
    }
}
