//! The workloads of `run proxies`: requests that a server passes on, stores, and spreads over servers that fail.

use crate::experiments::profile::Profile::{
    Balanced, Cached, Proxied, ProxiedChildren, ProxiedHttp2, ProxiedTls, ProxiedToTls,
};
use crate::experiments::profile::{Entry, Profile, bare, under};
use crate::experiments::workload::{Fault, Faults, LARGE, LoadShape, Protocol, Reuse, SMALL, Workload};

/// The workloads, in the order in which they are run and reported.
pub(crate) static WORKLOADS: [Workload; 9] = [
    Workload {
        id: "proxy-small",
        title: "31 bytes from an origin, 100 keep-alive connections",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: false, protocol: Protocol::Clear },
        entries: &everyone(Proxied),
        peers: &others(Proxied),
    },
    Workload {
        id: "proxy-1m",
        title: "1 MB from an origin, 32 keep-alive connections",
        shape: LoadShape::Load { document: &LARGE, connections: &[32], close: false, protocol: Protocol::Clear },
        entries: &everyone(Proxied),
        peers: &others(Proxied),
    },
    Workload {
        id: "proxy-tls",
        title: "31 bytes from an origin, 100 keep-alive connections over TLS",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: false, protocol: Protocol::Tls },
        entries: &everyone(ProxiedTls),
        peers: &others(ProxiedTls),
    },
    Workload {
        id: "proxy-to-tls",
        title: "31 bytes from an origin over TLS, 100 keep-alive connections in the clear",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: false, protocol: Protocol::Clear },
        entries: &everyone(ProxiedToTls),
        peers: &others(ProxiedToTls),
    },
    Workload {
        id: "proxy-http2",
        title: "31 bytes from an origin, over HTTP/2: 10 connections of 10 streams each",
        shape: LoadShape::Load {
            document: &SMALL,
            connections: &[10],
            close: false,
            protocol: Protocol::Http2 { streams: 10 },
        },
        entries: &everyone(ProxiedHttp2),
        peers: &others(ProxiedHttp2),
    },
    Workload {
        id: "proxy-stored",
        title: "31 bytes from the store, beside the same file of our own, 100 keep-alive connections",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: false, protocol: Protocol::Clear },
        entries: &[
            bare("floor"),
            bare("tsubame-percore"),
            under(Cached, "tsubame-percore"),
            under(Cached, "tsubame-event"),
            under(Cached, "tsubame-prefork"),
            under(Cached, "nginx"),
            under(Cached, "varnish"),
            under(Cached, "apache-event"),
        ],
        peers: STORES,
    },
    Workload {
        id: "proxy-reuse",
        title: "10 000 requests to 100 children, 10 on each of 8 connections at a time, and the connections to the origin",
        // Fewer clients than a tenth of the children: each needs a connection at most, and each child of Apache has one.
        shape: LoadShape::Reuse(Reuse { children: 100, clients: 8, per_connection: 10, requests: 10_000 }),
        entries: &[under(ProxiedChildren, "tsubame-prefork"), under(ProxiedChildren, "apache-prefork")],
        peers: &[under(ProxiedChildren, "apache-prefork")],
    },
    Workload {
        id: "proxy-killed",
        title: "1 000 requests per second for three origins, one of which is killed each second and started again",
        shape: faults(Fault::Killed),
        entries: BALANCERS,
        peers: &[],
    },
    Workload {
        id: "proxy-halted",
        title: "1 000 requests per second for three origins, one of which stands still for half of each second",
        shape: faults(Fault::Halted),
        entries: BALANCERS,
        peers: &[],
    },
];

/// Servers that only store: the meaning of "× peer" for hits.
const STORES: &[Entry] = &[under(Cached, "nginx"), under(Cached, "varnish"), under(Cached, "apache-event")];

/// Servers that spread requests over several origins; h2o does not.
const BALANCERS: &[Entry] = &[
    under(Balanced, "tsubame-percore"),
    under(Balanced, "tsubame-event"),
    under(Balanced, "tsubame-prefork"),
    under(Balanced, "nginx"),
    under(Balanced, "haproxy"),
    under(Balanced, "caddy"),
    under(Balanced, "apache-event"),
];

/// All that pass requests on to one origin.
const fn everyone(profile: Profile) -> [Entry; 8] {
    let [nginx, haproxy, h2o, caddy, apache] = others(profile);
    [
        under(profile, "tsubame-percore"),
        under(profile, "tsubame-event"),
        under(profile, "tsubame-prefork"),
        nginx,
        haproxy,
        h2o,
        caddy,
        apache,
    ]
}

/// The others: Tsubame is compared with the best of them.
pub(crate) const fn others(profile: Profile) -> [Entry; 5] {
    [
        under(profile, "nginx"),
        under(profile, "haproxy"),
        under(profile, "h2o"),
        under(profile, "caddy"),
        under(profile, "apache-event"),
    ]
}

const fn faults(fault: Fault) -> LoadShape {
    LoadShape::Faults(Faults { connections: 100, per_second: 1000, fault })
}
