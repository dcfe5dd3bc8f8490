//! The machine and the programs on it: what the kernel counts, how a process is started, confined and measured.

pub(crate) mod accounting;
pub(crate) mod balance;
pub(crate) mod cgroup;
pub(crate) mod descriptors;
pub(crate) mod duration;
pub(crate) mod error;
pub(crate) mod host;
pub(crate) mod identity;
pub(crate) mod interrupt;
pub(crate) mod launch;
pub(crate) mod listener;
pub(crate) mod memory_cgroup;
pub(crate) mod procfs;
pub(crate) mod programs;
pub(crate) mod scratch;
pub(crate) mod script;
pub(crate) mod stats;
pub(crate) mod subprocess;
