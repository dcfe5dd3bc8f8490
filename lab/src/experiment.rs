//! The experiments: each a table of workloads, a table of targets, and what a reader has to know about both.

use crate::subject::{SUBJECTS, Subject};
use crate::target::{self, Target};
use crate::workload::{self, Workload};

/// One `tsubame-lab run ...`.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// The name on the command line and in the results.
    pub(crate) id: &'static str,
    /// The heading of the report.
    pub(crate) title: &'static str,
    /// What is measured, in order.
    pub(crate) workloads: &'static [Workload],
    /// What was promised.
    pub(crate) targets: &'static [Target],
    /// How the figures come about, for the report.
    pub(crate) method: &'static str,
}

/// Every experiment.
pub(crate) static EXPERIMENTS: [&Experiment; 5] = [&HTTP, &MPM, &CGI, &PERL, &MEMORY];

/// Static files over HTTP/1.1.
pub(crate) static HTTP: Experiment = Experiment {
    id: "http",
    title: "HTTP benchmarks",
    workloads: &workload::http::WORKLOADS,
    targets: &target::http::TARGETS,
    method: HTTP_METHOD,
};

/// Multi-processing modules beside Apache's of the same name.
pub(crate) static MPM: Experiment = Experiment {
    id: "mpm",
    title: "Benchmarks of the multi-processing modules",
    workloads: &workload::mpm::WORKLOADS,
    targets: &target::mpm::TARGETS,
    method: MPM_METHOD,
};

/// Scripts.
pub(crate) static CGI: Experiment = Experiment {
    id: "cgi",
    title: "Benchmarks of CGI scripts",
    workloads: &workload::cgi::WORKLOADS,
    targets: &target::cgi::TARGETS,
    method: CGI_METHOD,
};

/// Persistent Perl.
pub(crate) static PERL: Experiment = Experiment {
    id: "perl",
    title: "Benchmarks of persistent Perl",
    workloads: &workload::perl::WORKLOADS,
    targets: &target::perl::TARGETS,
    method: PERL_METHOD,
};

/// Scripts in too little memory.
pub(crate) static MEMORY: Experiment = Experiment {
    id: "memory",
    title: "Benchmarks of scripts that need more memory than there is",
    workloads: &workload::memory::WORKLOADS,
    targets: &target::memory::TARGETS,
    method: MEMORY_METHOD,
};

impl Experiment {
    /// The experiment of that name.
    pub(crate) fn find(id: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.into_iter().find(|experiment| experiment.id == id)
    }

    /// Who takes part in at least one workload.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &'static Subject> {
        let takes_part = |subject: &&Subject| {
            let mut entries = self.workloads.iter().flat_map(|workload| workload.entries);
            entries.any(|entry| entry.subject == subject.id)
        };
        SUBJECTS.iter().filter(takes_part)
    }
}

const HTTP_METHOD: &str = "\
Each server has one core to itself, the load generator (one thread) another; both stay there. The servers take \
turns: each is started, checked (the bytes of two answers), warmed up for a second, measured and stopped before the \
next one, and only then comes the next round. Figures are medians over the rounds; ratios are taken within a round and \
then their median. **req per CPU-s** is requests per second of CPU time that all processes of the server used in the \
measured time; it is the figure to compare. req/s, p50 and p99 also depend on the load generator. Latencies are those \
in a closed loop. Errors are failed connections, timeouts and statuses above 399, of all rounds together. Memory is \
the proportional set size of all processes of the server, taken right after the load. The **floor** is an epoll loop \
that answers one fixed response to every read, without parsing. Measurements over thousands of connections are longer \
(a second for every 1500), for they include the opening of the connections. Debian's configuration is used as it is, \
including its `MaxKeepAliveRequests 100`. Idle connections have made one request each and rested for a second.";

