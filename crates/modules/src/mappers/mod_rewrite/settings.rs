//! The settings of rewriting.

use conf::settings;

use super::rules::Rules;

settings! {
    /// The rules outside sections.
    pub struct RewriteServer { pub(super) rules: Rules }
}

settings! {
    /// The rules of a section.
    pub struct RewriteDir { pub(super) rules: Rules }
}
