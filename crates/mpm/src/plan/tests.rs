//! Capture 13: the messages that Apache 2.4.71 prints for doubtful values, and those it writes at a restart with them.

use std::sync::Arc;

use conf::{Origin, Setting, Source};

use super::*;

fn slots(lines: &str) -> SettingsMap {
    let origin = Origin { source: Arc::new(Source::new("f")), line: 1 };
    let mut slots = SettingsMap::default();
    for line in lines.split(" ; ").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(' ').expect("name and value");
        let s = slots.edit::<MpmSettings>();
        let field: &mut Setting<i64> = match name {
            "StartServers" => &mut s.start_servers,
            "ServerLimit" => &mut s.server_limit,
            "ThreadLimit" => &mut s.thread_limit,
            "ThreadsPerChild" => &mut s.threads_per_child,
            "MaxRequestWorkers" => &mut s.max_request_workers,
            "MinSpareServers" => &mut s.min_spare_servers,
            "MaxSpareServers" => &mut s.max_spare_servers,
            "MinSpareThreads" => &mut s.min_spare_threads,
            "MaxSpareThreads" => &mut s.max_spare_threads,
            "MaxConnectionsPerChild" => &mut s.max_connections_per_child,
            other => panic!("{other}"),
        };
        field.set(conf::values::strtol(value), &origin);
    }
    slots
}

fn check(mpm: &str, lines: &str, when: When) -> (Plan, Vec<String>) {
    let slots = slots(lines);
    let (plan, notices) = match mpm {
        "prefork" => prefork("mpm_prefork", &slots, when),
        "worker" => threaded(&WORKER, "mpm_worker", &slots, when),
        _ => threaded(&EVENT, "mpm_event", &slots, when),
    };
    let notices: Vec<Notice> = notices.into_iter().filter(|notice| notice.level == Level::Warn).collect();
    assert!(notices.iter().all(|notice| notice.bare == (when == When::Start)));
    (plan, notices.into_iter().map(|notice| notice.text).collect())
}

