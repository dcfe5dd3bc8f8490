//! The surroundings for which a configuration is written: directories, addresses, limits, scripts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::experiments::installation::Installation;
use crate::experiments::profile::Profile;
use crate::machine::identity::Identity;

/// Children of every prefork server: enough for 100 connections at once, and the number whose memory is measured.
pub(crate) const PREFORK_CHILDREN: u32 = 256;

/// The number of connections that every event-driven server is configured for.
pub(crate) const CAPACITY: u32 = 12_000;

/// Long enough that no server closes an idle connection during its measurement.
pub(crate) const KEEP_ALIVE_SECONDS: u32 = 600;

/// The queue of connections not yet accepted; the kernel may cut it down (net.core.somaxconn).
pub(crate) const BACKLOG: u32 = 4095;

/// The environment for which a configuration is written.
#[derive(Debug)]
pub(crate) struct Site {
    /// The server's own directory: configuration, logs, PID file.
    pub(crate) directory: PathBuf,
    /// The documents, the same for everyone.
    pub(crate) documents: PathBuf,
    /// The addresses to listen on: one, or more if its ports do not suffice for all connections.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The configuration.
    pub(crate) profile: Profile,
    /// Whether the floor, which cannot read requests, has to close after each one.
    pub(crate) close: bool,
    /// The requested script, in a directory with the others; `None` if no scripts are run.
    pub(crate) script: Option<PathBuf>,
    /// The memory limit for server and scripts in bytes; `None`: that of the machine.
    pub(crate) memory: Option<u64>,
    /// The limit on open files of a process.
    pub(crate) descriptors: u64,
    /// The user that a server started by root changes to.
    pub(crate) account: Option<Account>,
    /// The server's certificate and key, if it speaks TLS.
    pub(crate) identity: Option<Identity>,
    /// The servers to which it passes requests on over TCP, which are not part of it. Without any, one behind a Unix
    /// socket belongs to it, if its configuration passes requests on.
    pub(crate) origins: Option<Origins>,
    /// Hosts, lines or certificates by the thousand, if that is what is measured.
    pub(crate) many: Option<Many>,
    /// Apache's configuration and modules, if it is installed.
    pub(crate) apache: Option<Installation>,
}

impl Site {
    /// The first address, which is the only one for most workloads.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// The directory of the scripts.
    pub(crate) fn scripts(&self) -> Option<&Path> {
        self.script.as_deref().and_then(Path::parent)
    }
}

/// The servers behind a proxy.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    /// Where they listen.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Their certificate and key, if they speak TLS.
    pub(crate) identity: Option<Identity>,
}

/// Hosts, lines or certificates by the thousand.
#[derive(Debug)]
pub(crate) struct Many {
    /// How many.
    pub(crate) count: u32,
    /// The certificate of each host, if they have some.
    pub(crate) identities: Vec<Identity>,
}

/// An unprivileged user and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// The user's name.
    pub(crate) user: &'static str,
    /// The group's name.
    pub(crate) group: &'static str,
    /// The user's number.
    pub(crate) uid: u32,
    /// The group's number.
    pub(crate) gid: u32,
}

impl Account {
    /// Debian's account for web servers, otherwise the one that owns nothing; `None` if we are not root.
    pub(crate) fn choose() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        Self::among(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
    }

    fn among(users: &str) -> Option<Self> {
        [("www-data", "www-data"), ("nobody", "nogroup")].into_iter().find_map(|(user, group)| {
            let line = users.lines().find(|line| line.split(':').next() == Some(user))?;
            let mut numbers = line.split(':').skip(2).map_while(|field| field.parse().ok());
            Some(Self { user, group, uid: numbers.next()?, gid: numbers.next()? })
        })
    }
}

/// A site for the tests of configurations.
#[cfg(test)]
pub(crate) fn example_site(profile: Profile) -> Site {
    Site {
        directory: "/lab/server".into(),
        documents: "/lab/documents".into(),
        addresses: vec![SocketAddr::from(([127, 88, 0, 1], 8080))],
        profile,
        close: false,
        script: None,
        memory: None,
        descriptors: 20_000,
        account: Some(Account { user: "www-data", group: "www-data", uid: 33, gid: 33 }),
        identity: None,
        origins: None,
        many: None,
        apache: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_with_its_numbers() {
        let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/false\n";
        let expected = Account { user: "nobody", group: "nogroup", uid: 65534, gid: 65533 };
        assert_eq!(Account::among(users), Some(expected));
        assert_eq!(Account::among("root:x:0:0:root:/root:/bin/sh\n"), None);
    }
}
