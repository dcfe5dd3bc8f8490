//! The child's side: a request gets a backend, the child keeps it for the next one, and gives it back.

mod ask;
mod held;
mod line;

use sys::time::Instant;
use upstream::Stream;

use super::class::EncodedClass;
use super::manager_messages::Outcome;
use super::stats::PoolRow;

pub(super) use ask::NoBackend;
pub use ask::set_address;
pub(super) use held::Lease;

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
}
