//! The experiments: each a table of workloads, and the explanations for it.

use crate::experiments::subject::{SUBJECTS, Subject};
use crate::experiments::workload::Workload;
use crate::experiments::workloads;

/// One `tsubame-lab run ...`.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// The name on the command line and in the results.
    pub(crate) id: &'static str,
    /// The heading of the report.
    pub(crate) title: &'static str,
    /// The workloads to measure, in order.
    pub(crate) workloads: &'static [Workload],
    /// How the figures are obtained, for the report.
    pub(crate) method: &'static str,
}

/// Every experiment.
pub(crate) static EXPERIMENTS: [&Experiment; 13] = [
    &HTTP,
    &MPM,
    &TLS,
    &PROXIES,
    &MANY_HOSTS,
    &CGI,
    &PERL,
    &MEMORY,
    &CGI_MPM,
    &EVENT_VS_NGINX,
    &CONCURRENCY,
    &EVENT_VS_WORKER,
    &RECYCLING,
];

/// Experiments that repeat a published experiment: `run seeds`.
pub(crate) static SEEDS: [&Experiment; 7] =
    [&CGI_MPM, &MEMORY, &EVENT_VS_NGINX, &CONCURRENCY, &PERL, &EVENT_VS_WORKER, &RECYCLING];

/// Static files over HTTP/1.1.
pub(crate) static HTTP: Experiment =
    Experiment { id: "http", title: "HTTP benchmarks", workloads: &workloads::http::WORKLOADS, method: HTTP_METHOD };

/// Multi-processing modules beside Apache's of the same name.
pub(crate) static MPM: Experiment = Experiment {
    id: "mpm",
    title: "Benchmarks of the multi-processing modules",
    workloads: &workloads::mpm::WORKLOADS,
    method: MPM_METHOD,
};

/// TLS and HTTP/2.
pub(crate) static TLS: Experiment = Experiment {
    id: "tls",
    title: "Benchmarks of TLS and HTTP/2",
    workloads: &workloads::tls::WORKLOADS,
    method: TLS_METHOD,
};

/// Requests that are passed on, stored, and spread over several servers.
pub(crate) static PROXIES: Experiment = Experiment {
    id: "proxies",
    title: "Benchmarks of proxies",
    workloads: &workloads::proxies::WORKLOADS,
    method: PROXIES_METHOD,
};

/// Hosts, lines and certificates by the thousand.
pub(crate) static MANY_HOSTS: Experiment = Experiment {
    id: "many-hosts",
    title: "Benchmarks of large configurations",
    workloads: &workloads::many::WORKLOADS,
    method: MANY_HOSTS_METHOD,
};

/// Scripts.
pub(crate) static CGI: Experiment = Experiment {
    id: "cgi",
    title: "Benchmarks of CGI scripts",
    workloads: &workloads::cgi::WORKLOADS,
    method: CGI_METHOD,
};

/// Persistent Perl.
pub(crate) static PERL: Experiment = Experiment {
    id: "perl",
    title: "Benchmarks of persistent Perl",
    workloads: &workloads::perl::WORKLOADS,
    method: PERL_METHOD,
};

/// Scripts in too little memory.
pub(crate) static MEMORY: Experiment = Experiment {
    id: "memory",
    title: "Benchmarks of scripts that need more memory than there is",
    workloads: &workloads::memory::WORKLOADS,
    method: MEMORY_METHOD,
};

/// CGI under each multi-processing module.
pub(crate) static CGI_MPM: Experiment = Experiment {
    id: "cgi-mpm",
    title: "CGI under prefork, worker and event",
    workloads: &workloads::seeds::CGI_MPM,
    method: CGI_MPM_METHOD,
};

/// event beside nginx.
pub(crate) static EVENT_VS_NGINX: Experiment = Experiment {
    id: "event-vs-nginx",
    title: "event beside nginx, under published settings",
    workloads: &workloads::seeds::EVENT_VS_NGINX,
    method: EVENT_VS_NGINX_METHOD,
};

/// Requests per second against the number of connections.
pub(crate) static CONCURRENCY: Experiment = Experiment {
    id: "concurrency",
    title: "Requests per second against the number of connections",
    workloads: &workloads::seeds::CONCURRENCY,
    method: CONCURRENCY_METHOD,
};

/// event beside worker.
pub(crate) static EVENT_VS_WORKER: Experiment = Experiment {
    id: "event-vs-worker",
    title: "event beside worker, at a fixed rate and as fast as it goes",
    workloads: &workloads::seeds::EVENT_VS_WORKER,
    method: EVENT_VS_WORKER_METHOD,
};

/// Children that are replaced all at once.
pub(crate) static RECYCLING: Experiment = Experiment {
    id: "recycling",
    title: "What it costs to replace children",
    workloads: &[workloads::mpm::RECYCLE],
    method: RECYCLING_METHOD,
};

