//! The messages that a backend sends, whatever its protocol.

use std::time::Duration;

use conf::Level;

/// The messages of a backend.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// The part of its standard error that nobody has taken yet.
    pub(crate) errors: Vec<u8>,
    /// Other messages to log.
    pub(crate) notes: Vec<(Level, String)>,
    /// Set once the response is complete.
    pub(crate) end: Option<End>,
}

/// The end of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// The exit status of the program that ran.
    pub(crate) status: i32,
    /// Why there is no response, with its status.
    pub(crate) refused: Option<(u16, String)>,
    /// The server's own page for this status is wanted, if the script wrote nothing but that status.
    pub(crate) page: Option<u16>,
    /// The backend ends now, by itself.
    pub(crate) last: bool,
    /// Processor time that the request took, in user mode and in the kernel, if the backend reports it.
    pub(crate) used: Option<(Duration, Duration)>,
}

/// Why the received bytes are invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidFrame(pub(crate) String);
