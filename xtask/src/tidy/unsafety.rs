//! Checks that every crate except `crates/sys` forbids `unsafe`, so that no line in it can allow it. Clippy checks that
//! each `unsafe` in `crates/sys` explains why it is sound (`undocumented_unsafe_blocks`, `missing_safety_doc`).

use crate::finding::Finding;
use crate::tree::Tree;

const HOME: &str = "sys";
const FORBID: &str = "#![forbid(unsafe_code)]";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let forbids = |code: &[String]| code.iter().any(|line| line.contains(FORBID));
    let roots = tree.rust().filter(|(file, _)| file.krate() != HOME && is_root(&file.path));
    let silent = roots.filter(|(_, rust)| !forbids(&rust.code));
    let advice = format!("write `{FORBID}` below the documentation of the crate");
    silent
        .map(|(file, _)| Finding::error(&file.path, 1, "unsafe code is not forbidden in this crate", advice.clone()))
        .collect()
}

/// Whether this is the root of a library or program.
fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_root_but_one_forbids_it() {
        let findings = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
        assert_eq!(findings("crates/mpm/src/lib.rs", "fn f() {}\n"), 1);
        assert_eq!(findings("crates/mpm/src/lib.rs", "// #![forbid(unsafe_code)]\n"), 1);
        assert_eq!(findings("crates/mpm/src/lib.rs", "#![forbid(unsafe_code)]\n"), 0);
        assert_eq!(findings("crates/mpm/src/a.rs", "fn f() {}\n"), 0);
        assert_eq!(findings("crates/sys/src/lib.rs", "fn f() {}\n"), 0);
    }
}
