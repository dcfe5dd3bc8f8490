//! The workloads of `run tls`: handshakes, the cost of encryption, HTTP/2, and idle connections.

use crate::experiments::profile::{Entry, Profile, bare, under};
use crate::experiments::workload::{LARGE, LoadShape, Protocol, SMALL, Workload};

/// The workloads, in the order in which they are run and reported.
pub(crate) static WORKLOADS: [Workload; 7] = [
    Workload {
        id: "tls-full",
        title: "31-byte file, a connection and a full handshake for each request, 100 at a time",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: true, protocol: Protocol::Tls },
        entries: ENCRYPTED,
        peers: PEERS,
    },
    Workload {
        id: "tls-resumed",
        title: "31-byte file, a connection for each request that goes on with an earlier session, 100 at a time",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: true, protocol: Protocol::Resumed },
        entries: ENCRYPTED,
        peers: PEERS,
    },
    Workload {
        id: "tls-keepalive",
        title: "31-byte file over TLS, 100 keep-alive connections",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: false, protocol: Protocol::Tls },
        entries: ENCRYPTED,
        peers: PEERS,
    },
    Workload {
        id: "tls-file1m",
        title: "1 MB file over TLS, 32 keep-alive connections",
        shape: LoadShape::Load { document: &LARGE, connections: &[32], close: false, protocol: Protocol::Tls },
        entries: ENCRYPTED,
        peers: PEERS,
    },
    Workload {
        id: "tls-http2",
        title: "31-byte file over HTTP/2, 10 connections of 100 streams each",
        shape: LoadShape::Load {
            document: &SMALL,
            connections: &[10],
            close: false,
            protocol: Protocol::Http2 { streams: 100 },
        },
        entries: HTTP2,
        peers: &[under(Profile::Http2, "nginx")],
    },
    Workload {
        id: "tls-idle",
        title: "memory of 10 000 idle connections over TLS",
        shape: LoadShape::Idle { connections: 10_000, protocol: Protocol::Tls },
        entries: &[
            encrypted("tsubame-percore"),
            encrypted("tsubame-event"),
            encrypted("nginx"),
            encrypted("lighttpd"),
            encrypted("h2o"),
            encrypted("caddy"),
            encrypted("apache-event"),
        ],
        peers: &[],
    },
    Workload {
        id: "tls-plain",
        title: "31-byte file in the clear, 100 keep-alive connections, for comparison",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: false, protocol: Protocol::Clear },
        entries: &[
            bare("floor"),
            bare("tsubame-percore"),
            bare("tsubame-prefork"),
            bare("tsubame-worker"),
            bare("tsubame-event"),
            bare("nginx"),
            bare("lighttpd"),
            bare("h2o"),
            bare("caddy"),
            bare("apache-event"),
        ],
        peers: &[bare("nginx"), bare("lighttpd"), bare("h2o"), bare("caddy"), bare("apache-event")],
    },
];

/// A subject that speaks TLS.
const fn encrypted(subject: &'static str) -> Entry {
    under(Profile::Tls, subject)
}

const ENCRYPTED: &[Entry] = &[
    encrypted("tsubame-percore"),
    encrypted("tsubame-prefork"),
    encrypted("tsubame-worker"),
    encrypted("tsubame-event"),
    encrypted("nginx"),
    encrypted("lighttpd"),
    encrypted("h2o"),
    encrypted("caddy"),
    encrypted("apache-event"),
];

/// The others: Tsubame is compared with the best of them.
pub(crate) const PEERS: &[Entry] =
    &[encrypted("nginx"), encrypted("lighttpd"), encrypted("h2o"), encrypted("caddy"), encrypted("apache-event")];

const HTTP2: &[Entry] = &[
    under(Profile::Http2, "tsubame-percore"),
    under(Profile::Http2, "tsubame-prefork"),
    under(Profile::Http2, "tsubame-worker"),
    under(Profile::Http2, "tsubame-event"),
    under(Profile::Http2, "nginx"),
    under(Profile::Http2, "lighttpd"),
    under(Profile::Http2, "h2o"),
    under(Profile::Http2, "caddy"),
    under(Profile::Http2, "apache-event"),
];
