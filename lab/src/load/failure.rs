//! A failure of a request or of its connection, with the counter that it belongs to.

use super::record::Failures;

/// A failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    /// The counter for it.
    pub(super) count: fn(&mut Failures) -> &mut u64,
    /// The server may have closed the connection before it saw the request.
    pub(super) was_idle: bool,
}
