//! Finds the process that holds a busy port with proc(5), which shows other users' processes only to root.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;

use crate::diagnosis::explanation::note;

/// The number of ports to try after a busy one.
const PORTS_MAX: u16 = 20;

/// Notes about a busy port: the process that holds it and, if the port was only our default, a free one.
pub(crate) fn notes(address: SocketAddr, may_choose: bool) -> Vec<String> {
    let port = address.port();
    let holder = holder(address).map(|holder| note(&format!("port {port} is held by {holder}")));
    let free = (1..=PORTS_MAX).filter_map(|step| port.checked_add(step));
    let free = || free.into_iter().find(|port| TcpListener::bind((address.ip(), *port)).is_ok());
    let other = may_choose.then(free).flatten().map(|port| note(&format!("help: try --port {port}")));
    holder.into_iter().chain(other).collect()
}

/// The process that listens on an address, or at least its user.
fn holder(address: SocketAddr) -> Option<String> {
    let lines = ["/proc/net/tcp", "/proc/net/tcp6"].map(|file| fs::read_to_string(file).unwrap_or_default());
    let Socket { inode, user } =
        lines.iter().flat_map(|text| text.lines()).find_map(|line| listening(line, address))?;
    if let Some((pid, program)) = owner(inode) {
        return Some(format!("{program} (pid {pid})"));
    }
    let user = sys::cred::user_by_id(user).ok().flatten().map_or_else(|| user.to_string(), |user| user.name);
    Some(format!("a process of user {user}"))
}

struct Socket {
    inode: u64,
    user: u32,
}

/// The socket in a line of proc(5), if it prevents listening on `address`.
fn listening(line: &str, address: SocketAddr) -> Option<Socket> {
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, LISTENS, _, _, _, user, _, inode, ..] = fields[..] else { return None };
    let (ip, port) = local.split_once(':')?;
    let is_any = |ip: &str| ip.bytes().all(|digit| digit == b'0');
    let is_same = ip.ends_with(&written(address.ip())) || is_any(ip) || address.ip().is_unspecified();
    let found = is_same && u16::from_str_radix(port, 16) == Ok(address.port());
    found.then_some(Socket { inode: inode.parse().ok()?, user: user.parse().ok()? })
}

/// An address in the format of proc(5): words in native byte order.
fn written(ip: IpAddr) -> String {
    let bytes = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    bytes.as_chunks().0.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect()
}

/// The user and description of the first process that has a socket open.
fn owner(inode: u64) -> Option<(u32, String)> {
    let wanted = format!("socket:[{inode}]");
    let has_it = |process: &Path| {
        let mut files = fs::read_dir(process.join("fd")).ok()?.flatten();
        files.any(|file| fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == wanted.as_str())).then_some(())
    };
    let mut pids: Vec<u32> =
        fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // Prefers a server to its children, whose pids are mostly higher.
    pids.sort_unstable();
    pids.into_iter().find_map(|pid| {
        let process = Path::new("/proc").join(pid.to_string());
        has_it(&process)?;
        Some((pid, fs::read_to_string(process.join("comm")).ok()?.trim_end().to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_busy_has_a_holder() {
        for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let address = listener.local_addr().expect("an address");
            let found = holder(address).expect("a holder");
            assert!(found.ends_with(&format!(" (pid {})", std::process::id())), "{address}: {found}");
            drop(listener);
            assert_eq!(holder(address), None);
        }
    }
}
