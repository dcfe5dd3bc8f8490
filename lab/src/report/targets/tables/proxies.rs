//! The targets about proxies.

use crate::experiments::profile::Profile::{
    Balanced, Cached, Proxied, ProxiedChildren, ProxiedHttp2, ProxiedTls, ProxiedToTls,
};
use crate::experiments::profile::{Entry, Profile, under};
use crate::experiments::workloads::proxies::others;
use crate::measure::results::Load;
use crate::report::targets::target::{PERCORE, Rule, Target, speed};

/// Every target, in the order of the workloads.
pub(super) static TARGETS: [Target; 11] = [
    speed("31 bytes: percore ≥ 1.05 × the best peer", "proxy-small", percore(Proxied), 1.05, &others(Proxied)),
    speed(
        "31 bytes: event ≥ 2 × Apache event",
        "proxy-small",
        under(Proxied, "tsubame-event"),
        2.0,
        &[under(Proxied, "apache-event")],
    ),
    speed("1 MB: percore ≥ 1.05 × the best peer", "proxy-1m", percore(Proxied), 1.05, &others(Proxied)),
    speed("TLS in front: percore ≥ 1.05 × the best peer", "proxy-tls", percore(ProxiedTls), 1.05, &others(ProxiedTls)),
    speed(
        "TLS behind: percore ≥ 1.05 × the best peer",
        "proxy-to-tls",
        percore(ProxiedToTls),
        1.05,
        &others(ProxiedToTls),
    ),
    speed(
        "HTTP/2 in front: percore ≥ 1.05 × the best peer",
        "proxy-http2",
        percore(ProxiedHttp2),
        1.05,
        &others(ProxiedHttp2),
    ),
    speed("hits: percore ≥ 0.95 × its own static file", "proxy-stored", percore(Cached), 0.95, &[PERCORE]),
    speed("hits: percore ≥ 1.0 × Varnish", "proxy-stored", percore(Cached), 1.0, &[under(Cached, "varnish")]),
    Target {
        text: "prefork with 100 children: a new connection to the origin for ≥ 10 × as many requests as with Apache prefork",
        rule: Rule::Each {
            workload: "proxy-reuse",
            pairs: &[(under(ProxiedChildren, "tsubame-prefork"), under(ProxiedChildren, "apache-prefork"))],
            figure: Load::per_accepted,
            factor: 10.0,
        },
    },
    faultless("an origin is killed each second: no request fails", "proxy-killed"),
    faultless("an origin stands still for half of each second: no request fails", "proxy-halted"),
];

const fn percore(profile: Profile) -> Entry {
    under(profile, "tsubame-percore")
}

const fn faultless(text: &'static str, workload: &'static str) -> Target {
    Target { text, rule: Rule::Faultless { workload, subjects: OURS, connections: &[100] } }
}

const OURS: &[Entry] =
    &[under(Balanced, "tsubame-percore"), under(Balanced, "tsubame-event"), under(Balanced, "tsubame-prefork")];
