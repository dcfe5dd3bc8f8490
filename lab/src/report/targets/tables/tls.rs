//! The targets about TLS and HTTP/2.

use crate::experiments::profile::{Entry, Profile, bare, under};
use crate::experiments::workloads::tls::PEERS;
use crate::report::targets::target::{EVENT, FLOOR, PERCORE, Rule, Target, speed};

const ENCRYPTED: Entry = under(Profile::Tls, "tsubame-percore");

/// Every target, in the order of the workloads.
pub(super) static TARGETS: [Target; 9] = [
    speed("full handshakes: percore ≥ 1.0 × the best peer", "tls-full", ENCRYPTED, 1.0, PEERS),
    speed("resumed handshakes: percore ≥ 1.0 × the best peer", "tls-resumed", ENCRYPTED, 1.0, PEERS),
    speed("keep-alive over TLS: percore ≥ 1.0 × the best peer", "tls-keepalive", ENCRYPTED, 1.0, PEERS),
    speed("1 MB over TLS: percore ≥ 1.0 × the best peer", "tls-file1m", ENCRYPTED, 1.0, PEERS),
    speed(
        "HTTP/2: percore ≥ 1.2 × nginx",
        "tls-http2",
        under(Profile::Http2, "tsubame-percore"),
        1.2,
        &[under(Profile::Http2, "nginx")],
    ),
    Target {
        text: "10 000 idle connections over TLS under percore: ≤ 12 KB of PSS each",
        rule: Rule::ConnectionMemory { workload: "tls-idle", subject: ENCRYPTED, bytes: 12.0 * 1024.0 },
    },
    speed("in the clear: percore ≥ 0.85 × the floor, as without TLS", "tls-plain", PERCORE, 0.85, &[FLOOR]),
    speed(
        "in the clear: percore ≥ 1.0 × the faster of lighttpd and h2o, as without TLS",
        "tls-plain",
        PERCORE,
        1.0,
        &[bare("lighttpd"), bare("h2o")],
    ),
    speed("in the clear: event ≥ 1.0 × nginx, as without TLS", "tls-plain", EVENT, 1.0, &[bare("nginx")]),
];
