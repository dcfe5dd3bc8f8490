//! What becomes of a request that the phases have prepared.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use http::name::FieldSet;

use crate::message::response_head::ResponseHead;
use crate::message::tested_field::Outcome;

/// What becomes of a request that the phases have prepared, and of others about which they would decide the same.
pub(crate) struct Prepared {
    /// The handler that answers it, by its place among all handlers.
    pub(crate) handler: usize,
    /// The fields of its head that were looked up so far.
    pub(crate) asked: FieldSet,
    /// What other fields of its head have matched.
    pub(crate) outcomes: Vec<Outcome>,
    /// The response before the handler.
    pub(super) response: ResponseHead,
    /// What the handler has worked out for all requests that begin there.
    pub(super) plan: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Prepared {
    /// Without a plan.
    pub(super) fn new(handler: usize, asked: FieldSet, outcomes: Vec<Outcome>, before: &ResponseHead) -> Prepared {
        let mut response = ResponseHead::default();
        response.become_like(before);
        Prepared { handler, asked, outcomes, response, plan: OnceLock::new() }
    }
}
