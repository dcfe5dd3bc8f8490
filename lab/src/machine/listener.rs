//! The server that listens on an address of this machine, and its processor time.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use crate::machine::procfs;

/// The state of a listening socket, in /proc/net/tcp.
const LISTENS: &str = "0A";

/// A server on this machine: the processes that share its listening socket, including their parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// The processes whose parents are not among them.
    roots: Vec<u32>,
}

impl Listener {
    /// The server at an address: the one that listens on exactly this address, or else on all of them. `None` if it is
    /// not on this machine, or its processes may not be examined.
    pub(crate) fn at(address: SocketAddr) -> Option<Self> {
        let texts = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
        let all: Vec<(u64, SocketAddr)> = texts.iter().flat_map(|text| addresses(text)).collect();
        let sockets: HashSet<String> =
            listening(&all, address).into_iter().map(|inode| format!("socket:[{inode}]")).collect();
        let holders: Vec<u32> = processes().filter(|pid| holds(*pid, &sockets)).collect();
        let is_root = |pid: &u32| procfs::stat(*pid).is_some_and(|stat| !holders.contains(&stat.parent));
        let roots: Vec<u32> = holders.iter().copied().filter(is_root).collect();
        (!roots.is_empty()).then_some(Self { roots })
    }

    /// The processes whose parents are not among them.
    pub(crate) fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// All of them, with all their descendants.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let all: HashSet<u32> = self.roots.iter().flat_map(|root| procfs::tree(*root)).collect();
        all.into_iter().collect()
    }

    /// Their processor time so far, with that of all their descendants.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.processes().into_iter().filter_map(procfs::cpu_time).sum()
    }

    /// Their proportional memory, if it may be read.
    pub(crate) fn pss_kib(&self) -> Option<u64> {
        procfs::pss_kib(&self.processes()).ok()
    }
}

/// The address that processes listen on: that of their oldest socket, or this machine's own if that is a wildcard.
pub(crate) fn address_of(pids: &[u32]) -> Option<SocketAddr> {
    let texts = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let mut found: Vec<(u64, SocketAddr)> = texts.iter().flat_map(|text| addresses(text)).collect();
    found.sort_unstable();
    let is_theirs = |inode: u64| {
        let sockets = HashSet::from([format!("socket:[{inode}]")]);
        pids.iter().any(|pid| holds(*pid, &sockets))
    };
    let (_, address) = found.into_iter().find(|(inode, _)| is_theirs(*inode))?;
    // A wildcard of version 6 accepts version 4, too.
    Some(if address.ip().is_unspecified() { (Ipv4Addr::LOCALHOST, address.port()).into() } else { address })
}

/// The listening sockets, from the text of /proc/net/tcp: inode and address.
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

/// The inodes of the sockets among `all` that serve an address: its own, or the wildcards if there are none.
fn listening(all: &[(u64, SocketAddr)], address: SocketAddr) -> Vec<u64> {
    let ip = address.ip().to_canonical();
    let of = |is_it: &dyn Fn(IpAddr) -> bool| -> Vec<u64> {
        let found = all.iter().filter(|(_, own)| own.port() == address.port() && is_it(own.ip()));
        found.map(|(inode, _)| *inode).collect()
    };
    let own = of(&|own| own.to_canonical() == ip);
    // A wildcard of version 6 accepts version 4, too; a connection to a wildcard ends up at this machine's own address.
    let is_open = |own: IpAddr| own.is_unspecified() && (own.is_ipv6() || ip.is_ipv4());
    match own.is_empty() {
        true => of(&|own| is_open(own) || (ip.is_unspecified() && own.is_loopback())),
        false => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                    0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n   \
                    1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n";
        assert_eq!(addresses(text), [(4711, SocketAddr::from(([127, 0, 0, 1], 8080)))]);
        assert_eq!(address("00000000:0050"), Some(SocketAddr::from(([0; 4], 80))));
        let six = address("00000000000000000000000001000000:0050");
        assert_eq!(six, Some(SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 80))));
    }

    #[test]
    fn two_servers_at_one_port_are_told_from_each_other() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let all = [(1, at("127.0.0.1:80")), (2, at("127.0.0.2:80")), (3, at("0.0.0.0:81")), (4, at("[::]:82"))];
        let found = |text: &str| listening(&all, at(text));
        assert_eq!((found("127.0.0.1:80"), found("127.0.0.2:80"), found("127.0.0.3:80")), (vec![1], vec![2], vec![]));
        assert_eq!((found("127.0.0.3:81"), found("[::1]:81")), (vec![3], vec![]));
        assert_eq!((found("127.0.0.3:82"), found("[::1]:82")), (vec![4], vec![4]));
        assert_eq!(found("0.0.0.0:80"), [1, 2]);
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
