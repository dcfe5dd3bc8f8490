//! What becomes of a request that the phases have prepared.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use http::name::FieldSet;

use crate::message::response::HandlerResult;
use crate::message::tested_field::Outcome;
use crate::request::Request;
use crate::request::flow::Waiting;

/// What becomes of a request that the phases have prepared, and of others about which they would decide the same.
pub(crate) struct Prepared {
    /// The handler that answers it.
    pub(crate) run: RunHandler,
    /// The fields of its head that were looked up so far.
    pub(crate) asked: FieldSet,
    /// What other fields of its head have matched.
    pub(crate) outcomes: Vec<Outcome>,
    /// What the handler has worked out for all requests that begin there.
    pub(super) plan: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// Makes the response of a request.
pub(crate) type RunHandler = fn(&mut Request) -> Waiting<'_, HandlerResult>;

impl Prepared {
    /// Without a plan.
    pub(super) fn new(run: RunHandler, asked: FieldSet, outcomes: Vec<Outcome>) -> Prepared {
        Prepared { run, asked, outcomes, plan: OnceLock::new() }
    }
}
