//! Whether a run keeps a promise.

/// Replaces a figure that is not there.
pub(super) const NOT_MEASURED: &str = "not measured";

/// The state of a promise.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Whether it is kept; `None` if the run does not tell.
    pub(crate) met: Option<bool>,
    /// The figure and its comparison.
    pub(crate) measured: String,
}

impl Verdict {
    /// Whether there are figures that do not decide: their interval holds the bar, or other programs disturbed them.
    pub(crate) fn is_open(&self) -> bool {
        self.met.is_none() && self.measured != NOT_MEASURED
    }
}
