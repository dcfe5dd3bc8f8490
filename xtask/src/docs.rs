//! Generates pages from the program itself, so that they always agree with it.

mod catalogue;
mod compatibility;
mod directives;
mod examples;
pub(crate) mod infos;
mod manual;

use std::path::PathBuf;
use std::process::Command;

use crate::finding::Finding;
use crate::tree::{Tree, cargo, root};
use infos::{infos, title};

/// A page, and the function that writes it.
struct Page {
    path: &'static str,
    make: fn() -> Result<String, String>,
}

const PAGES: &[Page] = &[
    Page { path: "docs/directives.md", make: || Ok(directives::page(&infos(), &examples::Examples::read()?)) },
    Page { path: "docs/compat.md", make: || Ok(compatibility::page(&infos())) },
    Page { path: "docs/man/tsubame.8", make: || manual::server(&help(&[])?, &infos()) },
    Page { path: "docs/man/tsubame-bundle.8", make: || manual::page(&help(&["bundle"])?, "", manual::BUNDLE) },
    Page { path: "docs/man/tsubame-cache.8", make: || manual::page(&help(&["cache"])?, "", manual::CACHE) },
    Page { path: "docs/man/tsubame-check.8", make: || manual::page(&help(&["check"])?, "", manual::CHECK) },
    Page { path: "docs/man/tsubame-explain.8", make: || manual::page(&help(&["explain"])?, "", manual::EXPLAIN) },
    Page { path: "docs/man/tsubame-ctl.8", make: || manual::page(&help(&["ctl"])?, "", manual::CTL) },
    Page { path: "docs/man/tsubame-lab.1", make: || said_by("tsubame-lab", &["man"]) },
];

/// Writes the pages that have changed.
pub(crate) fn run() -> Result<(), String> {
    for Page { path, make } in PAGES {
        let file = root().join(path);
        let text = make()?;
        if std::fs::read_to_string(&file).is_ok_and(|old| old == text) {
            println!("{path} is up to date");
            continue;
        }
        let write = || {
            std::fs::create_dir_all(file.parent().unwrap_or(&file))?;
            std::fs::write(&file, &text)
        };
        write().map_err(|error| format!("{path}: {error}"))?;
        println!("{path} written");
    }
    Ok(())
}

/// Checks that the pages in the repository are up to date, and that our tables allow directives in the same places as
/// Apache.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let advice = "ask `apache2 -L` and `apache2 -t` who is right, and correct the module's table or this file";
    let places = catalogue::contradictions(&catalogue::entries(&infos())).into_iter();
    let mut findings: Vec<Finding> =
        places.map(|what| Finding::error("crates/modules/data/apache-directives.tsv", 1, what, advice)).collect();
    findings.extend(without_example());
    for Page { path, make } in PAGES {
        match make() {
            Err(error) => findings.push(Finding::error(path, 1, error, "repair what it is made from")),
            Ok(text) => {
                let old = tree.files.iter().find(|file| file.path == *path).map_or("", |file| &file.text);
                if let Some(line) = difference(old, &text) {
                    let advice = "`cargo xtask docs` writes it again";
                    findings.push(Finding::error(path, line, "differs from the program", advice));
                }
            }
        }
    }
    findings
}

/// Finds usable directives without an example, and examples of modules that do not exist.
fn without_example() -> Vec<Finding> {
    let examples = match examples::Examples::read() {
        Ok(examples) => examples,
        Err(error) => {
            return vec![Finding::error(examples::DIRECTORY, 1, error, "each file is blocks with a comment first")];
        }
    };
    let entries = catalogue::entries(&infos());
    let bare = entries
        .iter()
        .filter(|entry| !entry.rows.is_empty() && examples::is_usable(entry) && examples.of(entry).is_none());
    let bare = bare.map(|entry| {
        let file = format!("{}/{}.conf", examples::DIRECTORY, entry.rows[0].0);
        let what = format!("{} has no example", entry.name);
        Finding::error(&file, 1, what, "add a block that `tsubame -t` accepts, with a comment that says what it does")
    });
    let known: Vec<String> = infos().iter().map(|info| title(info)).collect();
    let strange = examples.modules().filter(|name| !known.iter().any(|have| have == name)).map(|name| {
        let file = format!("{}/{name}.conf", examples::DIRECTORY);
        Finding::error(&file, 1, "is not named after a module", "name it as docs/directives.md names the module")
    });
    bare.chain(strange).collect()
}

/// The first line in which two texts differ, from 1.
fn difference(old: &str, new: &str) -> Option<usize> {
    if old == new {
        return None;
    }
    let same = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    Some(same + 1)
}

/// The `--help` output of the program, or of a subcommand.
fn help(subcommand: &[&str]) -> Result<String, String> {
    said_by("tsubame", &[subcommand, &["--help"]].concat())
}

/// The output of one of the two programs. It is built first, unless `TSUBAME` names a server that is already built; the
/// other program is then in the same directory.
fn said_by(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = match std::env::var_os("TSUBAME") {
        Some(built) => Command::new(PathBuf::from(built).with_file_name(program)),
        None => {
            let mut command = cargo();
            command.args(["run", "--quiet", "--package", program, "--"]);
            command
        }
    };
    let failed = |why: &str| format!("{program} {}: {}", arguments.join(" "), why.trim_end());
    let output = command.args(arguments).output().map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(difference("", "a\n"), Some(1));
    }
}
