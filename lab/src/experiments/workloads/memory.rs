//! The workloads of `run memory`: scripts that need more memory than there is, and requests for files meanwhile.

use crate::experiments::profile::Profile::{FourWorkers, Unconfigured};
use crate::experiments::profile::{Entry, under};
use crate::experiments::workload::{LoadShape, MemoryPressure, Workload};
use crate::machine::script::{CHILD, GROWING, LOAD_200, LOADS};

/// The memory of the virtual machine in an article about MaxClients and scripts of 200 MB, with a program like ours
/// (<https://github.com/kunihirotanaka/loadcgi>).
const MEMORY: u64 = 1 << 30;

/// The workloads, in the order in which they are run and reported.
pub(crate) static WORKLOADS: [Workload; 6] = [
    workload("memory-10", "scripts of 200 MB in 1 GB, 10 clients", &[&LOAD_200], "", 10),
    workload("memory-100", "scripts of 200 MB in 1 GB, 100 clients", &[&LOAD_200], "", 100),
    workload("memory-lock", "scripts of 200 MB that wait for a lock, 10 clients", &[&LOAD_200], "/lock", 10),
    workload("memory-mix", "ten scripts of 20 to 200 MB in 1 GB, 20 clients", &LOADS, "", 20),
    workload("memory-growing", "a script that grows from 10 to 400 MB in its runs, 10 clients", &[&GROWING], "", 10),
    workload("memory-child", "a script whose child has the 200 MB, 10 clients", &[&CHILD], "", 10),
];

const fn workload(
    id: &'static str,
    title: &'static str,
    scripts: &'static [&'static crate::machine::script::Script],
    path_info: &'static str,
    clients: u32,
) -> Workload {
    let memory_pressure = MemoryPressure { scripts, path_info, clients, memory: MEMORY, files_per_second: 50 };
    Workload { id, title, shape: LoadShape::MemoryPressure(memory_pressure), entries: EVERYONE, peers: TUNED }
}

/// Apache, tuned by hand for this script and this machine.
const TUNED: &[Entry] = &[under(FourWorkers, "apache-prefork")];

/// All without a number in their configuration, except for the one tuned by hand.
const EVERYONE: &[Entry] = &[
    under(Unconfigured, "tsubame-percore"),
    under(Unconfigured, "tsubame-prefork"),
    under(Unconfigured, "tsubame-worker"),
    under(Unconfigured, "tsubame-event"),
    under(FourWorkers, "apache-prefork"),
    under(Unconfigured, "apache-prefork"),
    under(Unconfigured, "lighttpd"),
];
