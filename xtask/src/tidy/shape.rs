//! Checks that every Rust file states its purpose, and is short enough to read.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// The number of lines that a file should not exceed, and the number that it must not.
const WANTED: usize = 400;
const REFUSED: usize = 800;
/// The marker in the first paragraph of a file that is one long table.
const TABLE: &str = "tidy: table";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(|(file, _)| [first_sentence(file), length(file)]).flatten().collect()
}

fn first_sentence(file: &File) -> Option<Finding> {
    let first = paragraph(file);
    let text = first.replace(TABLE, "");
    let text = text.trim();
    if text.is_empty() {
        let advice = "begin the file with `//!` and a sentence that says what is in it";
        return Some(Finding::error(&file.path, 1, "no `//!` documentation at the beginning", advice));
    }
    if !text.ends_with(['.', ':', '!', '?']) {
        let advice = "write a whole sentence, with its full stop";
        return Some(Finding::error(&file.path, 1, format!("the file begins with `{text}`"), advice));
    }
    None
}

fn length(file: &File) -> Option<Finding> {
    let lines = file.text.lines().count();
    if lines <= WANTED || paragraph(file).contains(TABLE) {
        return None;
    }
    let what = format!("{lines} lines");
    Some(if lines > REFUSED {
        let advice =
            format!("split it by what its parts do: {REFUSED} lines are the limit (a pure table says `{TABLE}`)");
        Finding::error(&file.path, REFUSED + 1, what, advice)
    } else {
        Finding::warning(&file.path, WANTED + 1, what, format!("{WANTED} are wanted: is it still about one thing?"))
    })
}

/// The first paragraph of the file's documentation.
fn paragraph(file: &File) -> String {
    let lines = file.text.lines().map_while(|line| line.strip_prefix("//!"));
    let first: Vec<&str> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    first.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Severity;

    fn findings(text: &str) -> Vec<(usize, Severity)> {
        let tree = Tree::of(&[("crates/conf/src/a.rs", text)]);
        check(&tree).into_iter().map(|finding| (finding.line, finding.severity)).collect()
    }

    #[test]
    fn a_file_begins_with_a_sentence() {
        assert_eq!(findings("//! What it does.\nuse std;\n"), []);
        assert_eq!(findings("//! What it does, over\n//! two lines.\n//!\n//! more\n"), []);
        assert_eq!(findings("use std;\n"), [(1, Severity::Error)]);
        assert_eq!(findings("//!\n"), [(1, Severity::Error)]);
        assert_eq!(findings("//! Things\n"), [(1, Severity::Error)]);
    }

    #[test]
    fn a_file_has_an_end() {
        let file = |lines: usize, mark: &str| format!("//! A file.{mark}\n{}", "//\n".repeat(lines - 1));
        assert_eq!(findings(&file(400, "")), []);
        assert_eq!(findings(&file(401, "")), [(401, Severity::Warning)]);
        assert_eq!(findings(&file(801, "")), [(801, Severity::Error)]);
        assert_eq!(findings(&file(2000, " tidy: table")), []);
    }
}
