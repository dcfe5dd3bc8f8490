//! Who listens at an address of this machine, and what processor time that takes.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use crate::procfs;

/// The state of a socket that listens, in /proc/net/tcp.
const LISTENS: &str = "0A";

/// A server on this machine: the processes that share its listening socket, and their parents among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// The processes that were not started by another one of them.
    roots: Vec<u32>,
}

impl Listener {
    /// The server at an address. `None` where it is not on this machine, or its processes may not be looked at.
    pub(crate) fn at(address: SocketAddr) -> Option<Self> {
        let sockets: HashSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .flat_map(|text| listening(&text, address.port()))
            .map(|inode| format!("socket:[{inode}]"))
            .collect();
        let holders: Vec<u32> = processes().filter(|pid| holds(*pid, &sockets)).collect();
        let is_root = |pid: &u32| procfs::stat(*pid).is_some_and(|stat| !holders.contains(&stat.parent));
        let roots: Vec<u32> = holders.iter().copied().filter(is_root).collect();
        (!roots.is_empty()).then_some(Self { roots })
    }

    /// The processes that were not started by another one of them.
    pub(crate) fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// All of them, with everything that they started.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let all: HashSet<u32> = self.roots.iter().flat_map(|root| procfs::tree(*root)).collect();
        all.into_iter().collect()
    }

    /// Their processor time so far, with that of everything that they started.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.processes().into_iter().filter_map(procfs::cpu_time).sum()
    }

    /// Their proportional memory, where it may be read.
    pub(crate) fn pss_kib(&self) -> Option<u64> {
        procfs::pss_kib(&self.processes()).ok()
    }
}

/// Where processes listen: the address of their oldest socket, or this machine's own where that is any address.
pub(crate) fn address_of(pids: &[u32]) -> Option<SocketAddr> {
    let texts = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let mut found: Vec<(u64, SocketAddr)> = texts.iter().flat_map(|text| addresses(text)).collect();
    found.sort_unstable();
    let is_theirs = |inode: u64| {
        let sockets = HashSet::from([format!("socket:[{inode}]")]);
        pids.iter().any(|pid| holds(*pid, &sockets))
    };
    found.into_iter().find(|(inode, _)| is_theirs(*inode)).map(|(_, address)| address)
}

/// The sockets that listen, in the text of /proc/net/tcp: inode and address.
fn addresses(text: &str) -> Vec<(u64, SocketAddr)> {
    let lines = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    lines
        .filter(|words| words.get(3) == Some(&LISTENS))
        .filter_map(|words| Some((words.get(9)?.parse().ok()?, address(words[1])?)))
        .collect()
}

/// An address as the kernel writes it: words of four bytes in the order of the machine, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = (0..host.len()).step_by(8).map(|at| u32::from_str_radix(host.get(at..at + 8)?, 16).ok());
    let bytes: Vec<u8> = words.collect::<Option<Vec<u32>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let ip = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(four) => IpAddr::from(four),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?),
    };
    // A wildcard of version 6 accepts version 4, too.
    let ip = if ip.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { ip };
    Some(SocketAddr::new(ip, port))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn holds(pid: u32, sockets: &HashSet<String>) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .any(|target| std::str::from_utf8(target.as_os_str().as_bytes()).is_ok_and(|target| sockets.contains(target)))
}

/// The inodes of sockets that listen at a port, in the text of /proc/net/tcp.
fn listening(text: &str, port: u16) -> Vec<String> {
    let end = format!(":{port:04X}");
    let lines = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let found =
        lines.filter(|words| words.get(1).is_some_and(|local| local.ends_with(&end)) && words.get(3) == Some(&LISTENS));
    found.filter_map(|words| words.get(9).map(|inode| (*inode).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found_by_their_port() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                    0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n   \
                    1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n";
        assert_eq!(listening(text, 8080), ["4711"]);
        assert_eq!(listening(text, 80), [""; 0]);
        assert_eq!(addresses(text), [(4711, SocketAddr::from(([127, 0, 0, 1], 8080)))]);
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 80)));
        assert_eq!(["00000000:0050", "00000000000000000000000000000000:0050"].map(address), [any; 2]);
        let six = address("00000000000000000000000001000000:0050");
        assert_eq!(six, Some(SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 80))));
    }

    #[test]
    fn this_process_finds_itself() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = Listener::at(socket.local_addr().unwrap()).unwrap();
        assert_eq!(found.roots, [std::process::id()]);
        assert!(address_of(&[std::process::id()]).is_some_and(|address| address.port() > 0));
        assert!(found.pss_kib().is_some_and(|kib| kib > 0));
    }
}
