//! The settings of negotiation.

use conf::{Gathered, Setting, settings};

/// Whether it is on by default.
pub(super) const CACHE: bool = false;

settings! {
    /// The module's settings of a server.
    pub struct NegotiationServer {
        pub(super) cache: Setting<bool> = CACHE,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct NegotiationDir {
        pub(super) priority: Gathered<Vec<String>>,
        pub(super) force: Gathered<Force>,
    }
}

/// `ForceLanguagePriority`; neither is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Force {
    pub(super) prefer: bool,
    pub(super) fallback: bool,
}
