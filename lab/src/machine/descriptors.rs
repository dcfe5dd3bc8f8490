//! How many files and connections a process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::machine::error::{Context as _, Result};

/// Descriptors that a process needs besides its connections.
pub(crate) const DESCRIPTORS_IN_RESERVE: u64 = 64;

/// Enough for 20 000 connections in one process. Above the hard limit, only root may have it.
const DESCRIPTORS: u64 = 50_000;

/// Raises the limit of open descriptors as far as possible and returns it: thousands of connections need it.
pub(crate) fn raise_limit() -> Result<u64> {
    let hard = getrlimit(Resource::Nofile).maximum;
    let enough = hard.map(|hard| hard.max(DESCRIPTORS));
    let raised = |maximum| setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).map(|()| maximum);
    let maximum = raised(enough).or_else(|_| raised(hard)).context(|| "raise the limit of open files".to_owned())?;
    Ok(maximum.unwrap_or(u64::MAX))
}
