//! Checks that a log number stands for one message: a search for `AH00052` must find one text.

use std::collections::HashMap;

use crate::finding::Finding;
use crate::tree::{File, Rust, Tree};

/// The length of the text to compare.
const BEGINNING: usize = 24;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut seen: HashMap<(String, String), (String, String)> = HashMap::new();
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        for (line, number, text) in numbers(rust) {
            let here = place(file, line);
            let key = (file.krate().to_string(), number.clone());
            let (first, at) = seen.entry(key).or_insert_with(|| (text.clone(), here));
            if !first.starts_with(&text) && !text.starts_with(first.as_str()) {
                let what = format!("{number} is `{text}…` here and `{first}…` at {at}");
                let advice = "one number, one text: use the right number, or none where Apache has no such message";
                findings.push(Finding::warning(&file.path, line + 1, what, advice));
            }
        }
    }
    findings
}

fn place(file: &File, line: usize) -> String {
    format!("{}:{}", file.path, line + 1)
}

/// The line, the number, and the beginning of the text after it, of every message outside tests.
fn numbers(rust: &Rust) -> Vec<(usize, String, String)> {
    let literals = rust.strings.iter().filter(|(line, _)| !rust.test[*line]);
    let found = literals.flat_map(|(line, text)| {
        text.match_indices("AH").filter_map(|(at, _)| {
            let number = text.get(at..at + 7).filter(|n| n.bytes().skip(2).all(|b| b.is_ascii_digit()))?;
            let rest = text[at + 7..].strip_prefix(':')?.trim_start();
            let fixed: String = rest.split(['{', '\\']).next()?.chars().take(BEGINNING).collect();
            (!fixed.is_empty()).then(|| (*line, number.to_string(), fixed))
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_one_text() {
        let a = ("crates/mpm/src/a.rs", "f(\"AH00052: child pid {pid} exit\"); f(\"AH00163: {name} ready\");");
        let same = ("crates/mpm/src/b.rs", "f(\"x: AH00052: child pid 7 exit\");");
        let other = ("crates/mpm/src/c.rs", "f(\"AH00052: parent pid\");");
        let elsewhere = ("crates/http/src/c.rs", "f(\"AH00052: parent pid\");");
        assert_eq!(check(&Tree::of(&[a, same, elsewhere])), []);
        let found = check(&Tree::of(&[a, same, other]));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].file.as_str(), found[0].line), ("crates/mpm/src/c.rs", 1));
    }
}