#[test]
fn at_the_start() {
    let raise = "To increase, please see the ServerLimit directive.";
    let threads = "To increase, please see the ThreadLimit directive.";
    let least = "MaxRequestWorkers must be at least as large as the number of threads in a single server.";
    let sure = "to avoid almost certain server failure. Please read the documentation.";
    let cases: &[(&str, &str, &[String])] = &[
        (
            "event",
            "ServerLimit 5000000",
            &["AH00497: WARNING: ServerLimit of 5000000 exceeds the system's limit of 4194304 servers, decreasing to 4194304.".into()],
        ),
        (
            "event",
            "ServerLimit 0",
            &[
                "AH00499: WARNING: ServerLimit of 0 not allowed, increasing to 1.".into(),
                format!("AH00515: WARNING: MaxRequestWorkers of 400 would require 16 servers and would exceed ServerLimit of 1, decreasing to 25. {raise}"),
            ],
        ),
        (
            "event",
            "ThreadLimit 5000000",
            &["AH00502: WARNING: ThreadLimit of 5000000 exceeds the system's limit of 4194304 threads, decreasing to 4194304.".into()],
        ),
        (
            "event",
            "ThreadLimit 0",
            &[
                "AH00504: WARNING: ThreadLimit of 0 not allowed, increasing to 1.".into(),
                format!("AH00507: WARNING: ThreadsPerChild of 25 exceeds ThreadLimit of 1 threads, decreasing to 1. {threads}"),
                format!("AH00515: WARNING: MaxRequestWorkers of 400 would require 400 servers and would exceed ServerLimit of 16, decreasing to 16. {raise}"),
            ],
        ),
        (
            "event",
            "ThreadsPerChild 100",
            &[
                format!("AH00507: WARNING: ThreadsPerChild of 100 exceeds ThreadLimit of 64 threads, decreasing to 64. {threads}"),
                "AH00513: WARNING: MaxRequestWorkers of 400 is not an integer multiple of ThreadsPerChild of 64, decreasing to nearest multiple 384, for a maximum of 6 servers.".into(),
            ],
        ),
        (
            "event",
            "ThreadsPerChild 0",
            &[
                "AH00509: WARNING: ThreadsPerChild of 0 not allowed, increasing to 1.".into(),
                format!("AH00515: WARNING: MaxRequestWorkers of 400 would require 400 servers and would exceed ServerLimit of 16, decreasing to 16. {raise}"),
            ],
        ),
        (
            "event",
            "MaxRequestWorkers 10",
            &[format!("AH00511: WARNING: MaxRequestWorkers of 10 is less than ThreadsPerChild of 25, increasing to 25. {least}")],
        ),
        (
            "event",
            "MaxRequestWorkers 60",
            &["AH00513: WARNING: MaxRequestWorkers of 60 is not an integer multiple of ThreadsPerChild of 25, decreasing to nearest multiple 50, for a maximum of 2 servers.".into()],
        ),
        (
            "event",
            "MaxRequestWorkers 1000",
            &[format!("AH00515: WARNING: MaxRequestWorkers of 1000 would require 40 servers and would exceed ServerLimit of 16, decreasing to 400. {raise}")],
        ),
        (
            "event",
            "ServerLimit 4 ; MaxRequestWorkers 200",
            &[format!("AH00515: WARNING: MaxRequestWorkers of 200 would require 8 servers and would exceed ServerLimit of 4, decreasing to 100. {raise}")],
        ),
        ("event", "StartServers 0", &["AH00517: WARNING: StartServers of 0 not allowed, increasing to 1.".into()]),
        ("event", "MinSpareThreads 0", &[format!("AH00519: WARNING: MinSpareThreads of 0 not allowed, increasing to 1 {sure}")]),
        ("event", "MinSpareThreads 200 ; MaxSpareThreads 100", &[]),
        ("event", "StartServers 100", &[]),
        (
            "event",
            "MaxRequestWorkers abc",
            &[format!("AH00511: WARNING: MaxRequestWorkers of 0 is less than ThreadsPerChild of 25, increasing to 25. {least}")],
        ),
        ("event", "MaxConnectionsPerChild -1", &[]),
        (
            "worker",
            "ServerLimit 5000000",
            &["AH00300: WARNING: ServerLimit of 5000000 exceeds the system's limit of 4194304 servers, decreasing to 4194304.".into()],
        ),
        (
            "worker",
            "ThreadLimit 5000000",
            &["AH00305: WARNING: ThreadLimit of 5000000 exceeds the system's limit of 4194304 threads, decreasing to 4194304.".into()],
        ),
        (
            "worker",
            "MaxRequestWorkers 60",
            &["AH00316: WARNING: MaxRequestWorkers of 60 is not an integer multiple of ThreadsPerChild of 25, decreasing to nearest multiple 50, for a maximum of 2 servers.".into()],
        ),
        (
            "worker",
            "MaxRequestWorkers 1001",
            &[
                "AH00316: WARNING: MaxRequestWorkers of 1001 is not an integer multiple of ThreadsPerChild of 25, decreasing to nearest multiple 1000, for a maximum of 40 servers.".into(),
                format!("AH00318: WARNING: MaxRequestWorkers of 1000 would require 40 servers and would exceed ServerLimit of 16, decreasing to 400. {raise}"),
            ],
        ),
        (
            "worker",
            "ThreadsPerChild 100",
            &[
                format!("AH00310: WARNING: ThreadsPerChild of 100 exceeds ThreadLimit of 64 threads, decreasing to 64. {threads}"),
                "AH00316: WARNING: MaxRequestWorkers of 400 is not an integer multiple of ThreadsPerChild of 64, decreasing to nearest multiple 384, for a maximum of 6 servers.".into(),
            ],
        ),
        ("worker", "StartServers 0", &["AH00320: WARNING: StartServers of 0 not allowed, increasing to 1.".into()]),
        ("worker", "MinSpareThreads 0", &[format!("AH00322: WARNING: MinSpareThreads of 0 not allowed, increasing to 1 {sure}")]),
        (
            "prefork",
            "MaxRequestWorkers 1000",
            &[format!("AH00180: WARNING: MaxRequestWorkers of 1000 exceeds ServerLimit value of 256 servers, decreasing MaxRequestWorkers to 256. {raise}")],
        ),
        ("prefork", "MaxRequestWorkers 0", &["AH00182: WARNING: MaxRequestWorkers of 0 not allowed, increasing to 1.".into()]),
        (
            "prefork",
            "ServerLimit 5000000",
            &["AH00175: WARNING: ServerLimit of 5000000 exceeds the system's limit of 4194304 servers, decreasing to 4194304.".into()],
        ),
        (
            "prefork",
            "ServerLimit 0",
            &[
                "AH00177: WARNING: ServerLimit of 0 not allowed, increasing to 1.".into(),
                format!("AH00180: WARNING: MaxRequestWorkers of 256 exceeds ServerLimit value of 1 servers, decreasing MaxRequestWorkers to 1. {raise}"),
            ],
        ),
        ("prefork", "StartServers 0", &["AH00184: WARNING: StartServers of 0 not allowed, increasing to 1.".into()]),
        ("prefork", "MinSpareServers 0", &[format!("AH00186: WARNING: MinSpareServers of 0 not allowed, increasing to 1 {sure}")]),
        ("prefork", "MinSpareServers 20 ; MaxSpareServers 5", &[]),
        ("prefork", "StartServers 500", &[]),
        ("prefork", "MaxRequestWorkers 300 ; ServerLimit 300", &[]),
    ];
    for (mpm, lines, wanted) in cases {
        assert_eq!(check(mpm, lines, When::Start).1, *wanted, "{mpm}: {lines}");
    }
}

