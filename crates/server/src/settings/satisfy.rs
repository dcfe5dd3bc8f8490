//! `Satisfy` of mod_access_compat, which decides how the core combines the check of the host with that of the user.

use std::sync::Arc;

use conf::{Gathered, Limited, Origin, settings};

settings! {
    /// The `Satisfy` lines of mod_access_compat.
    pub struct Satisfy {
        /// The lines, each with the methods it applies to: whether either the host check or the user is enough.
        pub lines: Gathered<Vec<(Option<Arc<Limited>>, bool, Origin)>>,
    }
}

impl Satisfy {
    /// Whether either the host check or the user is enough for a request with this method: the last line for that
    /// method decides.
    pub fn any(&self, method: &str) -> bool {
        let means = |limited: &Option<Arc<Limited>>| limited.as_ref().is_none_or(|limited| limited.covers(method));
        let lines = self.lines.get().map_or(&[][..], Vec::as_slice);
        lines.iter().rev().find(|(limited, ..)| means(limited)).is_some_and(|(_, any, _)| *any)
    }
}
