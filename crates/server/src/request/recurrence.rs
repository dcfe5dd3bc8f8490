//! What a request has to do with responses that [recur](super::recurring).

use std::any::Any;
use std::mem;
use std::sync::Arc;

use super::Request;
use super::recurring::{Recurrence, Recurring};

impl Request {
    /// Whether the handler may [offer](Request::offer_recurring) what it knows about the response.
    pub fn may_recur(&self) -> bool {
        matches!(self.recurrence, Recurrence::Wanted)
    }

    /// Offers what the handler knows about the response that it is about to return. With it the handler promises: whenever the
    /// other server answers as expected, it would make this response, with the new date and the new body, of any request that
    /// begins where this one began, and has its head.
    pub fn offer_recurring(&mut self, known: Arc<dyn Recurring>) {
        if self.may_recur() {
            self.recurrence = Recurrence::Offered(known);
        }
    }

    /// What has come of an answer that was not the expected one, if the other server was asked already.
    pub fn take_asked<T: Any>(&mut self) -> Option<Box<T>> {
        match mem::take(&mut self.recurrence) {
            Recurrence::Begun(begun, is_wanted) => {
                if is_wanted {
                    self.recurrence = Recurrence::Wanted;
                }
                begun.downcast().ok()
            }
            other => {
                self.recurrence = other;
                None
            }
        }
    }

    /// The response becomes what it was before the handler.
    pub(crate) fn begin_at_handler(&mut self, recurrence: Recurrence) {
        if let Some(prepared) = &self.prepared {
            self.response.become_like(&prepared.response);
        }
        self.recurrence = recurrence;
    }
}
