//! The modules' tables of directives, as the program has them.

use std::collections::BTreeMap;

use conf::{ModuleInfo, Remark};

use crate::harness::mpm::Mpm;
use crate::harness::server::Start;
use crate::harness::site::{MANAGED, Site};

/// Every module of the program, MPMs included.
pub fn infos() -> Vec<&'static ModuleInfo> {
    let mpms = [&mpm::tables::PREFORK, &mpm::tables::WORKER, &mpm::tables::EVENT, &mpm::tables::PERCORE];
    let modules = modules::MODULES.iter().map(|module| &module.info);
    [&mpm::tables::CORE].into_iter().chain(modules).chain(mpms).collect()
}

/// A name occurs once in a module's table: the second row would never be reached.
#[test]
fn no_module_has_a_directive_twice() {
    for info in infos() {
        let mut seen = BTreeMap::new();
        for row in info.directives {
            let before = seen.insert(row.name.to_ascii_lowercase(), row.name);
            assert!(before.is_none(), "{}: {} stands twice", info.id, row.name);
        }
    }
}

/// The message about a wrong number of arguments ends with the help: Apache's own text, if it has one.
#[test]
fn every_directive_has_help() {
    for info in infos() {
        for row in info.directives {
            assert!(!row.help.contains('\n'), "{}: {}: the help is one line", info.id, row.name);
        }
    }
}

/// Remarks appear unchanged in the pages about directives.
#[test]
fn remarks_are_sentences() {
    for info in infos() {
        for row in info.directives {
            let Some(Remark::WithoutEffect(text) | Remark::Differs(text)) = row.remark else { continue };
            let begun = text.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
            assert!(begun && text.ends_with('.') && !text.contains('\n'), "{}: {}: {text:?}", info.id, row.name);
        }
    }
}

/// Sections are named with their `<` in the tables, and take their argument without `>`.
#[test]
fn sections_and_only_sections_begin_with_a_bracket() {
    for info in infos() {
        for row in info.directives {
            let section = matches!(row.args, conf::Args::Section(_) | conf::Args::OnRead(_));
            assert!(section || !row.name.starts_with('<'), "{}: {}", info.id, row.name);
            assert!(!row.name.ends_with('>'), "{}: {}", info.id, row.name);
        }
    }
}

/// Identifiers are unique, and what `LoadModule` and `<IfModule>` look for has the right form.
#[test]
fn every_module_has_its_two_names() {
    let mut seen = BTreeMap::new();
    for info in infos() {
        assert!(info.id.ends_with("_module"), "{}", info.id);
        assert!(info.source.ends_with(".c"), "{}: {}", info.id, info.source);
        if let Some(before) = seen.insert(info.id, info.source) {
            assert_eq!(before, info.source, "two modules are called {}", info.id);
        }
    }
}

/// What `-t` says of a good configuration.
const OK: &str = "Syntax OK\n";

/// Each default in a table is a valid argument: the directive's own setter parses it without an error. Under the first
/// MPM all of them are tried, under the others those of the MPM itself.
#[test]
fn every_default_parses() {
    let site = Site::new();
    let mut wrong = Vec::new();
    for mpm in Mpm::ALL {
        let own = format!("mpm_{mpm}_module");
        let loaded = |info: &&'static ModuleInfo| match info.id.starts_with("mpm_") {
            true => info.id == own || info.id == "mpm_core_module",
            false => mpm == Mpm::ALL[0],
        };
        let rows = |info: &'static ModuleInfo| info.directives.iter().map(move |row| (info, row));
        let mut lines = Vec::new();
        for (info, row) in infos().iter().copied().filter(|info| loaded(info)).flat_map(rows) {
            let is_line = !matches!(row.args, conf::Args::Section(_) | conf::Args::OnRead(_));
            if !is_line || row.default.is_empty() || NO_VALUES.contains(&row.name) {
                continue;
            }
            let line = format!("{} {}", row.name, row.default);
            let text = if row.allowed.meets(conf::Allowed::AT_SERVER_LEVEL) {
                line
            } else {
                format!("<Directory \"${{DOCS}}\">\n{line}\n</Directory>")
            };
            let load = match MANAGED.contains(&info.id) {
                true => format!("LoadModule {} modules/{}.so\n", info.id, info.source.trim_end_matches(".c")),
                false => String::new(),
            };
            lines.push(load + &text);
        }
        let said = |text: &str| {
            site.configure(mpm, text);
            let output = Start::new(&site, mpm).arguments(&["-t"]).command().output().expect("run");
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        // One by one only where something is wrong with some of them.
        let chunks = lines.chunks(20).filter(|lines| said(&lines.join("\n")) != OK);
        for line in chunks.flatten() {
            let said = said(line);
            if said != OK {
                wrong.push(format!("{line}: {}", said.trim().lines().last().unwrap_or_default()));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{} defaults do not parse:\n{}", wrong.len(), wrong.join("\n"));
}

/// Defaults that are words about a value instead of one.
const NO_VALUES: [&str; 8] = [
    "HeartbeatAddress",
    "HeartbeatListen",
    "ListenCoresBucketsRatio",
    "PerlForkMax",
    "PerlInterpMax",
    "PhpProcesses",
    "ProxyTimeout",
    "ServerAdmin",
];
