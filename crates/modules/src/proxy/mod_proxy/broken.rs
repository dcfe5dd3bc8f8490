//! Bodies of responses that break off: what that says of the backend.

use std::fmt;
use std::io;

use upstream::Fault;

/// The error of a body that breaks off.
pub(crate) fn broken(fault: Option<Fault>, why: &impl fmt::Display) -> io::Error {
    let kind = match fault {
        Some(Fault::Timeout) => io::ErrorKind::TimedOut,
        Some(Fault::Malformed) => io::ErrorKind::InvalidData,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, why.to_string())
}

/// What such an error says of the backend.
pub(super) fn fault_of(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::TimedOut => Fault::Timeout,
        io::ErrorKind::InvalidData => Fault::Malformed,
        _ => Fault::Lost,
    }
}