#[test]
fn at_a_restart() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "prefork",
            "ServerLimit 5000000",
            &[
                "AH00176: ServerLimit of 5000000 exceeds the system's limit of 4194304, decreasing to match",
                "AH00179: changing ServerLimit to 4194304 from original value of 256 not allowed during restart",
            ],
        ),
        (
            "prefork",
            "ServerLimit 0",
            &[
                "AH00178: ServerLimit of 0 not allowed, increasing to 1",
                "AH00179: changing ServerLimit to 1 from original value of 256 not allowed during restart",
            ],
        ),
        (
            "prefork",
            "MaxRequestWorkers 1000",
            &["AH00181: MaxRequestWorkers of 1000 exceeds ServerLimit value of 256, decreasing to match"],
        ),
        ("prefork", "MaxRequestWorkers 0", &["AH00183: MaxRequestWorkers of 0 not allowed, increasing to 1"]),
        ("prefork", "StartServers 0", &["AH00185: StartServers of 0 not allowed, increasing to 1"]),
        ("prefork", "MinSpareServers 0", &["AH00187: MinSpareServers of 0 not allowed, increasing to 1"]),
        (
            "event",
            "ServerLimit 5000000",
            &[
                "AH00498: ServerLimit of 5000000 exceeds the system's limit of 4194304, decreasing to match",
                "AH00501: changing ServerLimit to 4194304 from original value of 16 not allowed during restart",
            ],
        ),
        (
            "event",
            "ThreadLimit 0",
            &[
                "AH00505: ThreadLimit of 0 not allowed, increasing to 1",
                "AH00506: changing ThreadLimit to 1 from original value of 64 not allowed during restart",
            ],
        ),
        (
            "event",
            "ThreadsPerChild 100",
            &[
                "AH00508: ThreadsPerChild of 100 exceeds ThreadLimit of 64, decreasing to match",
                "AH00514: MaxRequestWorkers of 400 is not an integer multiple of ThreadsPerChild of 64, decreasing to nearest multiple 384",
            ],
        ),
        (
            "event",
            "ThreadsPerChild 0",
            &[
                "AH00510: ThreadsPerChild of 0 not allowed, increasing to 1",
                "AH00516: MaxRequestWorkers of 400 would require 400 servers and exceed ServerLimit of 16, decreasing to 16",
            ],
        ),
        (
            "event",
            "MaxRequestWorkers 10",
            &["AH00512: MaxRequestWorkers of 10 is less than ThreadsPerChild of 25, increasing to match"],
        ),
        ("event", "StartServers 0", &["AH00518: StartServers of 0 not allowed, increasing to 1"]),
        ("event", "MinSpareThreads 0", &["AH00520: MinSpareThreads of 0 not allowed, increasing to 1"]),
        (
            "worker",
            "ThreadLimit 5000000",
            &[
                "AH00306: ThreadLimit of 5000000 exceeds the system's limit of 4194304, decreasing to match",
                "AH00309: changing ThreadLimit to 4194304 from original value of 64 not allowed during restart",
            ],
        ),
        (
            "worker",
            "MaxRequestWorkers 1001",
            &[
                "AH00317: MaxRequestWorkers of 1001 is not an integer multiple of ThreadsPerChild of 25, decreasing to nearest multiple 1000",
                "AH00319: MaxRequestWorkers of 1000 would require 40 servers and exceed ServerLimit of 16, decreasing to 400",
            ],
        ),
    ];
    for (mpm, lines, wanted) in cases {
        let first = check(mpm, "", When::Start).0.limits;
        let (plan, said) = check(mpm, lines, When::Restart(first));
        assert_eq!(said, *wanted, "{mpm}: {lines}");
        assert_eq!(plan.limits, first, "{mpm}: {lines}");
    }
}

