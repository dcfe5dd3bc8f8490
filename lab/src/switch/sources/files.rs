//! Requests for files: one of each kind in each site, in all forms.

use super::{Collected, Given};
use crate::switch::ask::{Sample, Source};

/// Adds them for each site.
pub(super) fn collect(given: &Given<'_>, collected: &mut Collected) {
    for (number, site) in given.sites.all().iter().enumerate() {
        let Some(documents) = &site.documents else { continue };
        let Some(ask) = given.ask(number, "/") else { continue };
        let file = documents.display().to_string();
        collected.add(Sample { ask, weight: 0, due: None, source: Source::File(file, "the document root") });
    }
}
