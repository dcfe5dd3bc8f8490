//! A lease of a backend, in the hands of a request.

use std::time::Duration;

use sys::process::Pid;
use sys::time::Instant;
use sys::watch::Watched;
use upstream::Stream;

use super::ask;
use crate::backend::class::{EncodedClass, Version};
use crate::backend::lease_state::LeaseCell;
use crate::backend::manager_messages::{FromChild, Grant, Outcome};
use crate::backend::stats::{self, PoolRow};

/// A backend that serves a request. Dropping it before the end of the request ends the backend.
#[derive(Debug)]
pub(in crate::backend) struct Lease {
    /// The connection to the manager from which it came.
    pub(super) connection: Watched,
    pub(super) class: EncodedClass,
    pub(super) grant: Grant,
    pub(in crate::backend) pid: Pid,
    /// How many requests the backend served before.
    pub(in crate::backend) served: u64,
    /// How long the request waited for it.
    pub(in crate::backend) waited: Duration,
    /// Another request had to end first.
    pub(in crate::backend) queued: bool,
    pub(super) began: Instant,
}

impl Lease {
    /// The lease that the manager has granted.
    pub(super) fn granted(connection: Watched, class: &EncodedClass, grant: Grant) -> Lease {
        Lease {
            connection,
            class: class.clone(),
            grant,
            pid: grant.pid,
            served: grant.served,
            waited: Duration::ZERO,
            queued: grant.queued,
            began: Instant::now(),
        }
    }

    /// Begins a request that came at this moment.
    pub(super) fn begin(&mut self, came: Instant, waited: bool) {
        self.began = Instant::now();
        self.waited = if waited { self.began - came } else { Duration::ZERO };
        self.queued &= waited;
        if waited && let Some(row) = PoolRow::at(self.grant.row) {
            row.count_wait(self.waited);
        }
    }

    /// The cell that the manager looks at, if it has one for this lease.
    pub(super) fn cell(&self) -> Option<LeaseCell> {
        stats::lease_cell(self.grant.row, self.grant.place)
    }

    /// Whether the lease is good for a request that comes now, of this version of the program's file.
    pub(super) fn fits(&self, version: Version, stream: &Stream) -> bool {
        self.class.version == version && stream.is_quiet()
    }

    /// Counts a request that is over, before another one.
    pub(super) fn count(&mut self) {
        self.served += 1;
        self.grant.more -= 1;
    }

    /// Gives the lease back to the manager, after a request that left the backend in this state.
    pub(super) fn return_to_manager(self, outcome: Outcome) {
        if sys::local::send(self.connection.get_ref(), &FromChild::Done(outcome).encode(), &[]).is_ok() {
            ask::keep(self.connection);
        }
    }
}