const MPM_METHOD: &str = "\
Each server has one core to itself, the load generator another; both stay there. The servers take turns: each is \
started, checked, warmed up for a second, measured and stopped before the next one, and only then comes the next \
round. Figures are medians over the rounds; ratios are taken within a round and then their median. At a fixed rate the \
laboratory's own generator sends requests on a constant schedule, whether or not those before were answered (an open \
loop), and a latency counts from the moment at which a request was due, so that a server that stands still is not \
excused from the requests that would have come meanwhile. **CPU s per s** is the CPU time that all processes of the \
server used; *× floor* compares it with an epoll loop that answers one fixed response to every read. Errors are \
connections refused or reset, answers other than 200, and requests without an answer after five seconds, of all rounds \
together. *Replaced* counts processes that were not there when the measurement began. Over many connections it \
works as fast as it is answered; *hung* counts rounds after which a fresh request was not answered within a second. In \
a crowd, connections of every kind are opened first; then come fresh requests, one after the other, each on a \
connection of its own. Memory is the proportional set size of all processes of the server.";

const CGI_METHOD: &str = "\
Server and scripts have both cores; the load generator (one thread) shares one of them. The servers take turns: \
each is started, checked (the bodies of two answers), warmed up for a second, measured and stopped before the next one, \
and only then comes the next round. Figures are medians over the rounds; ratios are taken within a round and then their \
median. **req per CPU-s** is requests per second of CPU time that all processes of the server and all scripts used, \
however short their lives; it is the figure to compare. Each request has a connection of its own. The **floor** has a \
process for each core that does nothing but accept, read, start the script with posix_spawn, read what it says, wait for \
it, answer and close. Errors are failed connections, timeouts (five seconds) and statuses above 399, of all rounds \
together. *Busiest* is the share of a core that the server's busiest thread used, of those that lived through the \
measurement; *idle* is the share of both cores that nobody used: a thread near 1 while there is something idle is the \
bottleneck. Everybody has 256 workers, where there are workers; percore and lighttpd have none.";

const PERL_METHOD: &str = "\
One Perl application (CGI.pm, a dozen modules, a page with a table of twenty rows) in every way that a server can run it. \
Server and interpreters have both cores; the load generator (one thread) shares one of them. The servers take \
turns: each is started, checked (the bodies of two answers), warmed up for a second, measured and stopped before the next \
one, and only then comes the next round. Figures are medians over the rounds; ratios are taken within a round and then \
their median. **req per CPU-s** is requests per second of CPU time that all processes of the server used, interpreters and \
scripts included; it is the figure to compare. Each request has a connection of its own. Errors are failed connections, \
timeouts (five seconds) and statuses above 399, of all rounds together. Apache has 16 workers, and Tsubame's pools their \
own sizes; mod_fcgid has at most 8 processes on both. mod_perl2 and Registry load CGI.pm beforehand (`PerlModule`).";

const MEMORY_METHOD: &str = "\
Server and scripts live in a memory control group of 1 GB and have one core to themselves; clients have another. The \
servers take turns: each is started, checked, measured for three times the given seconds and stopped before the next one, \
and only then comes the next round. Figures are medians over the rounds, ratios are taken within a round and then their \
median. Each client asks for a script, waits for the whole answer and asks again, on a connection of its own each time; \
when time is up the last answers are waited for, and **req/s** is good answers by the time until the last of them. One \
that fails waits for a tenth of a second, so that failing fast is no advantage. Failures are connections not \
established or broken, other answers than the right one, and answers that take longer than two minutes. Meanwhile 50 \
requests per second for a file of 31 bytes come on a constant schedule, each on a connection of its own; latencies count \
from the moment at which a request was due, and five seconds without an answer are a failure. *At the limit* counts \
how often the group wanted more memory than it had, *killed* processes that the kernel ended for that, *faults* pages that \
had to be read from disk, *swapped* pages that the machine swapped out meanwhile; *peak* is the most memory that the \
group had in use, with what it has read of files.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_experiments_and_their_workloads_are_unique() {
        for experiment in EXPERIMENTS {
            assert_eq!(Experiment::find(experiment.id).map(|found| found.title), Some(experiment.title));
            for workload in experiment.workloads {
                assert_eq!(workload::find(workload.id).map(|found| found.title), Some(workload.title));
            }
        }
    }

    #[test]
    fn only_those_who_take_part_are_subjects() {
        assert_eq!(HTTP.subjects().count(), SUBJECTS.len() - 1);
        assert!(HTTP.subjects().all(|subject| subject.id != "floor-spawn"));
        let own = ["floor", "tsubame-", "apache-"];
        assert!(MPM.subjects().all(|subject| own.iter().any(|prefix| subject.id.starts_with(prefix))));
    }
}
