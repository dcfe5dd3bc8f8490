//! The row of a request, and what is shown there.

use std::net::IpAddr;
use std::time::Duration;

use super::clock::micros;
use super::layout::{RowTexts, WorkerField, WorkerRow};
use super::states::{Gauge, State};
use super::visits::{Visit, VisitKeys};
use super::workers::{Rows, Workers};

/// The traffic of a connection so far: kept by the connection, since its row changes from request to request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests answered.
    pub accesses: u64,
    /// Bytes sent and received.
    pub bytes: u64,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
pub struct ServedRequest {
    /// The status of the response.
    pub status: u16,
    /// Bytes sent, head included.
    pub sent: u64,
    /// Bytes received, head included.
    pub received: u64,
    /// How long it took.
    pub took: Duration,
    /// When it was answered: time since 1970.
    pub ended: Duration,
    /// Only the live page asked, to show what others do.
    pub watches: bool,
    /// It got the response of an earlier request.
    pub repeated: bool,
    /// It began right before its handler, where an earlier request was.
    pub prepared: bool,
}

/// The row of a request being served, or a stand-in for one that found no row.
#[derive(Debug)]
pub struct Row {
    workers: &'static Workers,
    pub(super) index: Option<usize>,
    /// Found no row, and is counted as unlisted.
    unlisted: bool,
}

impl Row {
    pub(super) fn new(workers: &'static Workers, index: Option<usize>, unlisted: bool) -> Row {
        Row { workers, index, unlisted }
    }

    fn row(&self) -> Option<WorkerRow<'_>> {
        self.index.map(|index| self.workers.row(index))
    }

    /// From now on the response only waits for its client. No thread is busy with it, so if rows belong to threads it
    /// gives its row back, and counts only in the totals.
    pub fn park(&mut self) {
        if self.workers.unit() == Rows::OfThreads {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        if let Some(row) = self.row() {
            row.store(WorkerField::State, State::Ready as u64);
            // A worker that serves one connection at a time keeps it.
            if self.workers.unit() != Rows::OfOne {
                row.forget_connection();
            }
        }
        if let Some(index) = self.index.take() {
            self.workers.give_back(index);
        }
        if std::mem::take(&mut self.unlisted) {
            self.workers.leave(Gauge::Unlisted);
        }
    }

    /// Shows the worker's state.
    #[inline]
    pub fn state(&self, state: State) {
        if let Some(row) = self.row() {
            row.store(WorkerField::State, state as u64);
        }
    }

    /// Shows the request that is served.
    pub fn describe(&self, client: IpAddr, texts: &RowTexts) {
        if let Some(row) = self.row() {
            row.show(client, texts);
        }
    }

    /// Shows that a request is served (`W`) that came in at `time` since 1970, and the traffic of its connection so far.
    pub fn begin(&self, so_far: Traffic, time: Duration) {
        let Some(row) = self.row() else { return };
        row.store(WorkerField::ConnectionAccesses, so_far.accesses);
        row.store(WorkerField::ConnectionBytes, so_far.bytes);
        let time = micros(time);
        row.store(WorkerField::Began, time);
        row.store(WorkerField::Used, time);
        row.store(WorkerField::State, State::Write as u64);
    }

    /// Counts a request among those for its URL and its virtual host.
    pub fn visited(&self, keys: VisitKeys, visit: Visit<'_>) {
        self.workers.count_visit(keys, visit);
    }

    /// Counts an answered request.
    pub fn finish(&self, answered: ServedRequest) {
        let (bytes, took) = (answered.sent.saturating_add(answered.received), micros(answered.took));
        self.workers.count(answered, bytes, took);
        let now = micros(answered.ended);
        self.workers.note_cpu(now);
        let Some(row) = self.row() else { return };
        row.store(WorkerField::Took, took);
        row.store(WorkerField::Used, now);
        row.add(WorkerField::Duration, took);
        for field in [WorkerField::ConnectionAccesses, WorkerField::OwnAccesses, WorkerField::Accesses] {
            row.add(field, 1);
        }
        for field in [WorkerField::ConnectionBytes, WorkerField::OwnBytes, WorkerField::Bytes] {
            row.add(field, bytes);
        }
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.give_back();
    }
}
