//! Handles, with which other threads use a loop.

use std::marker::PhantomData;
use std::sync::Arc;

use super::shared::{PRESENT, Shared};

/// A loop, for its users.
#[derive(Clone, Debug)]
pub struct Handle(pub(super) Arc<Shared>);

impl Handle {
    /// Lets this thread use the loop until the result is dropped: whatever it polls is registered there.
    pub fn enter(&self) -> Entered<'_> {
        Entered { before: PRESENT.replace(Some(self.0.clone())), not_send: PhantomData }
    }
}

/// Keeps a thread's use of a loop.
#[derive(Debug)]
#[must_use = "the loop is left when this is dropped"]
pub struct Entered<'a> {
    before: Option<Arc<Shared>>,
    not_send: PhantomData<(&'a Handle, *const ())>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let _left = PRESENT.replace(self.before.take());
    }
}
