//! Bodies of answers whose clients want none.

use crate::request::response::{BodyStream, Piece};
use crate::transport::tick::Slices;

/// A body that is made and not sent: whatever makes it may come to its end.
pub(super) struct Unsent(pub(super) Box<dyn BodyStream>);

impl BodyStream for Unsent {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move {
            let mut slices = Slices::new();
            while let Some(Ok(_)) = self.0.next().await {
                slices.step().await;
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
