//! Paths, as APR joins and cleans them.

use std::path::{Component, Path, PathBuf};

/// Joins and cleans a path as APR's `apr_filepath_merge` does: works on the text only, without following links.
pub fn join(base: &str, path: &str) -> String {
    let mut out = PathBuf::new();
    for part in Path::new(base).join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out.to_string_lossy().into_owned()
}
