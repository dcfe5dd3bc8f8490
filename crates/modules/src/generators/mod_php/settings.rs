//! The settings of PHP, and what was found on this machine.

use conf::{Merge, Origin, Setting, settings};

use super::installation::Installation;
use super::values::Values;

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
        pub(super) found: Found,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct PhpDir {
        pub(super) values: Values,
    }
}

/// PHP on this machine, once the whole configuration is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Found(pub(super) Option<Installation>);

impl Merge for Found {
    fn merge(base: &Self, _: &Self) -> Self {
        base.clone()
    }

    /// It is derived, and set by no line.
    fn origins(&self, _: &mut dyn FnMut(&Origin)) {}
}
