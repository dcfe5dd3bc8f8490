//! The figures in the articles. tidy: table

use super::{Counterpart, Metric, Published, Row};
use crate::experiments::profile::Profile::{
    Bare, Cgi, Cgid, Event1Worker, Event4Children, Event4Workers, Event243, EventSmall, EventThreads, Fcgid,
    FourWorkers, ManyConnections, PerlCgi, Registry, Speedy, Unconfigured,
};
use crate::experiments::profile::{Profile, under};
use crate::measure::results::{CoreUse, Load};

/// The tables, in the order of the articles.
pub(crate) static PUBLISHED: [Published; 9] = [
    Published {
        experiment: "cgi-mpm",
        title: "A CGI program that says hello: weighttp -k -c 300 -n 1000000, then -c 1000 -n 10000000",
        machine: "24 cores, 32 GB, Apache 2.4, 2 048 workers",
        here: "Here are two cores and 256 workers, and each request has a connection of its own.",
        peer: "Apache",
        metrics: &[REQUESTS, BUSIEST],
        base: 0,
        rows: &[
            Row {
                remark: "155 requests failed",
                ..cgi("worker with mod_cgid, 300 clients", &[1774.0, 99.7], 300, WORKER)
            },
            cgi("prefork with mod_cgi, 300 clients", &[3292.0, 2.6], 300, PREFORK),
            cgi("prefork with mod_cgi, 1 000 clients", &[3258.0, 1.0], 1000, PREFORK),
        ],
    },
    Published {
        experiment: "memory",
        title: "A CGI program that takes 200 MB: ab -n 1000 -c 10",
        machine: "a virtual machine with 1 GB of memory and swap, CentOS 7.4 and its Apache",
        here: "Here server and scripts have 1 GB and one core. Tsubame has no number of workers in its configuration; where the \
               article set MaxClients, Tsubame's column is empty, and its ratios are to Apache with that setting.",
        peer: "Apache",
        metrics: &[
            REQUESTS,
            Metric { name: "shortest, ms", figure: |load| load.min_us as f64 / 1000.0, ..MILLISECONDS },
            Metric { name: "mean, ms", figure: |load| load.mean_us / 1000.0, ..MILLISECONDS },
            Metric { name: "median, ms", figure: |load| load.p50_us as f64 / 1000.0, ..MILLISECONDS },
            Metric { name: "longest, ms", figure: |load| load.max_us as f64 / 1000.0, ..MILLISECONDS },
        ],
        base: 2,
        rows: &[
            Row {
                name: "1 client",
                figures: &[11.40, 73.0, 88.0, 87.0, 123.0],
                same: Err("one client cannot run out of memory"),
                tsubame: Err("one client cannot run out of memory"),
                ..ROW
            },
            Row {
                name: "10 clients, MaxClients as installed",
                figures: &[1.49, 87.0, 6711.0, 6721.0, 10654.0],
                remark: "up to 738 MB of swap were in use",
                workload: "memory-10",
                connections: 10,
                same: beside(Unconfigured, "apache-prefork"),
                tsubame: beside(Unconfigured, "tsubame-prefork"),
            },
            Row {
                name: "10 clients, MaxClients 4",
                figures: &[10.94, 98.0, 909.0, 900.0, 1171.0],
                workload: "memory-10",
                connections: 10,
                same: beside(FourWorkers, "apache-prefork"),
                ..ROW
            },
            Row {
                name: "10 clients, scripts that wait for a lock",
                figures: &[11.03, 109.0, 902.0, 902.0, 1024.0],
                workload: "memory-lock",
                connections: 10,
                same: beside(Unconfigured, "apache-prefork"),
                tsubame: beside(Unconfigured, "tsubame-prefork"),
                ..ROW
            },
        ],
    },
    Published {
        title: "A file of some dozens of bytes: ab -c 100 -n 100000, both as installed",
        rows: &[nginx("nginx, 1 process", &[14708.75]), event("event, defaults of 2.4.3", &[10746.47], Event243)],
        ..EVENT_AND_NGINX
    },
    Published {
        title: "The same, both tuned",
        rows: &[
            nginx("nginx, 4 processes", &[17021.03]),
            event("event, ThreadsPerChild 2, MaxRequestWorkers 2", &[18682.31], EventSmall),
            event("event, both 4", &[13777.59], Event4Workers),
            event("event, both 1", &[9058.07], Event1Worker),
            event("event, ThreadsPerChild 1, MaxRequestWorkers 4", &[12949.39], Event4Children),
        ],
        ..EVENT_AND_NGINX
    },
    Published {
        title: "The same, 20 000 connections",
        here: "Here each server has one core, and connections stay. The article's curve from 100 to 5 000 connections is a \
               picture, which has no figures.",
        rows: &[
            Row {
                workload: "event-large",
                connections: 20_000,
                same: beside(ManyConnections, "nginx"),
                ..nginx("nginx, 4 processes", &[7368.6])
            },
            Row {
                workload: "event-large",
                connections: 20_000,
                ..event("event, children of 100 threads", &[4265.17], EventThreads)
            },
        ],
        ..EVENT_AND_NGINX
    },
    Published {
        experiment: "perl",
        title: "adiary, a diary in Perl: ab -n100 -c4",
        machine: "Pentium III of 800 MHz, FreeBSD 6.1, Apache 2.2 with prefork, 2006",
        here: "Here is an application of the laboratory's own, on two cores. Tsubame runs percore.",
        peer: "Apache",
        metrics: &[
            REQUESTS,
            Metric { name: "ms per request", figure: |load| 1000.0 / load.per_second(), ..MILLISECONDS },
        ],
        base: 0,
        rows: &[
            perl("cgi", &[2.10, 477.270], beside(PerlCgi, "apache-prefork"), beside(PerlCgi, "tsubame-percore")),
            perl("speedycgi", &[15.19, 65.825], NO_PACKAGE, Err("it is measured as mod_speedycgi")),
            perl("mod_speedycgi", &[26.41, 37.863], NO_PACKAGE, beside(Speedy, "tsubame-percore")),
            perl("mod_fastcgi", &[21.28, 46.990], NO_PACKAGE, Err("FastCGI is measured as mod_fcgid")),
            perl("mod_fcgid", &[21.21, 47.157], beside(Fcgid, "apache-event"), beside(Fcgid, "tsubame-percore")),
            perl(
                "mod_perl2",
                &[26.69, 37.473],
                beside(Registry, "apache-prefork"),
                beside(Registry, "tsubame-percore"),
            ),
            perl("text file", &[196.7, 5.084], Err("run http measures files"), Err("run http measures files")),
        ],
    },
    Published {
        title: "A file of 31 bytes at a fixed rate: 2 x httperf --num-conns 200000 --rate 2000",
        metrics: &[
            USER,
            SYSTEM,
            IOWAIT,
            IDLE,
            Metric { name: "longest connection, ms", figure: |load| load.max_us as f64 / 1000.0, ..MILLISECONDS },
        ],
        rows: &[
            threads("worker", &[13.09, 18.91, 0.09, 67.92, 4.8], "threads-rate", WORKER_MPM),
            threads("event", &[13.23, 19.10, 0.09, 67.59, 4.8], "threads-rate", EVENT_MPM),
        ],
        ..EVENT_AND_WORKER
    },
    Published {
        title: "The same as fast as ab can, without keep-alive",
        rows: &[
            threads("worker", &[24.19, 37.66, 0.27, 37.88], "threads-close", WORKER_MPM),
            threads("event", &[36.56, 53.04, 0.34, 10.06], "threads-close", EVENT_MPM),
        ],
        ..EVENT_AND_WORKER
    },
    Published {
        title: "The same with keep-alive",
        rows: &[
            threads("worker", &[23.42, 25.28, 0.15, 51.14], "threads-kept", WORKER_MPM),
            Row {
                remark: "some requests failed",
                ..threads("event", &[42.74, 51.03, 0.14, 6.09], "threads-kept", EVENT_MPM)
            },
        ],
        ..EVENT_AND_WORKER
    },
];

