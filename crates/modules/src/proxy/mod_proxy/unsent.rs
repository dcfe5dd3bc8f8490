//! The body of a response that has none, such as one to `HEAD`.

use server::{BodyStream, Piece};

/// A body of which only the length is known.
pub(crate) struct Unsent(pub(crate) Option<u64>);

impl BodyStream for Unsent {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async { None })
    }

    fn length(&self) -> Option<u64> {
        self.0
    }
}
