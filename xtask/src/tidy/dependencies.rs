//! Checks that crates depend on each other in one direction only, and that the server has no Cargo features.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// The crates of ours that each crate may use, from the bottom up.
const MAY_USE: &[(&str, &[&str])] = &[
    ("sys", &[]),
    ("http", &[]),
    ("conf", &["sys", "http"]),
    ("runtime", &["sys", "conf"]),
    ("mpm", &["sys", "conf", "runtime"]),
    ("server", &["sys", "http", "conf", "runtime"]),
    ("upstream", &["sys", "http", "conf", "runtime", "server"]),
    ("gateway", &["sys", "http", "conf", "runtime", "server", "upstream"]),
    ("modules", &["sys", "http", "conf", "runtime", "server", "upstream", "gateway"]),
    ("tsubame", &["sys", "http", "conf", "runtime", "server", "upstream", "gateway", "modules", "mpm"]),
    // The laboratory is a client. It shares no code with the server, so that a mistake of the server cannot hide in the
    // tool that measures it.
    ("lab", &[]),
    ("xtask", &["sys", "http", "conf", "runtime", "server", "upstream", "gateway", "modules", "mpm"]),
    ("fuzz", &["sys", "http", "conf", "runtime", "server", "upstream", "gateway", "modules", "mpm"]),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let sources = tree.files.iter().filter(|file| file.path.starts_with("crates/conf/src/"));
    let program = tree.files.iter().filter(|file| file.path.starts_with("crates/tsubame/src/"));
    manifests.flat_map(manifest).chain(sources.flat_map(kernel)).chain(program.flat_map(modules_by_name)).collect()
}

/// What the program may use of `modules`: the lists of modules, and no module by its name.
const LISTS: [&str; 3] = ["MODULES", "manual", "idle"];

/// Checks that the program knows no module by name.
fn modules_by_name(file: &File) -> Vec<Finding> {
    let named = |line: &str| {
        let mut used = line.match_indices("modules::").filter(|(at, _)| !line[..*at].ends_with(is_word));
        used.any(|(at, name)| {
            let rest = &line[at + name.len()..];
            let is_other = |used: &str| !LISTS.iter().any(|list| used.trim_start().starts_with(list));
            match rest.strip_prefix('{').and_then(|list| list.split('}').next()) {
                Some(several) => several.split(',').any(is_other),
                None => is_other(rest),
            }
        })
    };
    let is_ours = |line: &str| !line.contains("server::modules::") && !line.trim_start().starts_with("//");
    let lines = file.text.lines().enumerate().filter(|(_, line)| is_ours(line) && named(line));
    let advice = "let the module join in by a hook (crates/server/src/module/hook.rs)";
    lines.map(|(number, _)| Finding::error(&file.path, number + 1, "the program names a module", advice)).collect()
}

/// Checks that `conf` does no I/O: of `sys` it may use only PCRE2, and nothing of the kernel.
fn kernel(file: &File) -> Vec<Finding> {
    let is_other = |line: &str| {
        let mut used = line.match_indices("sys::").filter(|(at, _)| !line[..*at].ends_with(is_word));
        used.any(|(at, name)| !line[at + name.len()..].starts_with("pcre2"))
    };
    let lines = file.text.lines().enumerate().filter(|(_, line)| is_other(line));
    let advice = "conf does no I/O: pass what is needed as an argument";
    lines.map(|(number, _)| Finding::error(&file.path, number + 1, "conf asks the kernel", advice)).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn manifest(file: &File) -> Vec<Finding> {
    let krate = file.krate();
    let Some((_, may)) = MAY_USE.iter().find(|(name, _)| *name == krate) else {
        let advice = "say in xtask/src/tidy/dependencies.rs where it stands among the others";
        return vec![Finding::error(&file.path, 1, format!("{krate} is a new crate"), advice)];
    };
    let mut findings = Vec::new();
    let mut section = String::new();
    for (number, line) in file.text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_string();
            if section == "features" && file.path.starts_with("crates/") {
                let advice = "what can be chosen is chosen by configuration, at run time";
                findings.push(Finding::error(&file.path, number + 1, "Cargo features in the server", advice));
            }
            continue;
        }
        if !section.ends_with("dependencies") {
            continue;
        }
        if let Some(name) = ours(line).filter(|name| !may.contains(name)) {
            let allowed = if may.is_empty() { "none of ours".to_string() } else { may.join(", ") };
            let advice = format!("{krate} may use {allowed}: move the code, or pass what is needed as an argument");
            findings.push(Finding::error(&file.path, number + 1, format!("{krate} depends on {name}"), advice));
        }
    }
    findings
}

/// The crate of ours in a line of `[dependencies]`.
fn ours(line: &str) -> Option<&'static str> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let package = value.split_once("package = \"").and_then(|(_, rest)| rest.split('"').next());
    let local = value.contains("path =");
    let from_workspace = key.ends_with(".workspace") || value.contains("workspace = true");
    let key = key.strip_suffix(".workspace").unwrap_or(key);
    let name = package.unwrap_or(key).trim_start_matches("tsubame-");
    let known = MAY_USE.iter().map(|(known, _)| *known).find(|known| *known == name)?;
    (local || from_workspace || package.is_some_and(|package| package.starts_with("tsubame"))).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn upwards_is_refused() {
        let text = "[dependencies]\nhttp.workspace = true\nserver.workspace = true\n\
                    [dev-dependencies]\nx = { package = \"tsubame-mpm\", path = \"../mpm\" }\n";
        assert_eq!(findings("crates/conf/Cargo.toml", text), ["conf depends on server", "conf depends on mpm"]);
        assert_eq!(findings("crates/tsubame/Cargo.toml", text), [""; 0]);
    }

    #[test]
    fn a_strangers_crate_of_the_same_name_is_not_ours() {
        assert_eq!(findings("lab/Cargo.toml", "[dependencies]\nhttp = \"1\"\n"), [""; 0]);
        assert_eq!(findings("lab/Cargo.toml", "[dependencies]\nhttp.workspace = true\n"), ["lab depends on http"]);
    }

    #[test]
    fn the_program_names_no_module() {
        let text = "use modules::{MODULES, manual};\nuse modules::{manual, ssl};\nuse modules::ssl::mod_ssl;\n";
        let path = "crates/tsubame/src/start.rs";
        assert_eq!(findings(path, text), ["the program names a module"; 2]);
        assert_eq!(findings("crates/tsubame/src/x.rs", "use modules::idle;\nuse other_modules::x;\n"), [""; 0]);
    }

    #[test]
    fn no_features() {
        assert_eq!(findings("crates/sys/Cargo.toml", "[features]\nfast = []\n"), ["Cargo features in the server"]);
        assert_eq!(findings("crates/new/Cargo.toml", ""), ["new is a new crate"]);
    }
}