#[test]
fn resulting_numbers() {
    let between = Spare::Between;
    let cases = [
        ("prefork", "", (256, 1, 5, between(5, 10))),
        ("prefork", "MinSpareServers 20 ; MaxSpareServers 5", (256, 1, 5, between(20, 21))),
        ("prefork", "StartServers 500", (256, 1, 256, between(5, 10))),
        ("event", "", (16, 25, 3, between(75, 250))),
        ("worker", "MinSpareThreads 200 ; MaxSpareThreads 100", (16, 25, 3, between(200, 226))),
        ("event", "MaxRequestWorkers 2 ; ThreadsPerChild 2 ; StartServers 4", (1, 2, 1, between(75, 250))),
    ];
    for (mpm, lines, (children, workers, start, spare)) in cases {
        let plan = check(mpm, lines, When::Start).0;
        assert_eq!((plan.children, plan.workers, plan.start, plan.spare), (children, workers, start, spare), "{lines}");
    }
    let plan = percore(&slots("MaxConnectionsPerChild 7"), 3, 64);
    assert_eq!((plan.children, plan.start, plan.spare), (3, 3, Spare::FixedChildren));
    assert_eq!(plan.recycling.connections, Some(Range { least: 6, most: 7 }));
}

/// Changes that Apache makes silently.
#[test]
fn the_resulting_numbers_are_reported() {
    let told = |mpm: &str, lines: &str| {
        let slots = slots(lines);
        let notices = match mpm {
            "prefork" => prefork("mpm_prefork", &slots, When::Start).1,
            "worker" => threaded(&WORKER, "mpm_worker", &slots, When::Start).1,
            _ => threaded(&EVENT, "mpm_event", &slots, When::Start).1,
        };
        let mut told = notices.into_iter().filter(|notice| notice.level == Level::Notice).map(|notice| notice.text);
        let first = told.next();
        assert_eq!(told.next(), None, "once");
        first
    };
    let two = "StartServers 4 ; MinSpareThreads 4 ; MaxSpareThreads 4 ; ThreadsPerChild 2 ; MaxRequestWorkers 2";
    let text = "StartServers 4, MinSpareThreads 4, MaxSpareThreads 4: the server runs 1 child, with 2 workers";
    let spare = "from 4 to 7 workers are kept idle, if there are that many";
    assert_eq!(told("event", two), Some(format!("{text} and at most 6 connections; {spare}")));
    assert_eq!(told("worker", two), Some(format!("{text}; {spare}")));
    let spares = "MinSpareServers 20, MaxSpareServers 5: the server runs 10 children at most, 5 at the start; \
                  from 20 to 21 workers are kept idle, if there are that many";
    let lines = "MinSpareServers 20 ; MaxSpareServers 5 ; MaxRequestWorkers 10";
    assert_eq!(told("prefork", lines), Some(spares.to_string()));
    // Debian's own settings, and those that Apache does comment on.
    let debian =
        "StartServers 2 ; MinSpareThreads 25 ; MaxSpareThreads 75 ; ThreadsPerChild 25 ; MaxRequestWorkers 150";
    assert_eq!(told("event", debian), None);
    assert_eq!(told("event", "MaxRequestWorkers 60"), None);
    assert_eq!(told("prefork", ""), None);
}
