//! Values in a server's settings that follow from the whole configuration, and that no line sets.

use conf::{Merge, Origin};

/// A value of the main server that counts for all servers.
#[derive(Clone, Debug, Default)]
pub struct Derived<T>(pub(crate) T);

impl<T: Clone> Merge for Derived<T> {
    fn merge(base: &Self, _: &Self) -> Self {
        base.clone()
    }

    fn origins(&self, _: &mut dyn FnMut(&Origin)) {}
}

/// A value of one server, which a virtual host does not inherit from the main server.
#[derive(Clone, Debug, Default)]
pub struct DerivedPerHost<T>(pub(crate) T);

impl<T: Clone> Merge for DerivedPerHost<T> {
    fn merge(_: &Self, add: &Self) -> Self {
        add.clone()
    }

    fn origins(&self, _: &mut dyn FnMut(&Origin)) {}
}
