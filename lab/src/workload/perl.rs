//! The workloads of `run perl`: one application in Perl in every way that a server can run it, a connection for each request.

use super::Profile::{Fcgid, PerlCgi, PerlFork, PerlRun, Registry, Speedy};
use super::{Entry, Kind, Workload, under};
use crate::script::APPLICATION;

/// The workloads, in the order in which they are run and reported.
pub(crate) static WORKLOADS: [Workload; 1] = [Workload {
    id: "perl-app",
    title: "an application with CGI.pm and a dozen modules, 4 to 300 clients",
    kind: Kind::Script { script: &APPLICATION, connections: &[4, 50, 300] },
    entries: EVERYONE,
    peers: MOD_PERL,
}];

/// What the tables compare with.
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
