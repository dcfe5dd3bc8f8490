//! The results of hooks, immediate or later.

use std::future::Future;
use std::pin::Pin;

/// A hook's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Not responsible; the others continue.
    Declined,
    /// Done with this phase.
    Ok,
    /// The request ends with this status.
    Status(u16),
}

impl Flow {
    /// The status with which a request ends early.
    pub(crate) fn status(self) -> u16 {
        match self {
            Flow::Status(status) => status,
            Flow::Ok | Flow::Declined => 500,
        }
    }
}

/// A result in the making: a [`Flow`], an [answer](crate::HandlerResult), or anything else that a module has to wait for. It
/// is dropped when the client resets the connection, and must cope with that.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
