//! `unsafe` stands in `crates/sys` only, and each place says why it is sound.

use super::Finding;
use crate::tree::{File, Rust, Tree};

const HOME: &str = "sys";
const FORBID: &str = "#![forbid(unsafe_code)]";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        let at_home = file.krate() == HOME;
        if !at_home && is_root(&file.path) && !rust.code.iter().any(|line| line.contains(FORBID)) {
            let advice = format!("write `{FORBID}` below the documentation of the crate");
            findings.push(Finding::error(&file.path, 1, "unsafe code is not forbidden in this crate", advice));
        }
        for (line, rest) in rust.words("unsafe") {
            if !at_home {
                let advice = "give crates/sys a safe function for it, and call that";
                findings.push(Finding::error(&file.path, line + 1, "`unsafe` outside crates/sys", advice));
            } else if !rest.trim_start().starts_with(['(', ')', ']']) && !is_explained(rust, line) {
                findings.push(unexplained(file, line));
            }
        }
    }
    findings
}

fn unexplained(file: &File, line: usize) -> Finding {
    let advice = "write `// SAFETY:` and a sentence directly above: why is this sound, who guarantees it?";
    Finding::error(&file.path, line + 1, "`unsafe` without its reason", advice)
}

/// Whether this is the root of a library or program.
fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

/// Whether a `SAFETY:` sentence (or, of a function, `# Safety`) belongs to the statement on `line`.
fn is_explained(rust: &Rust, line: usize) -> bool {
    let explains = |comment: &str| {
        let sentence = comment.split_once("SAFETY:").map(|(_, rest)| rest.trim());
        sentence.is_some_and(|sentence| !sentence.is_empty()) || comment.contains("# Safety")
    };
    if explains(&rust.comments[line]) {
        return true;
    }
    for above in (0..line).rev() {
        let code = rust.code[above].trim();
        if explains(&rust.comments[above]) {
            return true;
        }
        let statement_ends = code.ends_with([';', '{', '}']) || code.is_empty() && rust.comments[above].is_empty();
        if statement_ends {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<(usize, String)> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn only_in_sys() {
        let outside = [(2, "`unsafe` outside crates/sys".to_string())];
        assert_eq!(findings("crates/mpm/src/a.rs", "// unsafe is fine here\nunsafe { f() }\n"), outside);
        assert_eq!(findings("crates/mpm/src/a.rs", "#![forbid(unsafe_code)]\nlet a = \"unsafe\";\n"), []);
        assert_eq!(findings("crates/mpm/src/lib.rs", "fn f() {}\n").len(), 1);
        assert_eq!(findings("crates/mpm/src/lib.rs", "#![forbid(unsafe_code)]\n"), []);
    }

    #[test]
    fn each_with_a_sentence() {
        let good = "// SAFETY: the pointer comes from\n// a box.\nlet a =\n    unsafe { f() };\n";
        assert_eq!(findings("crates/sys/src/a.rs", good), []);
        assert_eq!(findings("crates/sys/src/a.rs", "/// # Safety\n/// Call it once.\nunsafe fn f() {}\n"), []);
        assert_eq!(findings("crates/sys/src/a.rs", "// SAFETY: yes.\nf();\nunsafe { g() }\n")[0].0, 3);
        assert_eq!(findings("crates/sys/src/a.rs", "// SAFETY:\nunsafe { g() }\n")[0].0, 2);
    }
}
