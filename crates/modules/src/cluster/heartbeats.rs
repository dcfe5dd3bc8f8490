//! How busy other servers are: what they announce, and where all processes of this one find it.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use conf::{Cmd, Outcome, Setting, settings};
use server::Server;
use sys::shm::Shared;
use sys::time::Instant;

settings! {
    /// Where heartbeats come from, and where they are kept.
    pub struct HeartbeatServer {
        pub(super) address: Setting<std::net::SocketAddr>,
        pub(super) listen: Setting<std::net::SocketAddr>,
        /// 0: in the file.
        pub(super) servers: Setting<usize> = SERVERS,
        pub(super) storage: Setting<String>,
    }
}

/// The number of servers that are kept track of where no line says so.
const SERVERS: usize = 10;
/// The most servers, whatever is configured.
pub(super) const SERVERS_MAX: usize = 1024;
/// How long a server that says nothing more is remembered, as in Apache.
const FORGET: Duration = Duration::from_secs(30);
/// The file, below the directory for such files.
const STORAGE: &str = "logs/hb.dat";

/// `HeartbeatStorage`, which two modules have.
pub(crate) fn set_storage(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    cmd.server_set(|s: &mut HeartbeatServer| &mut s.storage, path.to_string())
}

/// The path of the file.
pub(crate) fn storage(server: &Server) -> String {
    let conf = server.main().settings.get::<HeartbeatServer>();
    conf::paths::join(&server.language.runtime_dir(), conf.storage.get().map_or(STORAGE, |path| path))
}

/// Whether this server listens for heartbeats.
pub(crate) fn listens(server: &Server) -> bool {
    server.main().settings.get::<HeartbeatServer>().listen.is_set()
}

/// What a server says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    pub(crate) ip: IpAddr,
    pub(crate) port: u16,
    /// Its workers that wait for something to do, and the others.
    pub(crate) ready: u32,
    pub(crate) busy: u32,
    /// How long ago it said so.
    pub(crate) age: Duration,
}

/// The value of a name in `a=b&c=d`.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.split('&').filter_map(|pair| pair.split_once('=')).find(|(have, _)| *have == name).map(|(_, value)| value)
}

impl Heartbeat {
    /// Reads an announcement, `v=1&ready=75&busy=0`, which has come from this address.
    pub(super) fn parse(text: &str, ip: IpAddr) -> Option<Heartbeat> {
        value(text, "v")?;
        let number = |name: &str| value(text, name)?.trim().parse().ok();
        let port = value(text, "port").and_then(|port| port.parse().ok()).unwrap_or(80);
        Some(Heartbeat { ip, port, ready: number("ready")?, busy: number("busy")?, age: Duration::ZERO })
    }

    /// Reads a line of the file, `192.0.2.1 &ready=75&busy=0&lastseen=1&port=80`.
    pub(crate) fn of_line(line: &str) -> Option<Heartbeat> {
        let (ip, rest) = line.split_once(' ')?;
        let seconds = value(rest, "lastseen")?.trim().parse().ok()?;
        let heartbeat = Heartbeat::parse(&format!("v=1{}", rest.trim()), ip.parse().ok()?)?;
        Some(Heartbeat { age: Duration::from_secs(seconds), ..heartbeat })
    }

    /// Its line of the file.
    pub(super) fn line(&self) -> String {
        let Heartbeat { ip, port, ready, busy, age } = self;
        format!("{ip} &ready={ready}&busy={busy}&lastseen={}&port={port}\n", age.as_secs())
    }
}

/// A server: two words for its address, one for its workers, one for its port, and the last moment, which is 0 while the row is free.
type Row = [AtomicU64; 5];

/// What the servers have said last. Only a helper process writes it.
static TABLE: OnceLock<Shared<Row>> = OnceLock::new();

/// Makes the table, in the parent. `Err`: there is no memory.
pub(crate) fn share() -> Result<(), String> {
    if TABLE.get().is_none() {
        let table = Shared::new(SERVERS_MAX)
            .map_err(|error| format!("{}: no shared memory for heartbeats", sys::describe(&error)))?;
        // The parent has one thread.
        let _ = TABLE.set(table);
    }
    Ok(())
}

fn rows() -> &'static [Row] {
    TABLE.get().map_or(&[], |table| table)
}

