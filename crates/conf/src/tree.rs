//! A parsed configuration: directives and sections in file order.

use std::fmt;

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

impl fmt::Display for Node {
    /// The line as it was written, without the blanks around it; for a section, its first line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blank = if self.args.is_empty() || self.args.starts_with('>') { "" } else { " " };
        write!(f, "{}{blank}{}", self.name, self.args)
    }
}
