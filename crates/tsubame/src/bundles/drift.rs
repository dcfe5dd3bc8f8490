//! Finds what was changed by hand since a bundle was loaded.

use std::path::Path;

use server::Server;

use super::bundle::Bundle;
use super::references::missing;

/// What differs from the bundle that was loaded into a directory, a text for each file: those below the directory, and the
/// certificates that the bundle refers to.
pub(crate) fn drift(directory: &Path, server: &Server) -> Vec<String> {
    let bundle = match Bundle::open(directory) {
        Ok(bundle) => bundle,
        Err(why) => return vec![why],
    };
    let changed = bundle.changed().into_iter().map(|name| format!("{}: changed", directory.join(name).display()));
    changed.chain(missing(&server.language.server_root, &bundle.manifest.references)).collect()
}
