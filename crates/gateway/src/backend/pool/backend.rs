//! A backend, as its pool sees it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use runtime::Awaited;
use sys::local::Unnamed;
use sys::process::Pid;
use sys::time::Instant;

use crate::backend::class::Version;
use crate::backend::lease_state::LeaseCell;
use crate::backend::policy::Activity;
use crate::backend::reason::Reason;
use crate::gate::Permit;
use upstream::is_quiet;

/// How many requests pass between two weighings of a backend.
const WEIGHED_EACH: u64 = 1024;

/// How long a child may keep a lease for its next request while requests of others wait, if those have leases, too.
pub(super) const LEFT: Duration = Duration::from_millis(1);

/// The process of a backend, its connection, and what it has done so far.
#[derive(Debug)]
pub(in crate::backend) struct Backend {
    /// Unique within this manager.
    pub(in crate::backend) number: u64,
    pub(in crate::backend) pid: Pid,
    pub(super) address: Unnamed,
    /// A usable connection to it, if there is one.
    pub(super) connection: Option<Arc<OwnedFd>>,
    pub(super) activity: Activity,
    /// How many requests it is serving.
    pub(super) busy: u64,
    pub(super) since: Instant,
    pub(super) born: Instant,
    pub(super) served: u64,
    /// The lease that a child holds of it, or 0; the last child that held one; and the cell for leases, if there is a
    /// place for one.
    pub(super) lease: u64,
    pub(super) holder: Option<Pid>,
    pub(super) cell: Option<(u64, LeaseCell)>,
    /// The lease that a child kept at the last look, how many requests that had served, and since when it has been so.
    pub(super) kept: Option<(u64, u64, Instant)>,
    pub(super) memory: Option<u64>,
    /// The processor time it had needed at the last look.
    pub(super) needed: Duration,
    /// The number of served requests at which it is weighed.
    pub(super) weighed_at: u64,
    pub(super) jitter: i64,
    /// The version of its program's file at its start.
    pub(super) version: Version,
    /// Failed at its first request.
    pub(super) fails: bool,
    /// Set when it gets the order to end.
    pub(super) end_ordered: Awaited<()>,
    /// Why it ends, once it has the order to.
    pub(super) reason: Option<Reason>,
    /// The right to its memory, as long as it lives.
    pub(in crate::backend) permit: Option<Permit>,
}

impl Backend {
    /// A connection to it: the existing one, unless it takes several at once.
    pub(super) fn connect(&mut self, many: bool) -> std::io::Result<Arc<OwnedFd>> {
        if many {
            return self.address.connect().map(Arc::new);
        }
        // The backend may have closed the connection after its last response.
        if self.connection.as_ref().is_some_and(|connection| !is_quiet(connection)) {
            self.hang_up();
        }
        match &self.connection {
            Some(connection) => Ok(connection.clone()),
            None => Ok(self.connection.insert(Arc::new(self.address.connect()?)).clone()),
        }
    }

    /// Whether a kept lease that has served so many requests has been kept for a while.
    pub(super) fn is_left(&mut self, lease: u64, served: u64) -> bool {
        match self.kept {
            Some((kept, then, since)) if (kept, then) == (lease, served) => since.elapsed() >= LEFT,
            _ => {
                self.kept = Some((lease, served, Instant::now()));
                false
            }
        }
    }

    /// Measures its memory. A few requests tell how much it needs; measuring costs as much as a request.
    pub(super) fn weigh(&mut self, always: bool, memory: fn(Pid) -> std::io::Result<u64>) {
        if always || self.served >= self.weighed_at {
            self.weighed_at = self.served + self.served.clamp(1, WEIGHED_EACH);
            self.memory = memory(self.pid).ok();
            if let (Some(permit), Some(memory)) = (&self.permit, self.memory) {
                permit.weighed(self.pid, memory);
            }
        }
    }

    /// Orders it to end.
    pub(super) fn end(&mut self) {
        self.end_ordered.set(());
        // A request that it serves continues.
        if self.busy == 0 {
            self.hang_up();
        }
        let _ = self.pid.kill(sys::signal::Signal::TERM);
    }

    /// Ends the connection, even for a child that has it from a lease that was taken back.
    pub(super) fn hang_up(&mut self) {
        if let Some(connection) = self.connection.take() {
            // An end by the other side is just as good.
            let _ = sys::socket::shutdown(&connection);
        }
    }
}
