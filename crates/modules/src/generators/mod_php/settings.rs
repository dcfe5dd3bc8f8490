//! The settings of PHP, and what was found on this machine.

use conf::{Setting, settings};

use super::installation::Installation;
use super::values::Values;
use crate::derived::Derived;

/// The default number of requests per process.
pub(super) const REQUESTS: u64 = 5000;
/// How long an idle one is kept, in seconds.
pub(super) const IDLE: u64 = 60;

settings! {
    /// The module's settings of the server.
    pub struct PhpServer {
        pub(super) ini: Setting<String>,
        pub(super) program: Setting<String>,
        pub(super) processes: Setting<u64>,
        pub(super) requests: Setting<u64> = REQUESTS,
        pub(super) idle: Setting<u64> = IDLE,
        /// PHP on this machine.
        pub(super) found: Derived<Option<Installation>>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct PhpDir {
        pub(super) values: Values,
    }
}
