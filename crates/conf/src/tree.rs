//! A parsed configuration: directives and sections in file order.

use crate::source::Origin;

/// A directive, or a section with its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name as typed; for a section, with `<` but without `>`.
    pub name: String,
    /// The text after the name, with only variables replaced; for a section, with its `>`.
    pub args: String,
    /// Its file and line.
    pub origin: Origin,
    /// The contents of a section; `None` for a directive.
    pub children: Option<Vec<Node>>,
}

impl Node {
    /// Whether this is a section.
    pub fn is_section(&self) -> bool {
        self.children.is_some()
    }
}