const REQUESTS: Metric = Metric { name: "requests/s", lower_is_better: Some(false), figure: Load::per_second };
const BUSIEST: Metric = Metric {
    name: "CPU of the busiest process, % of a core",
    lower_is_better: None,
    figure: |load| load.busiest * 100.0,
};
const MILLISECONDS: Metric = Metric { name: "", lower_is_better: Some(true), figure: |load| load.p50_us as f64 };

const USER: Metric = Metric { name: "%user", lower_is_better: None, figure: |load| core(load).user };
const SYSTEM: Metric = Metric { name: "%system", lower_is_better: None, figure: |load| core(load).system };
const IOWAIT: Metric = Metric { name: "%iowait", lower_is_better: None, figure: |load| core(load).iowait };
const IDLE: Metric = Metric { name: "%idle", lower_is_better: None, figure: |load| core(load).idle };

/// The use of the server's core; not a number in results that lack it.
fn core(load: &Load) -> CoreUse {
    const NOT_TOLD: CoreUse =
        CoreUse { user: f64::NAN, nice: f64::NAN, system: f64::NAN, iowait: f64::NAN, steal: f64::NAN, idle: f64::NAN };
    load.averages.map_or(NOT_TOLD, |averages| averages.core)
}

/// Debian had these packages in 2006, but has them no longer.
const NO_PACKAGE: Counterpart = Err("there is no Debian package");

