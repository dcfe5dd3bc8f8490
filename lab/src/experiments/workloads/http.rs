//! The workloads of `run http`: static files over HTTP/1.1.

use crate::experiments::profile::{Entry, bare, debian};
use crate::experiments::site::PREFORK_CHILDREN;
use crate::experiments::workload::{LARGE, LoadShape, MEDIUM, Protocol, SMALL, Workload};

/// The workloads, in the order in which they are run and reported.
pub(crate) static WORKLOADS: [Workload; 8] = [
    Workload {
        id: "keepalive",
        title: "31-byte file, 100 keep-alive connections",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: false, protocol: Protocol::Clear },
        entries: EVERYONE,
        peers: &[bare("lighttpd"), bare("h2o")],
    },
    Workload {
        id: "close",
        title: "31-byte file, a connection for each request, 100 at a time",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: true, protocol: Protocol::Clear },
        entries: EVERYONE,
        peers: &[bare("h2o")],
    },
    Workload {
        id: "file16k",
        title: "16 KB file, 100 keep-alive connections",
        shape: LoadShape::Load { document: &MEDIUM, connections: &[100], close: false, protocol: Protocol::Clear },
        entries: FILE_SERVERS,
        peers: FILE_PEERS,
    },
    Workload {
        id: "file1m",
        title: "1 MB file, 32 keep-alive connections",
        shape: LoadShape::Load { document: &LARGE, connections: &[32], close: false, protocol: Protocol::Clear },
        entries: FILE_SERVERS,
        peers: FILE_PEERS,
    },
    Workload {
        id: "debian",
        title: "31-byte file, 100 keep-alive connections, Debian's configuration of Apache against the bare one",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: false, protocol: Protocol::Clear },
        entries: &[bare("tsubame-percore"), debian("tsubame-percore"), bare("apache-event"), debian("apache-event")],
        peers: &[bare("tsubame-percore")],
    },
    Workload {
        id: "idle",
        title: "memory of 10 000 idle keep-alive connections",
        shape: LoadShape::Idle { connections: 10_000, protocol: Protocol::Clear },
        entries: EVENT_DRIVEN,
        peers: &[],
    },
    Workload {
        id: "prefork-memory",
        title: "memory of 256 idle prefork children",
        shape: LoadShape::Children { count: PREFORK_CHILDREN, clients: PREFORK_CHILDREN },
        entries: &[bare("tsubame-prefork"), bare("apache-prefork")],
        peers: &[bare("apache-prefork")],
    },
    Workload {
        id: "sweep",
        title: "31-byte file, 100 to 10 000 keep-alive connections",
        shape: LoadShape::Load {
            document: &SMALL,
            connections: &[100, 1000, 5000, 10_000],
            close: false,
            protocol: Protocol::Clear,
        },
        entries: FLOOR_AND_EVENT_DRIVEN,
        peers: &[],
    },
];

/// All subjects that answer small files; the floor first.
const EVERYONE: &[Entry] = &[
    bare("floor"),
    bare("floor-threads"),
    bare("tsubame-percore"),
    bare("tsubame-prefork"),
    bare("tsubame-worker"),
    bare("tsubame-event"),
    bare("nginx"),
    bare("nginx-ofc"),
    bare("lighttpd"),
    bare("h2o"),
    bare("caddy"),
    bare("apache-prefork"),
    bare("apache-worker"),
    bare("apache-event"),
];

/// All subjects that read files, which the floor does not.
const FILE_SERVERS: &[Entry] = &[
    bare("tsubame-percore"),
    bare("tsubame-prefork"),
    bare("nginx"),
    bare("nginx-ofc"),
    bare("lighttpd"),
    bare("h2o"),
    bare("caddy"),
    bare("apache-event"),
];

/// The other event-driven servers: the meaning of "the best peer" for files.
pub(crate) const FILE_PEERS: &[Entry] =
    &[bare("nginx"), bare("nginx-ofc"), bare("lighttpd"), bare("h2o"), bare("caddy"), bare("apache-event")];

/// Servers that hold many connections in few processes.
const EVENT_DRIVEN: &[Entry] =
    &[bare("tsubame-percore"), bare("nginx"), bare("lighttpd"), bare("h2o"), bare("caddy"), bare("apache-event")];

/// The same and the floor, which shows the cost of so many connections in kernel and load generator.
const FLOOR_AND_EVENT_DRIVEN: &[Entry] = &[
    bare("floor"),
    bare("tsubame-percore"),
    bare("nginx"),
    bare("lighttpd"),
    bare("h2o"),
    bare("caddy"),
    bare("apache-event"),
];
