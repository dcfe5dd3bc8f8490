//! What a request has to do with [stored](super::stored) responses.

use std::sync::Arc;

use super::Request;
use super::stored::Stored;

impl Request {
    /// Says with what the cache answers it. With that the cache promises: as long as there is an [age](Stored::age), it would make
    /// the same response, but for the age, to any request that agrees in what was asked of this one.
    pub fn answered_from(&mut self, stored: Arc<dyn Stored>) {
        self.stored = Some(stored);
    }

    /// Whether later requests may get what the cache has answered.
    pub fn is_answered_from_store(&self) -> bool {
        self.stored.is_some()
    }
}
