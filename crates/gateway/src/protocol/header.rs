//! The header of a frame, in the terms that all framed protocols share.

/// The length of a frame's header, in bytes.
pub(super) const HEADER: usize = 8;

/// What a frame says about itself before its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: FrameType,
    /// The length of the content, and of the padding after it, in bytes.
    pub(super) length: usize,
    pub(super) padding: usize,
}

/// The meaning of a frame's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FrameType {
    /// Content of the response.
    Output,
    /// Goes to the error log.
    Errors,
    /// A message, read as a whole: its number.
    Message(u32),
    /// Content for nobody: it is skipped.
    #[default]
    Skipped,
}