/// An address as two words.
fn words(ip: IpAddr) -> [u64; 2] {
    let bits = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

fn heartbeat(row: &Row, now: Instant) -> Option<Heartbeat> {
    let seen = row[4].load(Acquire);
    let age = Duration::from_nanos(now.nanoseconds().saturating_sub(seen));
    if seen == 0 || age > FORGET {
        return None;
    }
    let [high, low, workers, port] = [0, 1, 2, 3].map(|index: usize| row[index].load(Relaxed));
    let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).to_canonical();
    Some(Heartbeat { ip, port: port as u16, ready: (workers >> 32) as u32, busy: workers as u32, age })
}

/// The servers that are known.
pub(crate) fn all() -> impl Iterator<Item = Heartbeat> {
    let now = Instant::now();
    rows().iter().filter_map(move |row| heartbeat(row, now))
}

/// Notes what a server says, if it is one of the first `most`. As in Apache, what counts is its address, and the first port that it names
/// stays. Returns whether there was room.
pub(crate) fn note(heartbeat_of: Heartbeat, most: usize) -> bool {
    let Heartbeat { ip, port, ready, busy, age } = heartbeat_of;
    let (now, ip_words) = (Instant::now(), words(ip));
    let rows = &rows()[..most.min(rows().len())];
    let is_of = |row: &&Row| [0, 1].map(|index: usize| row[index].load(Relaxed)) == ip_words;
    let known = rows.iter().filter(|row| heartbeat(row, now).is_some()).find(is_of);
    let Some(row) = known.or_else(|| rows.iter().find(|row| heartbeat(row, now).is_none())) else { return false };
    if known.is_none() {
        row[4].store(0, Release);
        row[0].store(ip_words[0], Relaxed);
        row[1].store(ip_words[1], Relaxed);
        row[3].store(u64::from(port), Relaxed);
    }
    row[2].store(u64::from(ready) << 32 | u64::from(busy), Relaxed);
    let seen = now.checked_sub(age).unwrap_or(now).nanoseconds();
    row[4].store(seen.max(1), Release);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_and_lines() {
        let ip: IpAddr = "192.0.2.1".parse().expect("an address");
        let want = Heartbeat { ip, port: 80, ready: 75, busy: 3, age: Duration::ZERO };
        assert_eq!(Heartbeat::parse("v=1&ready=75&busy=3", ip), Some(want));
        assert_eq!(Heartbeat::parse("busy=3&v=2&port=8080&ready=75", ip), Some(Heartbeat { port: 8080, ..want }));
        for bad in ["", "v=1&ready=75", "ready=75&busy=3", "v=1&ready=x&busy=3", "v=1&ready=-1&busy=3"] {
            assert_eq!(Heartbeat::parse(bad, ip), None, "{bad}");
        }
        let line = Heartbeat { age: Duration::from_secs(4), ..want }.line();
        assert_eq!(line, "192.0.2.1 &ready=75&busy=3&lastseen=4&port=80\n");
        assert_eq!(Heartbeat::of_line(&line).map(|one| (one.age.as_secs(), one.ready)), Some((4, 75)));
        assert_eq!(Heartbeat::of_line("192.0.2.1 &ready=75"), None);
    }

    #[test]
    fn what_is_noted_is_found() {
        share().expect("memory");
        let one = |text: &str, ready| Heartbeat {
            ip: text.parse().expect("an address"),
            port: 1,
            ready,
            busy: 2,
            age: Duration::ZERO,
        };
        assert!(note(one("192.0.2.1", 3), 2) && note(one("2001:db8::1", 4), 2) && !note(one("192.0.2.2", 5), 2));
        assert!(note(one("192.0.2.1", 6), 2), "it is known");
        let found: Vec<_> = all().map(|one| (one.ip.to_string(), one.port, one.ready, one.busy)).collect();
        assert_eq!(found, [("192.0.2.1".to_string(), 1, 6, 2), ("2001:db8::1".to_string(), 1, 4, 2)]);
        let old = Heartbeat { age: FORGET + Duration::from_secs(1), ..one("192.0.2.1", 7) };
        assert!(note(old, 2) && note(one("192.0.2.2", 5), 2), "the one that is silent makes room");
        assert_eq!(all().map(|one| one.ready).collect::<Vec<_>>(), [5, 4]);
    }
}
