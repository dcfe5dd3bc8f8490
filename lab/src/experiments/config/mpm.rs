//! The settings of Apache's and Tsubame's multi-processing modules, for each profile: one table.

use crate::experiments::profile::Profile::{
    self, Balanced, Bare, Cached, Cgi, Cgid, Crowded, Event1Worker, Event4Children, Event4Workers, Event243,
    EventChildren, EventLarge, EventSmall, EventThreads, Fcgid, FourWorkers, Htaccess, Http2, ManyCertificates,
    ManyHosts, ManyMapped, ManyRedirects, ManyStars, ManyWorkers, OneBackend, PerlCgi, PerlFork, PerlRun, PhpFpm,
    PhpKept, Proxied, ProxiedChildren, ProxiedHttp2, ProxiedTls, ProxiedToTls, Recycling, Registry, Speedy, Steady,
    Tls, Unconfigured,
};
use crate::machine::error::{Error, Result};

/// The settings of `mpm` under `profile`.
pub(crate) fn settings(profile: Profile, mpm: &str) -> Result<String> {
    let profile = match profile {
        Htaccess | Tls | Http2 | ManyHosts | ManyStars | ManyMapped | ManyRedirects | ManyCertificates => Bare,
        ProxiedTls | ProxiedHttp2 | ProxiedToTls | Balanced => Proxied,
        other => other,
    };
    let row = TABLE.iter().find(|(of, mpms, _)| *of == profile && mpms.contains(&mpm));
    let (.., rows) = row.ok_or_else(|| Error::new(format!("the laboratory has no settings for the MPM {mpm}")))?;
    Ok(rows.iter().map(|(directive, value)| format!("{directive} {value}\n")).collect())
}

type Settings = &'static [(&'static str, u32)];

