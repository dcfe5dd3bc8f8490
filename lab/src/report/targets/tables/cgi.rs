//! The targets about CGI scripts, for each multi-processing module.

use crate::experiments::profile::Profile::{Cgi, Cgid};
use crate::experiments::profile::{Entry, bare, under};
use crate::measure::results::Load;
use crate::report::targets::target::{Rule, Target};

/// Every target.
pub(super) static TARGETS: [Target; 6] = [
    each("static C, 100 clients: mod_cgi ≥ 0.90 × the floor", &to_each(bare("floor-spawn")), 0.90),
    each("static C, 100 clients: mod_cgi ≥ 2.0 × Apache prefork", &to_each(under(Cgi, "apache-prefork")), 2.0),
    each("static C, 100 clients: mod_cgi ≥ 1.5 × lighttpd", &to_each(under(Cgi, "lighttpd")), 1.5),
    each("static C, 100 clients: mod_cgid ≥ 0.85 × mod_cgi", &PAIRS, 0.85),
    Target {
        text: "static C: no failed request with 300 and 1 000 clients",
        rule: Rule::Faultless { workload: "cgi-static", subjects: &OURS, connections: &[300, 1000] },
    },
    Target {
        text: "no thread of the server above 95 % of a core while more than 15 % of the cores are idle",
        rule: Rule::Spread { workload: "cgi-static", subjects: &OURS, busiest: 0.95, idle: 0.15 },
    },
];

const MPMS: [&str; 4] = ["tsubame-percore", "tsubame-prefork", "tsubame-worker", "tsubame-event"];

/// Under both modules that run scripts.
static OURS: [Entry; 8] = {
    let mut all = [bare(MPMS[0]); 8];
    let mut index = 0;
    while index < 8 {
        all[index] = under(if index < 4 { Cgi } else { Cgid }, MPMS[index % 4]);
        index += 1;
    }
    all
};

/// Each under mod_cgid, paired with itself under mod_cgi.
static PAIRS: [(Entry, Entry); 4] = {
    let mut pairs = to_each(bare(MPMS[0]));
    let mut index = 0;
    while index < 4 {
        pairs[index] = (under(Cgid, MPMS[index]), under(Cgi, MPMS[index]));
        index += 1;
    }
    pairs
};

/// Each under mod_cgi, paired with the same peer.
const fn to_each(peer: Entry) -> [(Entry, Entry); 4] {
    let mut pairs = [(peer, peer); 4];
    let mut index = 0;
    while index < 4 {
        pairs[index].0 = under(Cgi, MPMS[index]);
        index += 1;
    }
    pairs
}

const fn each(text: &'static str, pairs: &'static [(Entry, Entry)], factor: f64) -> Target {
    Target { text, rule: Rule::Each { workload: "cgi-static", pairs, figure: Load::per_cpu_second, factor } }
}
