//! The child's side: a request gets a backend, the child keeps it for the next one, and gives it back.

mod ask;
mod line;

use std::io;
use std::time::Duration;

use sys::process::Pid;
use sys::time::Instant;
use sys::watch::Watched;
use upstream::Stream;

use super::class::{EncodedClass, Version};
use super::lease_state::LeaseCell;
use super::manager_messages::{FromChild, Grant, Outcome};
use super::stats::{self, PoolRow};

pub use ask::set_address;

/// Why there is no backend.
#[derive(Debug)]
pub(crate) enum NoBackend {
    /// There is none for this request: the status for the client, and why.
    Refused { status: u16, why: String },
    /// There is no manager.
    NoManager,
    /// What the class says of its program is too long for a message to the manager.
    TooLong,
    /// The process manager could not be asked.
    Failed(io::Error),
}

/// A backend that serves a request. Dropping it before the end of the request ends the backend.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The connection to the manager from which it came.
    connection: Watched,
    class: EncodedClass,
    grant: Grant,
    pub(crate) pid: Pid,
    /// How many requests the backend served before.
    pub(crate) served: u64,
    /// How long the request waited for it.
    pub(crate) waited: Duration,
    /// Another request had to end first.
    pub(crate) queued: bool,
    began: Instant,
}

impl Lease {
    /// Gets a backend of this class, with the connection to it: the one that served the last request, or one that
    /// another request of this child has done with, or one from the manager.
    pub(crate) async fn of(class: &EncodedClass) -> Result<(Lease, Stream), NoBackend> {
        let came = Instant::now();
        let mut place = match line::enter(class, came)? {
            line::Entered::Served(mut lease, stream) => {
                lease.begin(came, false);
                return Ok((lease, stream));
            }
            line::Entered::Waits(place) => place,
        };
        // Another request or the manager ends this wait.
        let (mut lease, stream) = runtime::release_worker(place.wait()).await?;
        lease.begin(came, true);
        Ok((lease, stream))
    }

    /// The lease that the manager has granted.
    fn granted(connection: Watched, class: &EncodedClass, grant: Grant) -> Lease {
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
    fn begin(&mut self, came: Instant, waited: bool) {
        self.began = Instant::now();
        self.waited = if waited { self.began - came } else { Duration::ZERO };
        self.queued &= waited;
        if waited && let Some(row) = PoolRow::at(self.grant.row) {
            row.count_wait(self.waited);
        }
    }

    /// The cell that the manager looks at, if it has one for this lease.
    fn cell(&self) -> Option<LeaseCell> {
        stats::lease_cell(self.grant.row, self.grant.place)
    }

    /// Whether the lease is good for a request that comes now, of this version of the program's file.
    fn fits(&self, version: Version, stream: &Stream) -> bool {
        self.class.version == version && stream.is_quiet()
    }

    /// Counts a request that is over, before another one.
    fn count(&mut self) {
        self.served += 1;
        self.grant.more -= 1;
    }

    /// Gives it back after the request, which left the connection in this state: to the next request of this child, or
    /// to the manager.
    pub(crate) fn done(self, outcome: Outcome, stream: Stream) {
        if let Some(row) = PoolRow::at(self.grant.row) {
            row.count_served(self.began.elapsed());
        }
        let cell = self.cell().filter(|_| outcome == Outcome::Ready && self.grant.more > 0);
        let Some((lease, stream)) = line::hand_on(self, cell, stream) else { return };
        // The manager may give the backend to another child at once.
        drop(stream);
        lease.return_to_manager(outcome);
    }

    fn return_to_manager(self, outcome: Outcome) {
        if sys::local::send(self.connection.get_ref(), &FromChild::Done(outcome).encode(), &[]).is_ok() {
            ask::keep(self.connection);
        }
    }
}
