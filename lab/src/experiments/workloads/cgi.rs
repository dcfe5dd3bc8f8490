//! The workloads of `run cgi`: scripts that say hello, a connection for each request.

use crate::experiments::profile::Profile::{Cgi, Cgid};
use crate::experiments::profile::{Entry, bare, under};
use crate::experiments::workload::{LoadShape, Workload};
use crate::machine::script::{HELLO_BARE, HELLO_DYNAMIC, HELLO_PERL, HELLO_STATIC};

/// The workloads, in the order in which they are run and reported.
pub(crate) static WORKLOADS: [Workload; 4] = [
    Workload {
        id: "cgi-static",
        title: "statically linked C hello, 100 to 1 000 clients",
        shape: LoadShape::Script { script: &HELLO_STATIC, connections: &[100, 300, 1000] },
        entries: EVERYONE,
        peers: APACHE,
    },
    Workload {
        id: "cgi-bare",
        title: "C hello without a C library, 100 clients",
        shape: LoadShape::Script { script: &HELLO_BARE, connections: &[100] },
        entries: EVERYONE,
        peers: APACHE,
    },
    Workload {
        id: "cgi-dynamic",
        title: "dynamically linked C hello, 100 clients",
        shape: LoadShape::Script { script: &HELLO_DYNAMIC, connections: &[100] },
        entries: EVERYONE,
        peers: APACHE,
    },
    Workload {
        id: "cgi-perl",
        title: "Perl hello, 100 clients",
        shape: LoadShape::Script { script: &HELLO_PERL, connections: &[100] },
        entries: EVERYONE,
        peers: APACHE,
    },
];

/// The base of comparisons in the tables.
const APACHE: &[Entry] = &[under(Cgi, "apache-prefork")];

/// All subjects that run scripts; the floor first.
const EVERYONE: &[Entry] = &[
    bare("floor-spawn"),
    under(Cgi, "tsubame-percore"),
    under(Cgi, "tsubame-prefork"),
    under(Cgi, "tsubame-worker"),
    under(Cgi, "tsubame-event"),
    under(Cgid, "tsubame-percore"),
    under(Cgid, "tsubame-prefork"),
    under(Cgid, "tsubame-worker"),
    under(Cgid, "tsubame-event"),
    under(Cgi, "lighttpd"),
    under(Cgi, "apache-prefork"),
    under(Cgid, "apache-worker"),
    under(Cgid, "apache-event"),
];
