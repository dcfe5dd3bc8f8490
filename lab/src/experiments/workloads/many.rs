//! The workloads of `run many-hosts`: hosts, lines and certificates by the thousand.

use crate::experiments::profile::{Entry, Profile, under};
use crate::experiments::workload::{LoadShape, Protocol, Requested, SMALL, Workload};

/// The number of clients.
pub(crate) const CLIENTS: u32 = 16;

/// The most different requests: more would take the generator longer to read than they are sent.
const REQUESTS_MAX: u32 = 100_000;

/// The workloads, in the order in which they are run and reported.
pub(crate) static WORKLOADS: [Workload; 7] = [
    Workload {
        id: "hosts-first",
        title: "31-byte file from the first of many virtual hosts, 16 keep-alive connections",
        shape: LoadShape::Many { sizes: HOSTS, noun: "hosts", requested: Requested::First, protocol: Protocol::Clear },
        entries: &[hosts("tsubame-percore"), hosts("nginx"), hosts("apache-event")],
        peers: &[hosts("nginx")],
    },
    Workload {
        id: "hosts-all",
        title: "31-byte file from all of many virtual hosts, 16 keep-alive connections",
        shape: LoadShape::Many { sizes: HOSTS, noun: "hosts", requested: Requested::All, protocol: Protocol::Clear },
        entries: &[hosts("tsubame-percore"), hosts("nginx"), hosts("apache-event")],
        peers: &[hosts("nginx")],
    },
    Workload {
        id: "stars-first",
        title: "the same from the first of hosts that have a name like *.example.com, which is the one that is asked for",
        shape: LoadShape::Many { sizes: HOSTS, noun: "hosts", requested: Requested::First, protocol: Protocol::Clear },
        entries: &[stars("tsubame-percore"), stars("nginx"), stars("apache-event")],
        peers: &[stars("nginx")],
    },
    Workload {
        id: "stars-all",
        title: "the same from all of these hosts",
        shape: LoadShape::Many { sizes: HOSTS, noun: "hosts", requested: Requested::All, protocol: Protocol::Clear },
        entries: &[stars("tsubame-percore"), stars("nginx"), stars("apache-event")],
        peers: &[stars("nginx")],
    },
    Workload {
        id: "maps",
        title: "31-byte file by RewriteRule and a RewriteMap in a text file, all keys, 16 keep-alive connections",
        shape: LoadShape::Many { sizes: MAPS, noun: "lines", requested: Requested::All, protocol: Protocol::Clear },
        entries: &[maps("tsubame-percore"), maps("nginx"), maps("apache-event")],
        peers: &[maps("nginx")],
    },
    Workload {
        id: "redirects",
        title: "301 by Redirect lines, all of them, 16 keep-alive connections",
        shape: LoadShape::Many {
            sizes: &[10, 10_000],
            noun: "lines",
            requested: Requested::All,
            protocol: Protocol::Clear,
        },
        entries: &[redirects("tsubame-percore"), redirects("nginx"), redirects("apache-event")],
        peers: &[redirects("nginx")],
    },
    Workload {
        id: "certificates",
        title: "31-byte file over TLS from the first of many hosts with certificates, a full handshake for each request",
        shape: LoadShape::Many {
            sizes: &[10, 1000],
            noun: "certificates",
            requested: Requested::First,
            protocol: Protocol::Tls,
        },
        entries: &[certificates("tsubame-percore"), certificates("nginx"), certificates("apache-event")],
        peers: &[certificates("nginx")],
    },
];

const HOSTS: &[u32] = &[1000, 10_000, 50_000];
const MAPS: &[u32] = &[1000, 100_000, 1_000_000];

const fn hosts(subject: &'static str) -> Entry {
    under(Profile::ManyHosts, subject)
}

const fn stars(subject: &'static str) -> Entry {
    under(Profile::ManyStars, subject)
}

const fn maps(subject: &'static str) -> Entry {
    under(Profile::ManyMapped, subject)
}

const fn redirects(subject: &'static str) -> Entry {
    under(Profile::ManyRedirects, subject)
}

const fn certificates(subject: &'static str) -> Entry {
    under(Profile::ManyCertificates, subject)
}

/// The request for the thing of that number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The host, without port.
    pub(crate) host: String,
    /// The path, without the leading slash.
    pub(crate) name: String,
    /// The status of its response.
    pub(crate) status: u16,
}

impl Request {
    /// The thing of that number, from 0.
    pub(crate) fn of(profile: Profile, number: u32) -> Request {
        let (host, name, status) = match profile {
            Profile::ManyStars => (format!("any.{}", host(number)), SMALL.name.to_owned(), 200),
            Profile::ManyMapped => ("localhost".to_owned(), format!("map/{}", key(number)), 200),
            Profile::ManyRedirects => ("localhost".to_owned(), format!("old/{}", key(number)), 301),
            _ => (host(number), SMALL.name.to_owned(), 200),
        };
        Request { host, name, status }
    }

    /// Some of `count` things, all if that is possible, in an order that is mixed and always the same.
    pub(crate) fn mixed(profile: Profile, count: u32) -> impl Iterator<Item = Request> {
        // A prime that divides no size leads to each number once.
        const STEP: u64 = 7919;
        let nth = move |index: u32| u64::from(index) * STEP % u64::from(count);
        (0..count.min(REQUESTS_MAX)).map(move |index| Request::of(profile, nth(index) as u32))
    }
}

/// The name of a host.
pub(crate) fn host(number: u32) -> String {
    format!("h{number}.test")
}

/// The key of a line.
pub(crate) fn key(number: u32) -> String {
    format!("key{number}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_thing_is_asked_for_once() {
        for workload in &WORKLOADS {
            for size in workload.connections() {
                let names: HashSet<(String, String)> = Request::mixed(workload.entries[0].profile, *size)
                    .map(|request| (request.host, request.name))
                    .collect();
                assert_eq!(names.len() as u32, (*size).min(REQUESTS_MAX), "{}", workload.id);
            }
        }
        let first: Vec<String> = Request::mixed(Profile::ManyStars, 1000).take(2).map(|request| request.host).collect();
        assert_eq!(first, ["any.h0.test", "any.h919.test"]);
    }
}
