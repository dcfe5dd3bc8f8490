//! The module's settings.

use conf::{Gathered, Listed, Setting, settings};
use server::module::NamedCache;

use super::connection_rule::ConnectionRule;
use super::rule::Rule;

/// How many clients are remembered: a megabyte.
pub(super) const CLIENTS: usize = 65_536;

settings! {
    /// The module's settings of a section.
    pub struct ClientLimitDir {
        pub(super) rules: Gathered<Vec<Rule>>,
    }
}

settings! {
    /// The module's settings of a server.
    pub struct ClientLimitServer {
        pub(super) clients: Setting<usize> = CLIENTS,
        pub(super) store: Setting<NamedCache>,
        pub(super) connections: Listed<ConnectionRule>,
    }
}