impl Experiment {
    /// The experiment of that name.
    pub(crate) fn find(id: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.into_iter().find(|experiment| experiment.id == id)
    }

    /// The subjects of at least one workload.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &'static Subject> {
        let takes_part = |subject: &&Subject| {
            let mut entries = self.workloads.iter().flat_map(|workload| workload.entries);
            entries.any(|entry| entry.subject == subject.id)
        };
        SUBJECTS.iter().filter(takes_part)
    }
}

/// The workload of that name.
pub(crate) fn find_workload(id: &str) -> Option<&'static Workload> {
    EXPERIMENTS.into_iter().flat_map(|experiment| experiment.workloads).find(|workload| workload.id == id)
}

const HTTP_METHOD: &str = "\
Each server has one core to itself, the load generator (one thread) another; both stay there. The servers take \
turns: each is started, checked (the bytes of two responses), warmed up for a second, measured and stopped before the \
next one, and only then comes the next round. Figures are medians over the rounds; ratios are those of the medians, \
and their \
intervals come from the ratios of each round. **req per CPU-s** is requests per second of CPU time that all \
processes of the server used in the \
measured time; it is the figure to compare. req/s, p50 and p99 also depend on the load generator. Latencies are those \
in a closed loop. Errors are failed connections, timeouts and statuses above 399, of all rounds together. Memory is \
the proportional set size of all processes of the server, taken right after the load. The **floor** is an epoll loop \
that answers one fixed response to every read, without parsing. Measurements over thousands of connections are longer \
(a second for every 1500), for they include the opening of the connections. Debian's configuration is used as it is, \
including its `MaxKeepAliveRequests 100`. Idle connections have made one request each and rested for a second.";

const MPM_METHOD: &str = "\
Each server has one core to itself, the load generator another; both stay there. The servers take turns: each is \
started, checked, warmed up for a second, measured and stopped before the next one, and only then comes the next \
round. Figures are medians over the rounds; ratios are those of the medians, and their \
intervals come from the ratios of each round. At a fixed rate the \
laboratory's own generator sends requests on a constant schedule, whether or not those before were answered (an open \
loop), and a latency counts from the moment at which a request was due, so that a server that stands still is not \
excused from the requests that would have come meanwhile. **CPU s per s** is the CPU time that all processes of the \
server used; *× floor* compares it with an epoll loop that answers one fixed response to every read. Errors are \
connections refused or reset, responses other than 200, and requests without a response after five seconds, of all rounds \
together. *Replaced* counts processes that were not there when the measurement began. Over many connections it \
works as fast as it is answered; *hung* counts rounds after which a fresh request was not answered within a second. In \
a crowd, connections of every kind are opened first; then come fresh requests, one after the other, each on a \
connection of its own. Memory is the proportional set size of all processes of the server.";

const TLS_METHOD: &str = "\
Each server has one core to itself, the load generator (one thread) another; both stay there. The servers take turns: \
each is started, checked (the bytes of two responses), warmed up for a second, measured and stopped before the next one, \
and only then comes the next round. Figures are medians over the rounds; ratios are those of the medians, and their \
intervals come from the ratios of each round. **req per CPU-s** is requests per second of CPU time that all \
processes of the server used; it is the figure to \
compare, the more so as the generator has to do the other half of each handshake. All servers show the same \
certificate \
(ECDSA, P-256), and clients offer TLS 1.3 with X25519 and TLS_AES_128_GCM_SHA256 alone, so that all servers compute \
the same; they verify nothing. Sessions are resumed by tickets, which every server makes itself; handshakes that were \
full all the same are among the reasons to doubt a run. HTTP/2 is agreed on by ALPN, and the bodies of all its responses \
are compared. Errors are failed connections and handshakes, timeouts and statuses above 399, of all rounds together. \
Idle connections have made one request each and rested for a second; memory is the proportional set size of all processes of the server.";

const PROXIES_METHOD: &str = "\
Each server has one core to itself; the load generator (one thread) has another, together with the origins, which are \
nginx in one process each, reached over TCP on the loopback. What origins use is not counted as the server's. The \
servers take turns: each is started, checked (the bytes of two responses), warmed up for a second, measured and stopped \
before the next one, and only then comes the next round. Figures are medians over the rounds; ratios are those of the \
medians, and their intervals come from the ratios of each round. **req per CPU-s** is requests per second of CPU time \
that all processes of the server used; it is the figure to compare. Every server keeps its connections to the origin, \
adds X-Forwarded-For, and has no access log. Over TLS all show the same certificate, and both sides are TLS 1.3 with \
TLS_AES_128_GCM_SHA256; a proxy verifies the origin's certificate and name. From the store come responses that are fresh \
for a day; nginx, Apache and Tsubame store in files, Varnish in memory. *New connections* are those that the origin has \
accepted from a server since its start, counted by the origin. Where origins fail, requests come on a constant \
schedule, whether or not those before were answered, and a latency counts from the moment at which a request was due. A \
second begins with a quarter in which all origins are well; then one stands still, or stands still for 50 ms and is then \
killed, so that it takes requests with it; in the last quarter it is back. Balancers choose the origin with the fewest \
requests, and let one rest for a second after it failed. Errors are connections refused or reset, statuses above 399, and \
requests without a response after five seconds, of all rounds together.";

