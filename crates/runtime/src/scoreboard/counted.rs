//! A connection that counts among those of its client.

use super::workers::Workers;

/// A connection that is counted among those of its client, until the value is dropped.
#[derive(Debug)]
pub struct CountedConnection {
    workers: &'static Workers,
    client: u64,
    is_counted: bool,
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        if let (true, Some(clients)) = (self.is_counted, self.workers.board().clients()) {
            clients.leave(self.workers.process(), self.client);
        }
    }
}

impl Workers {
    /// Counts a connection of a client, under one of at most [`NUMBERS_MAX`](super::NUMBERS_MAX) numbers, and says how many it has in all children, this one included. Those of a client for which a
    /// child has no place are not counted. Call [`count_clients`](super::count_clients) before.
    pub fn count_connection(&'static self, client: u64) -> (CountedConnection, u64) {
        let clients = self.board().clients();
        let is_counted = clients.is_some_and(|clients| clients.enter(self.process(), client));
        (CountedConnection { workers: self, client, is_counted }, self.board().connections_of(client))
    }
}
