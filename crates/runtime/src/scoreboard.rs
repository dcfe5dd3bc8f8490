//! The scoreboard: the state of every child and every worker, in memory shared by all processes of the server.
//!
//! A table of processes, and for each of them a row per worker. All of it is atomic numbers, so no value is ever torn;
//! a sequence counter protects the texts of a worker's row. A child writes only to its own rows, and may die between
//! any two instructions: when the parent reaps the child, it gives the rows back ([`Board::retire`]). Totals that
//! outlive a child (accesses, bytes) are never held in a child alone.

mod board;
mod clients;
mod clock;
mod counted;
mod durations;
mod history;
mod layout;
mod moment;
mod row;
mod snapshot;
mod states;
mod visits;
mod workers;

pub use board::{Board, Quota, answer, count_clients, create, duty, get};
pub use clients::NUMBERS_MAX;
pub use clock::since;
pub use counted::CountedConnection;
pub use durations::{BOUNDS, BUCKETS};
pub use layout::{REQUEST_ROOM, RowTexts};
pub use moment::{MOMENTS, Moment};
pub use row::{Row, ServedRequest, Traffic};
pub use snapshot::{Described, Process, Snapshot, Watch, Worker, snapshot};
pub use states::{ChildState, Duty, Gauge, Handshake, State};
pub use visits::{Visit, VisitKeys, VisitStats, Visited};
pub use workers::{Rows, Workers, one_thread_serves_all};

#[cfg(test)]
mod tests;