/// Bare: one process for the threaded models, because there is one core; many connections for a worker of event.
///
/// Steady and Recycling: start, spare and maximum are the same number, 50 workers, as often recommended. Recycling
/// replaces each child every second or two when 100 connections a second come, and has room for successors.
static TABLE: [(Profile, &[&str], Settings); 48] = [
    (Bare, &["percore"], &[]),
    (Bare, &["prefork"], CHILDREN_256),
    (Bare, &["worker"], THREADS_128),
    (
        Bare,
        &["event"],
        &[
            ("ServerLimit", 1),
            ("StartServers", 1),
            ("ThreadLimit", 64),
            ("ThreadsPerChild", 64),
            ("MinSpareThreads", 1),
            ("MaxSpareThreads", 65),
            ("MaxRequestWorkers", 64),
            ("MaxConnectionsPerChild", 0),
            ("AsyncRequestWorkerFactor", 400),
        ],
    ),
    (Steady, &["percore"], &[("MaxConnectionsPerChild", 0)]),
    (Recycling, &["percore"], &[("MaxConnectionsPerChild", 150)]),
    (
        Steady,
        &["prefork"],
        &[
            ("ServerLimit", 100),
            ("StartServers", 50),
            ("MinSpareServers", 50),
            ("MaxSpareServers", 50),
            ("MaxRequestWorkers", 50),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (
        Recycling,
        &["prefork"],
        &[
            ("ServerLimit", 100),
            ("StartServers", 50),
            ("MinSpareServers", 50),
            ("MaxSpareServers", 50),
            ("MaxRequestWorkers", 50),
            ("MaxConnectionsPerChild", 3),
        ],
    ),
    (
        Steady,
        &["worker", "event"],
        &[
            ("ServerLimit", 8),
            ("StartServers", 2),
            ("ThreadLimit", 25),
            ("ThreadsPerChild", 25),
            ("MinSpareThreads", 50),
            ("MaxSpareThreads", 50),
            ("MaxRequestWorkers", 50),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (
        Recycling,
        &["worker", "event"],
        &[
            ("ServerLimit", 8),
            ("StartServers", 2),
            ("ThreadLimit", 25),
            ("ThreadsPerChild", 25),
            ("MinSpareThreads", 50),
            ("MaxSpareThreads", 50),
            ("MaxRequestWorkers", 50),
            ("MaxConnectionsPerChild", 75),
        ],
    ),
    (Crowded, &["percore"], &[("SendBufferSize", 16_384)]),
    (
        Crowded,
        &["event"],
        &[
            ("ServerLimit", 1),
            ("StartServers", 1),
            ("ThreadLimit", 4),
            ("ThreadsPerChild", 4),
            ("MinSpareThreads", 1),
            ("MaxSpareThreads", 5),
            ("MaxRequestWorkers", 4),
            ("MaxConnectionsPerChild", 0),
            ("AsyncRequestWorkerFactor", 20_000),
            ("SendBufferSize", 16_384),
        ],
    ),
    (
        ManyWorkers,
        &["worker", "event"],
        &[
            ("ServerLimit", 16),
            ("StartServers", 16),
            ("ThreadLimit", 25),
            ("ThreadsPerChild", 25),
            ("MinSpareThreads", 400),
            ("MaxSpareThreads", 425),
            ("MaxRequestWorkers", 400),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (
        Event243,
        &["event"],
        &[
            ("StartServers", 3),
            ("MinSpareThreads", 75),
            ("MaxSpareThreads", 250),
            ("ThreadsPerChild", 25),
            ("MaxRequestWorkers", 400),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (
        EventSmall,
        &["event"],
        &[
            ("StartServers", 4),
            ("MinSpareThreads", 4),
            ("MaxSpareThreads", 4),
            ("ThreadsPerChild", 2),
            ("MaxRequestWorkers", 2),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (
        Event4Workers,
        &["event"],
        &[
            ("StartServers", 4),
            ("MinSpareThreads", 4),
            ("MaxSpareThreads", 4),
            ("ThreadsPerChild", 4),
            ("MaxRequestWorkers", 4),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (
        Event1Worker,
        &["event"],
        &[
            ("StartServers", 4),
            ("MinSpareThreads", 4),
            ("MaxSpareThreads", 4),
            ("ThreadsPerChild", 1),
            ("MaxRequestWorkers", 1),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (
        Event4Children,
        &["event"],
        &[
            ("StartServers", 4),
            ("MinSpareThreads", 4),
            ("MaxSpareThreads", 4),
            ("ThreadsPerChild", 1),
            ("MaxRequestWorkers", 4),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (
        EventChildren,
        &["event"],
        &[
            ("ServerLimit", 60_000),
            ("MaxRequestWorkers", 60_000),
            ("StartServers", 4),
            ("MinSpareThreads", 4),
            ("MaxSpareThreads", 4),
            ("ThreadsPerChild", 2),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (
        EventThreads,
        &["event"],
        &[
            ("ServerLimit", 60_000),
            ("MaxRequestWorkers", 60_000),
            ("ThreadLimit", 1000),
            ("StartServers", 1000),
            ("MinSpareThreads", 1000),
            ("MaxSpareThreads", 1000),
            ("ThreadsPerChild", 100),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (
        EventLarge,
        &["event"],
        &[
            ("AsyncRequestWorkerFactor", 2),
            ("ServerLimit", 32),
            ("MaxRequestWorkers", 8192),
            ("ThreadLimit", 256),
            ("StartServers", 2048),
            ("MinSpareThreads", 2048),
            ("MaxSpareThreads", 2048),
            ("ThreadsPerChild", 256),
            ("MaxConnectionsPerChild", 0),
        ],
    ),
    (Cgi, &["percore"], &[]),
    (Cgid, &["percore"], &[]),
    (Cgi, &["prefork"], CHILDREN_256),
    (Cgid, &["prefork"], CHILDREN_256),
    (Cgi, &["worker", "event"], THREADS_256),
    (Cgid, &["worker", "event"], THREADS_256),
    (PerlCgi, &["prefork"], CHILDREN_16),
    (PerlRun, &["prefork"], CHILDREN_16),
    (Registry, &["prefork"], CHILDREN_16),
    (PerlCgi, &["percore", "event"], &[]),
    (PerlRun, &["percore", "event"], &[]),
    (PerlFork, &["percore", "event"], &[]),
    (Speedy, &["percore", "event"], &[]),
    (Registry, &["percore", "event"], &[]),
    (Fcgid, &["percore", "event"], &[]),
    (PhpFpm, &["percore", "event"], &[]),
    (PhpKept, &["percore", "event"], &[]),
    (Proxied, &["percore"], &[]),
    (Proxied, &["prefork"], CHILDREN_256),
    (Proxied, &["worker", "event"], THREADS_128),
    (ProxiedChildren, &["prefork"], CHILDREN_100),
    (Cached, &["percore"], &[]),
    (Cached, &["prefork"], CHILDREN_256),
    (Cached, &["worker", "event"], THREADS_128),
    (OneBackend, &["percore", "event"], &[]),
    (FourWorkers, &["prefork"], &[("MaxRequestWorkers", 4)]),
    (Unconfigured, &["percore", "prefork", "worker", "event"], &[]),
];

const CHILDREN_16: Settings = &[
    ("ServerLimit", 16),
    ("StartServers", 16),
    ("MinSpareServers", 16),
    ("MaxSpareServers", 16),
    ("MaxRequestWorkers", 16),
    ("MaxConnectionsPerChild", 0),
];

const CHILDREN_100: Settings = &[
    ("ServerLimit", 100),
    ("StartServers", 100),
    ("MinSpareServers", 100),
    ("MaxSpareServers", 100),
    ("MaxRequestWorkers", 100),
    ("MaxConnectionsPerChild", 0),
];

const CHILDREN_256: Settings = &[
    ("ServerLimit", 256),
    ("StartServers", 256),
    ("MinSpareServers", 256),
    ("MaxSpareServers", 256),
    ("MaxRequestWorkers", 256),
    ("MaxConnectionsPerChild", 0),
];

/// The same number of workers, in one child for each of two cores.
const THREADS_256: Settings = &[
    ("ServerLimit", 2),
    ("StartServers", 2),
    ("ThreadLimit", 128),
    ("ThreadsPerChild", 128),
    ("MinSpareThreads", 1),
    ("MaxSpareThreads", 256),
    ("MaxRequestWorkers", 256),
    ("MaxConnectionsPerChild", 0),
];

/// One child, because there is one core, with more workers than clients: one that waits for an origin is occupied.
const THREADS_128: Settings = &[
    ("ServerLimit", 1),
    ("StartServers", 1),
    ("ThreadLimit", 128),
    ("ThreadsPerChild", 128),
    ("MinSpareThreads", 1),
    ("MaxSpareThreads", 129),
    ("MaxRequestWorkers", 128),
    ("MaxConnectionsPerChild", 0),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::experiment::EXPERIMENTS;
    use crate::experiments::site::PREFORK_CHILDREN;

    #[test]
    fn every_entry_has_settings() {
        let entries = EXPERIMENTS.iter().flat_map(|experiment| experiment.workloads).flat_map(|each| each.entries);
        for entry in entries.filter(|entry| entry.profile != Profile::Debian) {
            if let Some(mpm) = entry.subject.strip_prefix("tsubame-").or(entry.subject.strip_prefix("apache-")) {
                assert!(settings(entry.profile, mpm).is_ok(), "{entry:?}");
            }
        }
        assert!(settings(Profile::Bare, "winnt").is_err());
    }

    #[test]
    fn recycling_is_the_only_difference() {
        for mpm in ["percore", "prefork", "worker", "event"] {
            let (steady, recycling) = (settings(Steady, mpm).unwrap(), settings(Recycling, mpm).unwrap());
            let added: Vec<&str> = recycling.lines().filter(|line| !steady.contains(line)).collect();
            assert!(matches!(added[..], [line] if line.starts_with("MaxConnectionsPerChild ")), "{added:?}");
        }
    }

    #[test]
    fn prefork_has_the_children_that_are_awaited() {
        assert!(settings(Bare, "prefork").unwrap().contains(&format!("StartServers {PREFORK_CHILDREN}\n")));
    }
}
