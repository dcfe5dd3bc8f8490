//! Resource limits.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, prlimit, setrlimit};

use crate::process::Pid;

/// A limited resource (setrlimit(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Open descriptors (`RLIMIT_NOFILE`).
    Descriptors,
    /// Processes of the user (`RLIMIT_NPROC`).
    Processes,
    /// Address space in bytes (`RLIMIT_AS`).
    Memory,
    /// CPU time in seconds (`RLIMIT_CPU`).
    Cpu,
    /// Size of a core dump in bytes (`RLIMIT_CORE`).
    Core,
}

impl Limit {
    fn resource(self) -> Resource {
        match self {
            Limit::Descriptors => Resource::Nofile,
            Limit::Processes => Resource::Nproc,
            Limit::Memory => Resource::As,
            Limit::Cpu => Resource::Cpu,
            Limit::Core => Resource::Core,
        }
    }

    /// Its number for the C library.
    pub(crate) fn number(self) -> libc::__rlimit_resource_t {
        match self {
            Limit::Descriptors => libc::RLIMIT_NOFILE,
            Limit::Processes => libc::RLIMIT_NPROC,
            Limit::Memory => libc::RLIMIT_AS,
            Limit::Cpu => libc::RLIMIT_CPU,
            Limit::Core => libc::RLIMIT_CORE,
        }
    }
}

/// A soft limit and the hard limit above it; `None` is "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The limit in effect.
    pub soft: Option<u64>,
    /// The maximum to which the soft limit may be raised.
    pub hard: Option<u64>,
}

/// The limits of this process.
pub fn get(limit: Limit) -> Bounds {
    let Rlimit { current, maximum } = getrlimit(limit.resource());
    Bounds { soft: current, hard: maximum }
}

/// Sets limits of this process.
pub fn set(limit: Limit, bounds: Bounds) -> io::Result<()> {
    Ok(setrlimit(limit.resource(), Rlimit { current: bounds.soft, maximum: bounds.hard })?)
}

/// Sets limits of another process.
pub fn set_of(pid: Pid, limit: Limit, bounds: Bounds) -> io::Result<()> {
    prlimit(Some(pid.into()), limit.resource(), Rlimit { current: bounds.soft, maximum: bounds.hard })?;
    Ok(())
}

/// Raises the soft limit of descriptors to the hard one. Returns the limits in effect afterwards.
pub fn raise_descriptors() -> io::Result<Bounds> {
    let Bounds { hard, .. } = get(Limit::Descriptors);
    set(Limit::Descriptors, Bounds { soft: hard, hard })?;
    Ok(get(Limit::Descriptors))
}
