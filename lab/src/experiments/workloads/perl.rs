//! The workloads of `run perl`: one Perl application in every way that a server can run it, PHP behind php-fpm, a
//! connection for each request; and the cost of waiting for a backend.

use std::time::Duration;

use crate::experiments::profile::Profile::{
    Fcgid, OneBackend, PerlCgi, PerlFork, PerlRun, PhpFpm, PhpKept, Registry, Speedy,
};
use crate::experiments::profile::{Entry, under};
use crate::experiments::workload::{LoadShape, Queue, Workload};
use crate::machine::script::{APPLICATION, NAP, PAGE};

/// The workloads, in the order in which they are run and reported.
pub(crate) static WORKLOADS: [Workload; 4] = [
    Workload {
        id: "perl-app",
        title: "an application with CGI.pm and a dozen modules, 4 to 300 clients",
        shape: LoadShape::Script { script: &APPLICATION, connections: &[4, 50, 300] },
        entries: EVERYONE,
        peers: MOD_PERL,
    },
    Workload {
        id: "php-fpm",
        title: "a PHP page behind 16 processes of php-fpm, 4 to 300 clients",
        shape: LoadShape::Script { script: &PAGE, connections: &[4, 50, 300] },
        entries: &[
            under(PhpFpm, "tsubame-percore"),
            under(PhpKept, "tsubame-percore"),
            under(PhpFpm, "nginx"),
            under(PhpFpm, "apache-event"),
        ],
        peers: &[under(PhpFpm, "nginx")],
    },
    // A persistent connection occupies a process of php-fpm, so there are fewer clients than processes.
    Workload {
        id: "php-kept",
        title: "the same over connections that stay, 4 clients",
        shape: LoadShape::Script { script: &PAGE, connections: &[4] },
        entries: &[under(PhpKept, "tsubame-percore"), under(PhpKept, "nginx"), under(PhpKept, "apache-event")],
        peers: &[under(PhpKept, "nginx")],
    },
    Workload {
        id: "queue",
        title: "one FastCGI process that takes 50 ms, 240 requests at three times the rate that it serves",
        shape: LoadShape::Queue(QUEUE),
        entries: &[
            under(OneBackend, "tsubame-percore"),
            under(OneBackend, "tsubame-event"),
            under(OneBackend, "apache-event"),
        ],
        peers: &[],
    },
];

/// The process serves 20 per second.
const QUEUE: Queue = Queue { script: &NAP, requests: 240, per_second: 60, service: Duration::from_millis(50) };

/// The base of comparisons in the tables.
const MOD_PERL: &[Entry] = &[under(Registry, "apache-prefork")];

/// Every way under two of our modules, and Debian's modules of Apache.
const EVERYONE: &[Entry] = &[
    under(PerlCgi, "tsubame-percore"),
    under(PerlRun, "tsubame-percore"),
    under(PerlFork, "tsubame-percore"),
    under(Fcgid, "tsubame-percore"),
    under(Speedy, "tsubame-percore"),
    under(Registry, "tsubame-percore"),
    under(Registry, "tsubame-event"),
    under(PerlCgi, "apache-prefork"),
    under(PerlRun, "apache-prefork"),
    under(Fcgid, "apache-event"),
    under(Registry, "apache-prefork"),
];
