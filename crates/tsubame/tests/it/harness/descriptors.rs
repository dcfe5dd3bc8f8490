//! The open descriptors of a process, as /proc tells.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use sys::process::Pid;

use crate::harness::object_servers;

/// The open descriptors of a process: the targets of the links below /proc/PID/fd.
pub fn of(pid: Pid) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .collect()
}

/// The clients whose connections a process holds: their ends, over IPv4.
pub fn clients_of(pid: Pid) -> BTreeSet<SocketAddr> {
    let open = of(pid);
    let sockets: BTreeSet<&str> = open.iter().filter_map(|target| inode(target)).collect();
    let held = tcp("tcp").into_iter().filter(|row| sockets.contains(&row.inode[..]));
    // A listening socket has the port 0 at its other end.
    held.filter_map(|row| address(&row.remote)).filter(|client| client.port() != 0).collect()
}

/// The one of these processes that holds the connection of a client, over IPv4.
pub fn holder_of(client: SocketAddr, processes: impl IntoIterator<Item = i32>) -> Option<i32> {
    let row = tcp("tcp").into_iter().find(|row| row.inode != "0" && address(&row.remote) == Some(client))?;
    let holds = |process: &i32| {
        Pid::new(*process).is_some_and(|pid| of(pid).iter().any(|target| inode(target) == Some(&row.inode)))
    };
    processes.into_iter().find(holds)
}

/// A socket, from the kernel's table (proc_pid_net(5)): its other end, in hexadecimal, and its number.
struct Socket {
    remote: String,
    inode: String,
}

/// The sockets of all processes, from `/proc/net/tcp` or `tcp6`. The connections that have ended and wait for the last segments, of which
/// load leaves thousands, are left out before the rest of their rows is read.
fn tcp(table: &str) -> Vec<Socket> {
    let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
    // `NUMBER: LOCAL REMOTE STATE ... INODE ...`
    let socket = |row: &str| {
        let mut words = row.split_ascii_whitespace().skip(2);
        let (remote, state) = (words.next()?, words.next()?);
        (state != TIME_WAIT).then(|| Some(Socket { remote: remote.into(), inode: words.nth(5)?.into() }))?
    };
    text.lines().skip(1).filter_map(socket).collect()
}

/// The state of a connection that has ended, as the kernel's table has it.
const TIME_WAIT: &str = "06";

/// `0100007F:1F90`: an address as the processor has it, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let ip = Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?.to_ne_bytes());
    Some((ip, u16::from_str_radix(port, 16).ok()?).into())
}

/// Descriptors that idle children should not have open: connections, directories, pipes of scripts. They may keep files
/// that they served lately, connections to databases, and what connects the process manager with a running backend.
pub fn leaks(parent: Pid, children: impl IntoIterator<Item = i32>) -> Vec<String> {
    let inherited = of(parent);
    let children = children.into_iter().filter_map(Pid::new);
    let open = children.flat_map(|child| {
        let backends = crate::harness::server::children(child).into_iter().filter_map(Pid::new);
        let shared: BTreeSet<_> = backends.flat_map(of).collect();
        of(child).into_iter().filter(move |target| !shared.contains(target)).map(move |target| (child, target))
    });
    let mut leaks: Vec<_> = open.filter(|(_, target)| !inherited.contains(target) && is_suspect(target)).collect();
    leaks.retain(|(child, target)| !is_of_a_backend(*child, target));
    if leaks.iter().any(|(_, target)| inode(target).is_some()) {
        // Long where many connections have ended lately: read once for all.
        let connections = connections();
        leaks.retain(|(_, target)| inode(target).is_none_or(|inode| connections.contains(inode)));
    }
    leaks.into_iter().map(|(child, target)| format!("child {child}: {target}")).collect()
}

/// Whether this is the standard error of a backend that lives, in the process that manages it.
fn is_of_a_backend(child: Pid, target: &str) -> bool {
    let title = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
    title.contains(": backend daemon")
        && crate::harness::server::children(child)
            .into_iter()
            .filter_map(Pid::new)
            .any(|backend| of(backend).iter().any(|one| one == target))
}

/// A child's reactor lives on anonymous inodes and a socket pair; it has no other sockets of its own when it is idle.
fn is_suspect(target: &str) -> bool {
    let kept = std::fs::metadata(target).is_ok_and(|meta| meta.is_file()) || target.ends_with(" (deleted)");
    !kept && !target.starts_with("anon_inode:") && !target.starts_with("/dev/")
}

/// Of a socket, its number.
fn inode(target: &str) -> Option<&str> {
    target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'))
}

/// The sockets of all TCP connections, except those to databases and servers of objects, and to servers behind a proxy.
fn connections() -> BTreeSet<String> {
    let objects = [object_servers::REDIS_PORT, object_servers::REDIS_TLS_PORT, object_servers::MEMCACHED_PORT];
    let kept = [crate::harness::postgres::PORT, crate::proxy::origin::PORT].into_iter().chain(objects);
    let kept: Vec<_> = kept.chain(crate::proxy::secure_origin::PORTS).map(|port| format!(":{port:04X}")).collect();
    let is_kept = |socket: &Socket| kept.iter().any(|port| socket.remote.ends_with(port));
    let others = ["tcp", "tcp6"].into_iter().flat_map(tcp).filter(|socket| !is_kept(socket));
    others.map(|socket| socket.inode).collect()
}
