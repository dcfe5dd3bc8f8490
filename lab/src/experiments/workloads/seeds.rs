//! Workloads from published experiments that the other tables lack: the same requests, under the published settings.

use crate::experiments::profile::Profile::{
    Cgi, Cgid, Event1Worker, Event4Children, Event4Workers, Event243, EventChildren, EventLarge, EventSmall,
    EventThreads, ManyConnections,
};
use crate::experiments::profile::{Entry, bare, under};
use crate::experiments::workload::{LoadShape, Protocol, SMALL, Workload};
use crate::machine::script::HELLO_DYNAMIC;

/// prefork with mod_cgi, worker and event with mod_cgid, at the numbers of clients of the article.
pub(crate) static CGI_MPM: [Workload; 1] = [Workload {
    id: "cgi-mpm",
    title: "C hello as CGI under each MPM, 300 and 1 000 clients",
    shape: LoadShape::Script { script: &HELLO_DYNAMIC, connections: &[300, 1000] },
    entries: &[
        bare("floor-spawn"),
        under(Cgi, "tsubame-percore"),
        under(Cgi, "tsubame-prefork"),
        under(Cgid, "tsubame-worker"),
        under(Cgid, "tsubame-event"),
        under(Cgi, "apache-prefork"),
        under(Cgid, "apache-worker"),
        under(Cgid, "apache-event"),
    ],
    peers: &[under(Cgi, "apache-prefork")],
}];

/// event under the five settings that were tried for 100 connections, and under the three for thousands.
pub(crate) static EVENT_VS_NGINX: [Workload; 2] = [
    Workload {
        id: "event-small",
        title: "31-byte file, a connection for each request, 100 at a time, event under five settings",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: true, protocol: Protocol::Clear },
        entries: &[
            bare("floor"),
            bare("nginx"),
            under(Event243, "tsubame-event"),
            under(EventSmall, "tsubame-event"),
            under(Event4Workers, "tsubame-event"),
            under(Event1Worker, "tsubame-event"),
            under(Event4Children, "tsubame-event"),
            under(Event243, "apache-event"),
            under(EventSmall, "apache-event"),
            under(Event4Workers, "apache-event"),
            under(Event1Worker, "apache-event"),
            under(Event4Children, "apache-event"),
        ],
        peers: &[bare("nginx")],
    },
    Workload {
        id: "event-large",
        title: "31-byte file, 100 to 20 000 keep-alive connections, event under three settings",
        shape: LoadShape::Load {
            document: &SMALL,
            connections: &[100, 1000, 5000, 10_000, 20_000],
            close: false,
            protocol: Protocol::Clear,
        },
        entries: &[
            under(ManyConnections, "nginx"),
            under(EventChildren, "tsubame-event"),
            under(EventThreads, "tsubame-event"),
            under(EventLarge, "tsubame-event"),
            under(EventChildren, "apache-event"),
            under(EventThreads, "apache-event"),
            under(EventLarge, "apache-event"),
        ],
        peers: &[under(ManyConnections, "nginx")],
    },
];

/// req/s against the number of connections: from one, which waits for every response, up to the limit of `ab`.
pub(crate) static CONCURRENCY: [Workload; 1] = [Workload {
    id: "concurrency",
    title: "31-byte file, 1 to 20 000 keep-alive connections",
    shape: LoadShape::Load {
        document: &SMALL,
        connections: &[1, 10, 100, 1000, 5000, 10_000, 20_000],
        close: false,
        protocol: Protocol::Clear,
    },
    entries: &[
        bare("tsubame-percore"),
        under(EventLarge, "tsubame-event"),
        under(ManyConnections, "nginx"),
        under(EventLarge, "apache-event"),
    ],
    peers: &[under(ManyConnections, "nginx")],
}];

/// The fixed rate shows the cost of a request, the closed loops each server's limit.
pub(crate) static EVENT_VS_WORKER: [Workload; 3] = [
    Workload {
        id: "threads-rate",
        title: "31-byte file, 4 000 requests per second, a connection for each",
        shape: LoadShape::Rate { connections: 100, per_second: 4000, per_connection: 1 },
        entries: THREADS,
        peers: &[bare("apache-worker")],
    },
    Workload {
        id: "threads-close",
        title: "31-byte file, a connection for each request, 100 at a time",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: true, protocol: Protocol::Clear },
        entries: THREADS,
        peers: &[bare("apache-worker")],
    },
    Workload {
        id: "threads-kept",
        title: "31-byte file, 100 keep-alive connections",
        shape: LoadShape::Load { document: &SMALL, connections: &[100], close: false, protocol: Protocol::Clear },
        entries: THREADS,
        peers: &[bare("apache-worker")],
    },
];

const THREADS: &[Entry] =
    &[bare("floor"), bare("tsubame-worker"), bare("tsubame-event"), bare("apache-worker"), bare("apache-event")];
