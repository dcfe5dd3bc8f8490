//! A group of columns, and the values in them.

use super::group::Group;

/// A group of columns about a part of the machine.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) group: &'static Group,
    pub(super) part: String,
}

/// The display of a figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Text(String),
}
