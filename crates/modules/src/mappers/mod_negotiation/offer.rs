//! The variants to choose from.

use std::sync::Arc;

use server::paths::os_path;

use super::select::Variant;

/// The variants to choose from.
pub(super) struct Offer {
    pub(super) variants: Arc<[Variant]>,
    /// The directory of the variants, with a slash at its end.
    pub(super) dir: String,
    /// The variants come from the directory, not from a map.
    pub(super) multiviews: bool,
}

impl Offer {
    /// The length of a variant; looks at the file if it is unknown.
    pub(super) fn length(&self, index: usize) -> Option<u64> {
        let variant = &self.variants[index];
        let ask = || std::fs::metadata(os_path(&format!("{}{}", self.dir, variant.name))).ok();
        variant.length.or_else(|| ask().map(|meta| meta.len()))
    }
}
