//! Violations of the protocol, and the parts of payloads that several kinds of frames have.

use super::frame::{FrameHeader, Reason, flag};

/// All bits of a stream number or a window's increment except the first, which is reserved, and ignored.
pub(super) const UNRESERVED: u32 = u32::MAX >> 1;

/// A violation of the protocol.
pub(super) enum Fault {
    Connection(Reason, &'static str),
    Stream(u32, Reason),
}

pub(super) fn wrong_size<T>(what: &'static str) -> Result<T, Fault> {
    Err(Fault::Connection(Reason::FRAME_SIZE_ERROR, what))
}

pub(super) const TOO_MUCH_PADDING: Fault = Fault::Connection(Reason::PROTOCOL_ERROR, "more padding than payload");

/// The payload without its padding.
pub(super) fn unpadded(header: FrameHeader, payload: &[u8]) -> Result<&[u8], Fault> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let rest = payload.split_first().and_then(|(padding, rest)| rest.get(..rest.len().checked_sub(*padding as usize)?));
    rest.ok_or(TOO_MUCH_PADDING)
}

/// The stream on which another one is to depend, which we check but do not follow: RFC 9113 section 5.3.2 has dropped that.
pub(super) fn depends_on(priority: &[u8]) -> u32 {
    priority.first_chunk().map_or(0, |first| u32::from_be_bytes(*first) & UNRESERVED)
}