const ROW: Row =
    Row { name: "", figures: &[], remark: "", workload: "", connections: 0, same: Err(""), tsubame: Err("") };

const EVENT_AND_NGINX: Published = Published {
    experiment: "event-vs-nginx",
    title: "",
    machine: "4 cores of a Xeon X5355 of 2.66 GHz, 8 GB, Apache 2.4.3, nginx 1.2.3, 2012",
    here: "Here each server has one core, so nginx has one process.",
    peer: "the same",
    metrics: &[REQUESTS],
    base: 0,
    rows: &[],
};

const EVENT_AND_WORKER: Published = Published {
    experiment: "event-vs-worker",
    title: "",
    machine: "a server with CentOS 5 and Apache 2.4, clients on another machine, a network of 100 Mbit/s, 2014",
    here: "Here it is the use of the core that the server has to itself; the clients have the other. The article's requests per \
           second are a picture, which has no figures.",
    peer: "Apache",
    metrics: &[USER, SYSTEM, IOWAIT, IDLE],
    base: 0,
    rows: &[],
};

const fn beside(profile: Profile, subject: &'static str) -> Counterpart {
    Ok(under(profile, subject))
}

const WORKER: [Counterpart; 2] = [beside(Cgid, "apache-worker"), beside(Cgid, "tsubame-worker")];
const PREFORK: [Counterpart; 2] = [beside(Cgi, "apache-prefork"), beside(Cgi, "tsubame-prefork")];

const WORKER_MPM: [Counterpart; 2] = [beside(Bare, "apache-worker"), beside(Bare, "tsubame-worker")];
const EVENT_MPM: [Counterpart; 2] = [beside(Bare, "apache-event"), beside(Bare, "tsubame-event")];

const fn threads(
    name: &'static str,
    figures: &'static [f64],
    workload: &'static str,
    [same, tsubame]: [Counterpart; 2],
) -> Row {
    Row { name, figures, workload, connections: 100, same, tsubame, ..ROW }
}

const fn cgi(name: &'static str, figures: &'static [f64], connections: u32, [same, tsubame]: [Counterpart; 2]) -> Row {
    Row { name, figures, workload: "cgi-mpm", connections, same, tsubame, ..ROW }
}

/// Tsubame's counterpart for event; nginx has none.
const fn nginx(name: &'static str, figures: &'static [f64]) -> Row {
    Row { name, figures, workload: "event-small", connections: 100, same: beside(Bare, "nginx"), ..ROW }
}

const fn event(name: &'static str, figures: &'static [f64], profile: Profile) -> Row {
    let (same, tsubame) = (beside(profile, "apache-event"), beside(profile, "tsubame-event"));
    Row { name, figures, workload: "event-small", connections: 100, same, tsubame, ..ROW }
}

const fn perl(name: &'static str, figures: &'static [f64], same: Counterpart, tsubame: Counterpart) -> Row {
    Row { name, figures, workload: "perl-app", connections: 4, same, tsubame, ..ROW }
}
