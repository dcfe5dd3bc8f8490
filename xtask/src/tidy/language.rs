//! Nothing is left for later, no test is skipped, and no test waits by the clock.

use super::Finding;
use crate::tree::{File, Rust, Tree, whole_words};

/// Words in comments that put something off.
const LATER: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];
/// The same as macros.
const MACROS: [&str; 2] = ["todo", "unimplemented"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .flat_map(|(file, rust)| [later(file, rust), skipped(file, rust), asleep(file, rust)])
        .flatten()
        .collect()
}

fn later(file: &File, rust: &Rust) -> Vec<Finding> {
    let advice = "do it now, or open an issue and say here how things are";
    let mut findings = Vec::new();
    for (line, comment) in rust.comments.iter().enumerate() {
        if let Some(word) = LATER.iter().find(|word| whole_words(comment, word).next().is_some()) {
            findings.push(Finding::error(&file.path, line + 1, format!("`{word}` in a comment"), advice));
        }
    }
    for name in MACROS {
        for (line, _) in rust.words(name).filter(|(_, rest)| rest.starts_with('!')) {
            findings.push(Finding::error(&file.path, line + 1, format!("`{name}!`"), advice));
        }
    }
    findings
}

fn skipped(file: &File, rust: &Rust) -> Vec<Finding> {
    let advice = "make it pass, or let it say on its own line why it has nothing to test on this machine";
    let lines = rust.code.iter().enumerate().filter(|(_, code)| code.trim_start().starts_with("#[ignore"));
    lines.map(|(line, _)| Finding::error(&file.path, line + 1, "a test that is ignored", advice)).collect()
}

fn asleep(file: &File, rust: &Rust) -> Vec<Finding> {
    let advice = "wait for what is expected (a line, a byte, the end of a process), with a deadline";
    let calls = rust.words("sleep").filter(|(line, rest)| rest.starts_with('(') && rust.test[*line]);
    calls.map(|(line, _)| Finding::error(&file.path, line + 1, "a test that sleeps", advice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn nothing_is_put_off() {
        let text = format!("// {}: later\nfn f() {{ {}!() }}\nlet a = \"{}\";\n", LATER[1], MACROS[0], LATER[2]);
        assert_eq!(findings("a/src/a.rs", &text), ["`FIXME` in a comment", "`todo!`"]);
        assert_eq!(findings("a/src/a.rs", "// mkstemp wants XXXXXX\nlet todo = 1;\n"), [""; 0]);
    }

    #[test]
    fn no_test_is_skipped() {
        assert_eq!(findings("a/src/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n"), ["a test that is ignored"]);
    }

    #[test]
    fn no_test_sleeps() {
        let text = "fn f() { std::thread::sleep(A) }\n#[cfg(test)]\nmod tests {\n fn g() { time::sleep(A).await }\n}\n";
        let found = check(&Tree::of(&[("a/src/a.rs", text)]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [4]);
        assert_eq!(findings("a/tests/it/main.rs", "fn f() { thread::sleep(A) }\n"), ["a test that sleeps"]);
    }
}
