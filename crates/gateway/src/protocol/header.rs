//! The header of a frame, in the terms that all framed protocols share.

/// The length of a frame's header, in bytes.
pub(super) const HEADER: usize = 8;
/// What a header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// The length of the content, and of the padding after it, in bytes.
    pub(super) length: usize,
    pub(super) padding: usize,
}

/// The use of a frame's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is output.
    Output,
    /// It goes to the error log.
    Errors,
    /// It has a meaning as a whole, under this number.
    Whole(u32),
    /// It is skipped.
    #[default]
    Skipped,
}
