//! What a hook says, at once or later.

use std::future::Future;
use std::pin::Pin;

/// What a hook says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Not mine; the others go on.
    Declined,
    /// Done with this phase.
    Ok,
    /// The request ends with this status.
    Status(u16),
}

impl Flow {
    /// The status with which a request ends that goes no further.
    pub(crate) fn status(self) -> u16 {
        match self {
            Flow::Status(status) => status,
            Flow::Ok | Flow::Declined => 500,
        }
    }
}

/// What is still being found out: a [`Flow`], an [answer](crate::Answer), or whatever else a module has to wait for. It is dropped when
/// the client resets the connection, and must be able to bear it.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
