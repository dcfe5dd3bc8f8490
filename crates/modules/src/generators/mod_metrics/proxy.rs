//! Servers behind this one as families.

use std::collections::BTreeMap;

use upstream::{Count, Fault};

use super::text::MetricType::{Counter, Gauge};
use super::text::{Family, MetricType, Sample};
use crate::proxy::mod_proxy::Counted;

/// A family with a line for each server: its type, name, unit, explanation, and the number; times are in microseconds.
type Line = (MetricType, &'static str, &'static str, &'static str, fn(&Counted) -> u64);

#[rustfmt::skip]
const LINES: [Line; 11] = [
    (Gauge, "proxy_server_usable", "", "Whether requests may go to a server.", |one| one.status.is_usable().into()),
    (Gauge, "proxy_requests_busy", "", "Requests that are on their way to a server now.", |one| one.tally.busy()),
    (Gauge, "proxy_connections_idle", "", "Idle connections to a server.", Counted::idle),
    (Counter, "proxy_requests", "", "Requests that were to go to a server.", |one| one.tally.get(Count::Requests)),
    (Counter, "proxy_connections_opened", "", "Connections to a server that were made.", |one| one.tally.get(Count::Opened)),
    (Counter, "proxy_connections_reused", "", "Requests that went over a connection that was there.", |one| one.tally.get(Count::Reused)),
    (Counter, "proxy_connect_seconds", "seconds", "Time that making connections has taken.", |one| one.tally.get(Count::Connecting)),
    (Counter, "proxy_responses", "", "Responses of a server that have begun.", |one| one.tally.get(Count::Begun)),
    (Counter, "proxy_first_byte_seconds", "seconds", "Time between requests and the beginning of their responses.", |one| one.tally.get(Count::Beginning)),
    (Counter, "proxy_requests_ended", "", "Requests to a server that have ended.", |one| one.tally.get(Count::Ended)),
    (Counter, "proxy_request_seconds", "seconds", "Time that a server was busy with requests that have ended.", |one| one.tally.get(Count::Serving)),
];

/// Servers: a line for each of them. Members of balancers of one name in several virtual hosts have one line together.
pub(super) fn servers(servers: &[Counted]) -> Vec<Family> {
    let mut all: Vec<Family> = Vec::new();
    for (kind, name, unit, help, of) in LINES {
        let mut values: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for one in servers {
            *values.entry(labels(one)).or_default() += of(one);
        }
        let sample = |((balancer, server), value): ((&str, &str), u64)| Sample {
            suffix: if kind == Counter { "_total" } else { "" },
            labels: vec![("balancer", balancer.into()), ("server", server.into())],
            value: if unit == "seconds" { (value as f64 / 1e6).to_string() } else { value.to_string() },
        };
        all.push(Family { name, kind, unit, help, samples: values.into_iter().map(sample).collect() });
    }
    all.push(faults(servers));
    all
}

fn faults(servers: &[Counted]) -> Family {
    let mut values: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for one in servers {
        let (balancer, server) = labels(one);
        for (fault, word) in Fault::ALL {
            *values.entry((balancer, server, word)).or_default() += one.tally.faults(fault);
        }
    }
    let sample = |((balancer, server, kind), value): ((&str, &str, &str), u64)| Sample {
        suffix: "_total",
        labels: vec![("balancer", balancer.into()), ("server", server.into()), ("kind", kind.into())],
        value: value.to_string(),
    };
    let samples = values.into_iter().map(sample).collect();
    Family { name: "proxy_faults", kind: Counter, unit: "", help: "What went wrong with a server.", samples }
}

/// The balancer, if there is one, and the server.
fn labels(one: &Counted) -> (&str, &str) {
    (one.balancer.as_deref().unwrap_or_default(), &one.name)
}
