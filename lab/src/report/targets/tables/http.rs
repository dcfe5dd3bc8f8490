//! The targets about static files over HTTP/1.1.

use crate::experiments::profile::{bare, debian};
use crate::experiments::workloads::http::FILE_PEERS;
use crate::report::targets::target::{EVENT, FLOOR, PERCORE, PREFORK, Rule, Target, WORKER, speed};

/// Every target about HTTP, in the order of the workloads.
pub(super) static TARGETS: [Target; 20] = [
    speed(
        "keep-alive: percore ≥ 1.0 × the faster of lighttpd and h2o",
        "keepalive",
        PERCORE,
        1.0,
        &[bare("lighttpd"), bare("h2o")],
    ),
    speed("keep-alive: percore ≥ 0.85 × the floor", "keepalive", PERCORE, 0.85, &[FLOOR]),
    speed("keep-alive: percore ≥ 1.5 × nginx with open_file_cache", "keepalive", PERCORE, 1.5, &[bare("nginx-ofc")]),
    speed("keep-alive: prefork ≥ 4 × Apache prefork", "keepalive", PREFORK, 4.0, &[bare("apache-prefork")]),
    speed("keep-alive: prefork ≥ 0.9 × nginx with open_file_cache", "keepalive", PREFORK, 0.9, &[bare("nginx-ofc")]),
    speed("keep-alive: worker ≥ 4 × Apache worker", "keepalive", WORKER, 4.0, &[bare("apache-worker")]),
    speed("keep-alive: worker ≥ 1.0 × nginx with open_file_cache", "keepalive", WORKER, 1.0, &[bare("nginx-ofc")]),
    speed("keep-alive: event ≥ 4 × Apache event", "keepalive", EVENT, 4.0, &[bare("apache-event")]),
    speed("keep-alive: event ≥ 1.0 × nginx with open_file_cache", "keepalive", EVENT, 1.0, &[bare("nginx-ofc")]),
    speed("`Connection: close`: percore ≥ 1.0 × h2o", "close", PERCORE, 1.0, &[bare("h2o")]),
    speed("`Connection: close`: prefork ≥ 2 × Apache prefork", "close", PREFORK, 2.0, &[bare("apache-prefork")]),
    speed("`Connection: close`: worker ≥ 2 × Apache worker", "close", WORKER, 2.0, &[bare("apache-worker")]),
    speed("`Connection: close`: event ≥ 2 × Apache event", "close", EVENT, 2.0, &[bare("apache-event")]),
    speed("16 KB file: percore ≥ 1.0 × the best peer", "file16k", PERCORE, 1.0, FILE_PEERS),
    speed("1 MB file: percore ≥ 1.0 × the best peer", "file1m", PERCORE, 1.0, FILE_PEERS),
    speed(
        "Debian's default configuration: percore ≥ 0.85 × the bare one",
        "debian",
        debian("tsubame-percore"),
        0.85,
        &[PERCORE],
    ),
    Target {
        text: "prefork, 256 idle children: PSS ≤ half of Apache's",
        rule: Rule::ChildrenMemory {
            workload: "prefork-memory",
            subject: PREFORK,
            peer: bare("apache-prefork"),
            factor: 0.5,
            figure: |memory| memory.before_kib as f64,
        },
    },
    Target {
        text: "prefork, 256 children that have served: PSS ≤ half of Apache's",
        rule: Rule::ChildrenMemory {
            workload: "prefork-memory",
            subject: PREFORK,
            peer: bare("apache-prefork"),
            factor: 0.5,
            figure: |memory| memory.after_kib as f64,
        },
    },
    Target {
        text: "10 000 idle keep-alive connections under percore: ≤ 1 KB of PSS each",
        rule: Rule::ConnectionMemory { workload: "idle", subject: PERCORE, bytes: 1024.0 },
    },
    Target {
        text: "100 to 10 000 connections under percore: no errors, req/s within 25 % of the best point",
        rule: Rule::Steadiness { loss: 0.25 },
    },
];