const MANY_HOSTS_METHOD: &str = "\
Each server has one core to itself, the load generator (one thread, 16 connections) another; both stay there. The \
servers take turns: each is started, checked, warmed up for a second, measured and stopped before the next one, and only \
then comes the next round. Figures are medians over the rounds; ratios are those of the medians, and their intervals \
come from the ratios of each round. \
**req per CPU-s** is requests per second of CPU time that all processes of the server used. *Start* is the time from \
the start of the program to its first response, which has to be the right one, *PSS then* the proportional set size of all processes at that \
moment, *PSS after* the same after the load. *Of the fewest* compares a server with itself in the first row. Each host \
has three names and the same files. Where all are requested, each was requested once before, as far as ten seconds \
suffice, and then they take turns in a mixed order; of a million lines a tenth. nginx has no Redirect \
and no RewriteMap: it has a `map` of paths, and `return` or `rewrite` with its result. Each certificate has a key of its own (P-256); \
handshakes are TLS 1.3 with X25519 and TLS_AES_128_GCM_SHA256.";

const CGI_METHOD: &str = "\
Server and scripts have both cores; the load generator (one thread) shares one of them. The servers take turns: \
each is started, checked (the bodies of two responses), warmed up for a second, measured and stopped before the next \
one, \
and only then comes the next round. Figures are medians over the rounds; ratios are those of the medians, and their \
intervals come from the ratios of each round. **req per CPU-s** is requests per second of CPU time that all \
processes of the server and all scripts used, \
however short their lives; it is the figure to compare. Each request has a connection of its own. The **floor** has a \
process for each core that does nothing but accept, read, start the script with posix_spawn, read what it says, wait \
for \
it, answer and close. Errors are failed connections, timeouts (five seconds) and statuses above 399, of all rounds \
together. *Busiest* is the share of a core that the server's busiest thread used, of those that lived through the \
measurement; *idle* is the share of both cores that nothing used: a thread near 1 while there is something idle is the \
bottleneck. Every server has 256 workers, where there are workers; percore and lighttpd have none.";

const PERL_METHOD: &str = "\
After a comparison of 2006 of the ways to keep a Perl CGI in memory. One Perl application (CGI.pm, a dozen modules, a page with a table of twenty rows) in every way that a server can run it. \
Server and interpreters have both cores; the load generator (one thread) shares one of them. The servers take \
turns: each is started, checked (the bodies of two responses), warmed up for a second, measured and stopped before the \
next \
one, and only then comes the next round. Figures are medians over the rounds; ratios are those of the medians, and \
their \
intervals come from the ratios of each round. **req per CPU-s** is requests per second of CPU time that all \
processes of the server used, interpreters and \
scripts included; it is the figure to compare. Each request has a connection of its own. Errors are failed \
connections, \
timeouts (five seconds) and statuses above 399, of all rounds together. Apache has 16 workers, and Tsubame's pools \
their \
own sizes; mod_fcgid has at most 8 processes on both. mod_perl2 and Registry load CGI.pm beforehand (`PerlModule`).";

const MEMORY_METHOD: &str = "\
After an article on MaxClients and scripts of 200 MB (https://github.com/kunihirotanaka/loadcgi). Server and scripts live in a memory control group of 1 GB and have one core to themselves; clients have another. The \
servers take turns: each is started, checked, measured for three times the given seconds and stopped before the next \
one, \
and only then comes the next round. Figures are medians over the rounds, ratios are those of the medians, and their \
intervals come from the ratios of each round. Each client asks for a script, waits for the whole response and asks \
again, on a connection of its own each time; \
when time is up the last responses are waited for, and **req/s** is good responses by the time until the last of them. One \
that fails waits for a tenth of a second, so that failing fast is no advantage. Failures are connections not \
established or broken, other responses than the right one, and responses that take longer than two minutes. Meanwhile 50 \
requests per second for a file of 31 bytes come on a constant schedule, each on a connection of its own; latencies \
count \
from the moment at which a request was due, and five seconds without a response are a failure. *At the limit* counts \
how often the group wanted more memory than it had, *killed* processes that the kernel ended for that, *faults* \
pages that \
had to be read from disk, *swapped* pages that the machine swapped out meanwhile; *peak* is the most memory that the \
group had in use, with what it has read of files.";

