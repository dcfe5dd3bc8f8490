//! Caches that all children share: one module keeps them, others name them in their directives.

use conf::ModuleInfo;

use crate::config::module::{Hook, hooks_of};

/// A way to share small objects among the children (Apache manual, "Shared Object Cache").
pub struct SharedCache {
    /// The names that directives may use for it.
    pub names: &'static [&'static str],
    /// Checks what stands behind `NAME:`; `None` where there is no colon. `Err` is the message of a syntax error.
    pub check: fn(Option<&str>) -> Result<(), String>,
}

/// The caches of the loaded modules.
pub fn shared_caches(loaded: &[&'static ModuleInfo]) -> impl Iterator<Item = &'static SharedCache> {
    hooks_of(loaded).filter_map(|hook| match hook {
        Hook::SharedCache(cache) => Some(*cache),
        _ => None,
    })
}
