//! Pages that are made from the program itself, so that they cannot say anything else than it does.

mod catalogue;
mod compatibility;
mod directives;
mod manual;

use std::process::Command;

use conf::ModuleInfo;

use crate::tidy::Finding;
use crate::tree::{Tree, cargo, root};

/// A page, and what writes it.
struct Page {
    path: &'static str,
    make: fn() -> Result<String, String>,
}

/// Of the subcommands.
const SEE_ALSO: &str = ".SH SEE ALSO\n.BR tsubame (8)\n";

const PAGES: &[Page] = &[
    Page { path: "docs/directives.md", make: || Ok(directives::page(&infos())) },
    Page { path: "docs/compat.md", make: || Ok(compatibility::page(&infos())) },
    Page { path: "docs/man/tsubame.8", make: || manual::server(&help(&[])?, &infos()) },
    Page { path: "docs/man/tsubame-check.8", make: || manual::page(&help(&["check"])?, "", SEE_ALSO) },
    Page { path: "docs/man/tsubame-explain.8", make: || manual::page(&help(&["explain"])?, "", SEE_ALSO) },
    Page { path: "docs/man/tsubame-ctl.8", make: || manual::page(&help(&["ctl"])?, "", SEE_ALSO) },
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

/// The pages in the repository are what would be written now, and the tables say of places what Apache says.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let advice = "ask `apache2 -L` and `apache2 -t` who is right, and correct the module's table or this file";
    let places = catalogue::contradictions(&catalogue::entries(&infos())).into_iter();
    let mut findings: Vec<Finding> =
        places.map(|what| Finding::error("crates/modules/data/apache-directives.tsv", 1, what, advice)).collect();
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

/// The first line in which two texts differ, from 1.
fn difference(old: &str, new: &str) -> Option<usize> {
    if old == new {
        return None;
    }
    let same = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    Some(same + 1)
}

/// Every module of the program, the core module's two tables first.
pub(crate) fn infos() -> Vec<&'static ModuleInfo> {
    server::module::set_known(modules::MODULES);
    let mpms = [&mpm::tables::PERCORE, &mpm::tables::PREFORK, &mpm::tables::WORKER, &mpm::tables::EVENT];
    std::iter::once(&mpm::tables::CORE).chain(server::known_infos()).chain(mpms).collect()
}

/// The name by which people speak of a module: `mod_alias`, `core`, `mpm_prefork`.
fn title(info: &ModuleInfo) -> String {
    let mpm = info.id.strip_suffix("_module").filter(|name| name.starts_with("mpm_"));
    mpm.unwrap_or_else(|| info.source.trim_end_matches(".c")).to_string()
}

/// What `--help` of the program, or of a subcommand, prints. The program is built, unless `TSUBAME` names one that is.
fn help(subcommand: &[&str]) -> Result<String, String> {
    let mut program = match std::env::var_os("TSUBAME") {
        Some(built) => Command::new(built),
        None => {
            let mut program = cargo();
            program.args(["run", "--quiet", "--package", "tsubame", "--"]);
            program
        }
    };
    let output = program.args(subcommand).arg("--help").output();
    let output = output.map_err(|error| format!("tsubame --help: {error}"))?;
    if !output.status.success() {
        return Err(format!("tsubame --help: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("tsubame --help: {error}"))
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

    #[test]
    fn modules_have_their_names() {
        let titles: Vec<String> = infos().iter().map(|info| title(info)).collect();
        assert!(["core", "mod_dir", "mpm_prefork"].iter().all(|name| titles.iter().any(|title| title == name)));
    }
}
