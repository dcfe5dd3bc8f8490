//! Checks that no work is postponed, no test is skipped, and no test waits by the clock.

use crate::finding::Finding;
use crate::tree::{File, Rust, Tree, whole_words};

/// Words in comments that mark postponed work.
const LATER: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];
/// Macros that mark postponed work.
const MACROS: [&str; 2] = ["todo", "unimplemented"];

/// Functions that sleep. Only `wait.rs` of a test may call them.
const SLEEPS: [&str; 3] = ["sleep", "sleep_ms", "park_timeout"];
/// Functions that wait for a condition.
const WAITS: [&str; 2] = ["until", "within"];

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
    let is_call = |(line, rest): &(usize, &str)| (rest.starts_with('(') || rest.starts_with("::<")) && rust.test[*line];
    let sleeps = SLEEPS.iter().flat_map(|name| rust.words(name)).filter(is_call);
    // `wait.rs` sleeps between two checks of a condition.
    let sleeps = sleeps.filter(|_| !file.path.ends_with("/wait.rs"));
    let waits = WAITS.iter().flat_map(|name| rust.words(name)).filter(is_call);
    let waits = waits.filter(|(_, rest)| waits_for_nothing(rest));
    let spans = rust.words("recv_timeout").filter(is_call).filter(|(_, rest)| rest.starts_with("(Duration::"));
    let of = |what: &'static str| move |(line, _)| Finding::error(&file.path, line + 1, what, advice);
    let sleeping = sleeps.map(of("a test that sleeps"));
    sleeping.chain(waits.chain(spans).map(of("a test that waits for nothing but time"))).collect()
}

/// Whether these arguments wait for no condition, or only for time to pass.
fn waits_for_nothing(arguments: &str) -> bool {
    let Some((_, asked)) = arguments.split_once("|| ") else { return false };
    let is_time =
        asked.starts_with('(') && asked.contains(".elapsed()") && !asked.contains("&&") && !asked.contains("||");
    is_time || asked.starts_with("None)")
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
        assert_eq!(findings("a/tests/it/main.rs", "fn f() { park_timeout(A) }\n"), ["a test that sleeps"]);
        assert_eq!(findings("a/tests/it/wait.rs", "fn f() { thread::sleep(A) }\n"), [""; 0]);
        let time = "a test that waits for nothing but time";
        for line in [
            "within::<()>(A, || None);",
            "until(A, || (a.elapsed() > B).then_some(()));",
            "a.recv_timeout(Duration::B)",
        ] {
            assert_eq!(findings("a/tests/it/main.rs", &format!("fn f() {{ {line} }}\n")), [time], "{line}");
        }
        let good = "fn f() { until(A, || b().then_some(())); a.recv_timeout(DEADLINE) }\n";
        assert_eq!(findings("a/tests/it/main.rs", good), [""; 0]);
    }
}
