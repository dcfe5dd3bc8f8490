//! A configuration as it was read: directives and sections in file order.

use crate::source::Origin;

/// A directive, or a section with what stands inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name as typed; of a section with its `<`, without `>`.
    pub name: String,
    /// Everything after the name, with variables replaced and nothing else done; of a section with its `>`.
    pub args: String,
    /// Where it stands.
    pub origin: Origin,
    /// What stands inside a section; `None` for a directive.
    pub children: Option<Vec<Node>>,
}

impl Node {
    /// Whether this is a section.
    pub fn is_section(&self) -> bool {
        self.children.is_some()
    }
}
