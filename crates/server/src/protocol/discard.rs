//! Bodies of responses that are not sent.

use crate::message::response::{BodyStream, Piece};
use runtime::CoopBudget;

/// A body that is produced but not sent, so that its producer can finish.
pub(super) struct DiscardBody(pub(super) Box<dyn BodyStream>);

impl BodyStream for DiscardBody {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move {
            let mut budget = CoopBudget::new();
            while let Some(Ok(_)) = self.0.next().await {
                budget.step().await;
            }
            None
        })
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn notes(&self) -> Vec<(String, String)> {
        self.0.notes()
    }
}
