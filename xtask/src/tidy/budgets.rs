//! Checks that errors of regular expressions are passed on: one that ran out of its budget has neither matched nor
//! failed to match.

use crate::finding::Finding;
use crate::tree::{Rust, Tree};

/// The functions that fail when the budget is used up.
const MATCHING: &[&str] = &["is_match", "captures", "captures_at", "evaluate", "evaluate_keeping"];

/// The methods that turn an error into an answer.
const SWALLOWING: &[&str] = &["unwrap_or", "unwrap_or_default", "ok", "is_ok", "is_ok_and", "is_err", "map_or"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        for function in MATCHING {
            for (line, rest) in rust.words(function).filter(|(line, _)| !rust.test[*line]) {
                let statement = statement(rust, line, rest);
                if let Some(method) = methods(&statement).into_iter().find(|method| SWALLOWING.contains(method)) {
                    let what = format!("`{method}` makes an answer of the error of `{function}`");
                    let advice =
                        "an expression that needs too many steps decides nothing: pass its error on, and refuse";
                    findings.push(Finding::error(&file.path, line + 1, what, advice));
                }
            }
        }
    }
    findings
}

/// The text after the name of a function, up to the end of the statement or the beginning of a block.
fn statement(rust: &Rust, line: usize, rest: &str) -> String {
    let mut text = rest.trim_end().to_string();
    for next in rust.code.iter().skip(line + 1) {
        if text.contains([';', '{']) {
            break;
        }
        text.push_str(next.trim());
    }
    text
}

/// The methods called on the result of a call. `text` is what follows the name of the called function.
fn methods(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(after) = behind_arguments(rest) {
        let Some(method) = after.strip_prefix('.') else { break };
        let end = method.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(method.len());
        found.push(&method[..end]);
        rest = &method[end..];
    }
    found
}

/// The text after the arguments that `text` begins with.
fn behind_arguments(text: &str) -> Option<&str> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return (at > 0).then(|| &text[at + 1..]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_matching_are_not_swallowed() {
        let code = "fn f() {\n    a.is_match(g(b)).unwrap_or(false);\n    a.captures(b, c)\n        .map_err(d)\n        .ok();\n    \
                    a.is_match(b.ok())?;\n    a.captures(b).map_err(c)?;\n    use x::is_match;\n}\n";
        let found = check(&Tree::of(&[("crates/x/src/a.rs", code)]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2, 3]);
    }
}
