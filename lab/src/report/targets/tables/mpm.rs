//! The targets about the multi-processing modules, most of them compared with Apache's of the same name.

use crate::experiments::profile::{Profile, bare, under};
use crate::measure::results::Memory;
use crate::report::targets::target::{EVENT, Rule, Target, WORKER, speed};

/// Every target, in the order of the workloads.
pub(super) static TARGETS: [Target; 13] = [
    speed("4 000 req/s: worker needs ≤ 1/3 of Apache worker's CPU time", "rate", WORKER, 3.0, &[bare("apache-worker")]),
    speed("4 000 req/s: event needs ≤ 1/3 of Apache event's CPU time", "rate", EVENT, 3.0, &[bare("apache-event")]),
    unnoticed("percore: p99 while children are replaced ≤ 1.2 × p99 without, no more errors", "tsubame-percore"),
    unnoticed("prefork: p99 while children are replaced ≤ 1.2 × p99 without, no more errors", "tsubame-prefork"),
    unnoticed("worker: p99 while children are replaced ≤ 1.2 × p99 without, no more errors", "tsubame-worker"),
    unnoticed("event: p99 while children are replaced ≤ 1.2 × p99 without, no more errors", "tsubame-event"),
    prompt("crowd: percore answers each fresh request within 50 ms", "tsubame-percore"),
    prompt("crowd: event with 4 workers answers each fresh request within 50 ms", "tsubame-event"),
    memory("400 idle workers: PSS of worker ≤ Apache worker's", ["tsubame-worker", "apache-worker"], BEFORE),
    memory("400 workers that have served: PSS of worker ≤ Apache worker's", ["tsubame-worker", "apache-worker"], AFTER),
    memory("400 idle workers: PSS of event ≤ Apache event's", ["tsubame-event", "apache-event"], BEFORE),
    memory("400 workers that have served: PSS of event ≤ Apache event's", ["tsubame-event", "apache-event"], AFTER),
    Target {
        text: "event answers after 100 to 20 000 connections, whichever the settings",
        rule: Rule::Alive { workload: "sweep002", subject: "tsubame-event" },
    },
];

const BEFORE: fn(&Memory) -> f64 = |memory| memory.before_kib as f64;
const AFTER: fn(&Memory) -> f64 = |memory| memory.after_kib as f64;

const fn unnoticed(text: &'static str, subject: &'static str) -> Target {
    Target { text, rule: Rule::Unnoticed { subject, factor: 1.2 } }
}

const fn prompt(text: &'static str, subject: &'static str) -> Target {
    let subject = under(Profile::Crowded, subject);
    Target { text, rule: Rule::Prompt { workload: "crowd", subject, milliseconds: 50.0 } }
}

const fn memory(text: &'static str, [own, theirs]: [&'static str; 2], figure: fn(&Memory) -> f64) -> Target {
    let (subject, peer) = (under(Profile::ManyWorkers, own), under(Profile::ManyWorkers, theirs));
    Target { text, rule: Rule::ChildrenMemory { workload: "idle-workers", subject, peer, factor: 1.0, figure } }
}
