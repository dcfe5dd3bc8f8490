//! A value of the main server that follows from the whole configuration.

use conf::{Merge, Origin};

/// A value that is known only after the settings of all servers were merged.
#[derive(Clone, Debug, Default)]
pub struct Derived<T>(pub(crate) T);

impl<T: Clone> Merge for Derived<T> {
    /// The main server's.
    fn merge(base: &Self, _: &Self) -> Self {
        base.clone()
    }

    /// The values are derived, and set by no line.
    fn origins(&self, _: &mut dyn FnMut(&Origin)) {}
}
