//! The workloads of `run mpm`: the effects of the multi-processing module.

use crate::experiments::profile::Profile::{
    Crowded, Event243, EventChildren, EventLarge, EventSmall, EventThreads, ManyWorkers, Recycling, Steady,
};
use crate::experiments::profile::{Entry, bare, under};
use crate::experiments::workload::{LoadShape, MixedConnections, Protocol, SMALL, Workload};

/// The workloads, in the order in which they are run and reported.
pub(crate) static WORKLOADS: [Workload; 6] = [
    Workload {
        id: "rate",
        title: "31-byte file, 4 000 requests per second over 100 keep-alive connections",
        shape: LoadShape::Rate { connections: 100, per_second: 4000, per_connection: 0 },
        entries: &[
            bare("floor"),
            bare("tsubame-percore"),
            bare("tsubame-prefork"),
            bare("tsubame-worker"),
            bare("tsubame-event"),
            bare("apache-prefork"),
            bare("apache-worker"),
            bare("apache-event"),
        ],
        peers: &[bare("apache-event")],
    },
    RECYCLE,
    Workload {
        id: "crowd",
        title: "fresh requests to four workers, or percore, among 10 000 idle, 1 000 slow and 1 000 lingering connections",
        shape: LoadShape::MixedConnections(MixedConnections { idle: 10_000, slow: 1000, lingering: 1000, fresh: 200 }),
        entries: CROWDED,
        peers: &[],
    },
    // Apache's behaviour with a crowd that it can hold.
    Workload {
        id: "small-crowd",
        title: "fresh requests to four workers, or percore, among 500 idle, 100 slow and 100 lingering connections",
        shape: LoadShape::MixedConnections(MixedConnections { idle: 500, slow: 100, lingering: 100, fresh: 200 }),
        entries: CROWDED,
        peers: &[],
    },
    Workload {
        id: "idle-workers",
        title: "memory of 400 idle workers in 16 children",
        shape: LoadShape::Children { count: 16, clients: 400 },
        entries: &[
            under(ManyWorkers, "tsubame-worker"),
            under(ManyWorkers, "tsubame-event"),
            under(ManyWorkers, "apache-worker"),
            under(ManyWorkers, "apache-event"),
        ],
        peers: &[],
    },
    // The settings and the numbers of connections of a comparison of event with nginx, made with Apache 2.4.3
    // (https://blog.matsumoto-r.jp), in which event was fast, then slow, and sometimes stopped answering.
    Workload {
        id: "sweep002",
        title: "31-byte file, 100 to 20 000 keep-alive connections to event under five settings",
        shape: LoadShape::Load {
            document: &SMALL,
            connections: &[100, 1000, 5000, 10_000, 20_000],
            close: false,
            protocol: Protocol::Clear,
        },
        entries: &[
            under(Event243, "tsubame-event"),
            under(EventSmall, "tsubame-event"),
            under(EventChildren, "tsubame-event"),
            under(EventThreads, "tsubame-event"),
            under(EventLarge, "tsubame-event"),
            under(Event243, "apache-event"),
            under(EventSmall, "apache-event"),
            under(EventChildren, "apache-event"),
            under(EventThreads, "apache-event"),
            under(EventLarge, "apache-event"),
        ],
        peers: &[],
    },
];

/// Replaced children and permanent children, side by side.
pub(crate) const RECYCLE: Workload = Workload {
    id: "recycle",
    title: "31-byte file, 1 000 requests per second, 10 on a connection, with children replaced and without",
    shape: LoadShape::Rate { connections: 25, per_second: 1000, per_connection: 10 },
    entries: &[
        under(Steady, "tsubame-percore"),
        under(Recycling, "tsubame-percore"),
        under(Steady, "tsubame-prefork"),
        under(Recycling, "tsubame-prefork"),
        under(Steady, "tsubame-worker"),
        under(Recycling, "tsubame-worker"),
        under(Steady, "tsubame-event"),
        under(Recycling, "tsubame-event"),
        under(Steady, "apache-prefork"),
        under(Recycling, "apache-prefork"),
        under(Steady, "apache-worker"),
        under(Recycling, "apache-worker"),
        under(Steady, "apache-event"),
        under(Recycling, "apache-event"),
    ],
    peers: &[],
};

const CROWDED: &[Entry] =
    &[under(Crowded, "tsubame-percore"), under(Crowded, "tsubame-event"), under(Crowded, "apache-event")];
