//! Checks that no file names the machine it was written on: no personal directories, and no package registry except the
//! public one.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// Top-level directories that differ between machines. Tests may name those in the second list.
const ALWAYS: &[&str] = &["work"];
const OUTSIDE_TESTS: &[&str] = &["root", "home", "tmp"];
/// Parts of the host names of package registries.
const REGISTRIES: [&str; 4] = ["artifactory", "mirror", "nexus", "registry"];
/// The only source allowed in `Cargo.lock`.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(|file| if file.path.ends_with("Cargo.lock") { lock(file) } else { text(file) }).collect()
}

fn lock(file: &File) -> Vec<Finding> {
    let advice = "resolve again with no replaced source in Cargo's configuration";
    let sources = file.text.lines().enumerate().filter_map(|(number, line)| {
        let source = line.strip_prefix("source = ")?.trim_matches('"');
        (source != CRATES_IO)
            .then(|| Finding::error(&file.path, number + 1, format!("a package from {source}"), advice))
    });
    sources.collect()
}

fn text(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let in_test = file.is_test() || file.rust.as_ref().is_some_and(|rust| rust.test[number]);
        let tops = ALWAYS.iter().chain(if in_test { &[] } else { OUTSIDE_TESTS });
        if let Some(top) = tops.copied().find(|top| names_directory(line, top)) {
            let advice = "take the directory as an argument, or use a neutral one (/srv, /var, std::env::temp_dir())";
            findings.push(Finding::error(&file.path, number + 1, format!("a path below /{top}"), advice));
        }
        if let Some(host) = registry(line) {
            let advice = "packages come from the public registries; a mirror is a matter of the machine";
            findings.push(Finding::error(&file.path, number + 1, format!("a package registry: {host}"), advice));
        }
        let cargo = file.path.ends_with(".toml");
        if cargo && (line.starts_with("[source.") || line.starts_with("[registries") || line.starts_with("[registry")) {
            let advice = "where packages come from is a matter of the machine";
            findings.push(Finding::error(&file.path, number + 1, "a replaced package source", advice));
        }
    }
    findings
}

/// Whether a line contains an absolute path below `/top`. `/top` alone may be anything, for example a URL.
fn names_directory(line: &str, top: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || "_-.~*}$)>/".contains(c);
    line.match_indices(&format!("/{top}/")).any(|(at, pattern)| {
        let rest = &line[at + pattern.len()..];
        !line[..at].ends_with(part) && rest.starts_with(|c: char| c.is_alphanumeric() || "_.".contains(c))
    })
}

/// The host of a URL, if it looks like a package registry.
fn registry(line: &str) -> Option<&str> {
    line.match_indices("://").find_map(|(at, _)| {
        let host = line[at + 3..].split(|c: char| !(c.is_alphanumeric() || "-.".contains(c))).next()?;
        REGISTRIES.iter().any(|part| host.contains(part)).then_some(host)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn no_directories_of_a_machine() {
        let own = format!("see /{}/notes.md", ALWAYS[0]);
        assert_eq!(findings("README.md", &own), [format!("a path below /{}", ALWAYS[0])]);
        assert_eq!(findings("crates/a/tests/it/a.rs", &own).len(), 1);
        assert_eq!(findings("README.md", "ls /home/joe").len(), 1);
        assert_eq!(findings("README.md", "ls /home/* /tmp and target/tmp/x, a/home/b, UserDir /home/*/www"), [""; 0]);
        assert_eq!(findings("crates/a/src/a.rs", "#[cfg(test)]\nmod tests {\n \"/tmp/a\"\n}\n"), [""; 0]);
        assert_eq!(findings("crates/a/src/a.rs", "let a = \"/tmp/a\";").len(), 1);
    }

    #[test]
    fn no_registries() {
        let lock = format!("source = \"{CRATES_IO}\"\nsource = \"sparse+https://elsewhere.example/index\"\n");
        assert_eq!(findings("Cargo.lock", &lock), ["a package from sparse+https://elsewhere.example/index"]);
        let url = format!("https://{}.example/pypi", REGISTRIES[1]);
        assert_eq!(findings("docs/a.md", &url).len(), 1);
        assert_eq!(findings("docs/a.md", "https://example.org/mirror"), [""; 0]);
        assert_eq!(findings(".cargo/config.toml", "[source.crates-io]\n"), ["a replaced package source"]);
    }
}
