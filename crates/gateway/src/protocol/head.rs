//! What the header of a frame says, in the terms that all framed protocols have in common.

/// The length of a frame's header, in bytes.
pub(super) const HEADER: usize = 8;
/// What a header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// The length of the content, and of what is to be skipped behind it, in bytes.
    pub(super) length: usize,
    pub(super) padding: usize,
}

/// What becomes of a frame's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is output.
    Output,
    /// It is for the error log.
    Errors,
    /// It means something as a whole, under this number.
    Whole(u32),
    /// Nothing.
    #[default]
    Skipped,
}