const CGI_MPM_METHOD: &str = "\
After an article on running CGI with prefork and on tuning it, in which prefork with mod_cgi answered nearly twice as \
many requests as worker with mod_cgid, whose one daemon was the limit, on 24 cores with 2 048 workers. Here every \
server has 256 workers, as many as the machine has memory for, and each request has a connection of its own: the \
article's clients kept theirs, and then as many of them as exceed the workers of prefork only wait. \
Server and scripts have two cores; the load \
generator (one thread) shares one of them. The servers take turns; figures are medians over the rounds, and ratios are \
those of the medians. *Busiest* is the share of a core that the server's busiest thread used: a thread near 1 while \
something is *idle* is the bottleneck, which is what the article saw in the daemon.";

const EVENT_VS_NGINX_METHOD: &str = "\
After a comparison of event in Apache 2.4.3 with nginx 1.2.3 (https://blog.matsumoto-r.jp), with its settings: the defaults \
of the day, 2 workers (its best), and three variants for 100 clients; for thousands, children of 2, of 100 and of \
256 threads. \
There were four cores, and nginx had a process for each; here each server has one core to itself, so nginx has one \
process, \
and the load generator another. For 100 clients each request has a connection of its own, as with ab; for thousands \
connections stay. The servers take turns; figures are medians over the rounds, and ratios are those of the medians. A \
server that leaves too little of the machine's memory to others is ended, which *Not measured* tells; *hung* counts \
rounds after which a fresh request was not answered within a second.";

const CONCURRENCY_METHOD: &str = "\
The curve of the comparison of event with nginx (https://blog.matsumoto-r.jp), from one connection to 20 000, where ab \
stops. Each server has one core to itself, the load generator another. event has the settings that the comparison \
ended with, \
children of 256 threads; nginx has room for 60 000 connections. Connections stay. With one connection the figure is \
the \
time of one response; with thousands a measurement takes longer (a second for every 1 500), for it includes their \
opening. \
The servers take turns; figures are medians over the rounds, and ratios are those of the medians.";

const EVENT_VS_WORKER_METHOD: &str = "\
After an article of 2014 on event and worker in Apache 2.4, which asked for 2 × 2 000 requests per second with httperf, a connection \
for each, and then as fast as ab could with and without keep-alive; its network of 100 Mbit/s was the limit, as it \
says, and \
event had failed requests. Here both talk over the loopback, and each server has one core to itself, the load \
generator \
another. At a fixed rate **CPU s per s** is what to compare, and latencies count from the moment at which a request \
was due. Both have one process; worker has 128 threads and event 64. The servers take turns; figures are medians over \
the rounds, and ratios are those of the medians.";

const RECYCLING_METHOD: &str = "\
After an article on running CGI with prefork, which makes start, spare and maximum the same number and warns that all \
children then reach MaxConnectionsPerChild nearly at once. Here they are 50 workers that are replaced every second \
or two, \
beside the same without, at a fixed rate of 1 000 requests per second, 10 on a connection. Each server has one core \
to itself, the \
load generator another. Latencies count from the moment at which a request was due, so a server that stands still is \
charged \
with all of that time. *Replaced* counts processes that were not there when the measurement began.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_experiments_and_their_workloads_are_unique() {
        for experiment in EXPERIMENTS {
            assert_eq!(Experiment::find(experiment.id).map(|found| found.title), Some(experiment.title));
            for workload in experiment.workloads {
                assert_eq!(find_workload(workload.id).map(|found| found.title), Some(workload.title));
            }
        }
    }

    #[test]
    fn the_tables_name_existing_subjects_once() {
        for workload in EXPERIMENTS.into_iter().flat_map(|experiment| experiment.workloads) {
            for (index, entry) in workload.entries.iter().enumerate() {
                assert!(crate::experiments::subject::find(entry.subject).is_some(), "{entry:?}");
                assert!(!workload.entries[..index].contains(entry), "{entry:?} twice in {}", workload.id);
            }
            for peer in workload.peers {
                assert!(workload.entries.contains(peer), "{peer:?} is not measured in {}", workload.id);
            }
        }
    }

    #[test]
    fn only_those_who_take_part_are_subjects() {
        let elsewhere = ["floor-spawn", "haproxy", "varnish"];
        assert_eq!(HTTP.subjects().count(), SUBJECTS.len() - elsewhere.len());
        assert!(HTTP.subjects().all(|subject| !elsewhere.contains(&subject.id)));
        assert!(SEEDS.iter().all(|seed| Experiment::find(seed.id).is_some_and(|found| std::ptr::eq(found, *seed))));
        assert!(TLS.subjects().any(|subject| subject.id == "floor"));
        let own = ["floor", "tsubame-", "apache-"];
        assert!(MPM.subjects().all(|subject| own.iter().any(|prefix| subject.id.starts_with(prefix))));
    }
}
