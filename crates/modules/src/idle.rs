//! Modules of Apache's that Tsubame does not have, and that do nothing where no directive, handler, provider or filter asks
//! for them: a `LoadModule` line alone is accepted.
//!
//! Builds of Apache list many of them, and most sites use none. The directives that ask for something are not in these
//! tables, so they are refused as in any other configuration.

use std::sync::LazyLock;

use conf::directive::Args;
use conf::{Allowed, Directive, Language, Level, ModuleInfo, Notice, Remark};

use crate::manual::{self, Alone, Fact, OTHERS};

/// These modules, each with the directives that only tune it.
pub static MODULES: LazyLock<Vec<&'static ModuleInfo>> = LazyLock::new(|| {
    let is_idle = |alone| matches!(alone, Some(Alone::Idle | Alone::There));
    let pages = manual::MODULES.iter().filter(|page| is_idle(page.alone));
    let own = pages.map(|page| info(page.identifier, page.name, tuning(page.name, page.tunes)));
    let others = OTHERS.iter().filter(|other| is_idle(other.alone));
    own.chain(others.map(|other| info(other.identifiers, other.name, Vec::new()))).collect()
});

/// The notice about such modules that a configuration loads: one for all of them.
pub fn notice(language: &Language) -> Option<Notice> {
    let there = |id: &str| manual::MODULES.iter().any(|page| page.identifier == id && page.alone == Some(Alone::There));
    let loaded = language.loaded_idle().filter(|info| !there(info.id));
    let names: Vec<&str> = loaded.map(|info| info.source.trim_end_matches(".c")).collect();
    let text = format!(
        "LoadModule: Tsubame does not have {}; nothing changes, as a module of this kind does nothing where no \
         directive, handler, provider or filter asks for it",
        names.join(", ")
    );
    (!names.is_empty()).then(|| Notice::new("so", Level::Notice, text))
}

/// Whether a line loads such a module.
pub fn is_idle(id: &str) -> bool {
    MODULES.iter().any(|info| info.id == id)
}

/// What the lines of such modules say in a report.
pub const WITHOUT_EFFECT: &str = "Tsubame does not have the module, and nothing asks for it.";

/// Lives as long as the program, like the tables of the other modules.
fn info(id: &'static str, name: &str, rows: Vec<Directive>) -> &'static ModuleInfo {
    let source = String::leak(format!("{name}.c"));
    Box::leak(Box::new(ModuleInfo { id, source, linked: false, directives: Vec::leak(rows) }))
}

/// The rows of the directives that only tune a module.
fn tuning(module: &str, names: &'static str) -> Vec<Directive> {
    let facts = names.split(',').filter_map(|name| {
        manual::DIRECTIVES.iter().find(|fact| fact.name == name && fact.module == module && !name.is_empty())
    });
    facts.map(row).collect()
}

fn row(fact: &'static Fact) -> Directive {
    let row = conf::row(fact.name, allowed(fact), Args::Raw(|_, _| Ok(())), "", fact.purpose);
    Directive { remark: Some(Remark::WithoutEffect(WITHOUT_EFFECT)), ..row }
}

/// The contexts of the manual.
fn allowed(fact: &Fact) -> Allowed {
    let is_in = |context: &str| fact.context.split(',').any(|have| have == context);
    let htaccess = match fact.class {
        _ if !is_in("htaccess") => Allowed::NONE,
        "FileInfo" => Allowed::FILEINFO,
        "AuthConfig" => Allowed::AUTH,
        "Indexes" => Allowed::INDEXES,
        "Limit" => Allowed::LIMIT,
        "Options" => Allowed::OPTIONS,
        _ => Allowed::ANY,
    };
    let server = match () {
        () if is_in("vhost") => Allowed::SERVER,
        () if is_in("server") => Allowed::GLOBAL,
        () => Allowed::NONE,
    };
    let section = if is_in("directory") { Allowed::SECTION } else { Allowed::NONE };
    htaccess.or(server).or(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody forgets a module that is missing: each page says what a `LoadModule` line alone does.
    #[test]
    fn every_missing_module_is_judged() {
        let ours = |id: &str| crate::MODULES.iter().any(|module| module.info.id == id) || id.starts_with("mpm_");
        for page in manual::MODULES.iter().filter(|page| !page.identifier.is_empty()) {
            let is_missing = !ours(page.identifier);
            assert!(page.alone.is_some() || !is_missing, "{}: nothing in the column `alone`", page.name);
            assert!(!is_idle(page.identifier) || is_missing, "{}: it is not missing", page.name);
        }
    }

    /// Names that only tune exist in the manual, and what asks for something is not among them.
    #[test]
    fn tuning_directives_are_the_manual_s() {
        for page in manual::MODULES.iter().filter(|page| !page.tunes.is_empty()) {
            let rows = tuning(page.name, page.tunes);
            assert_eq!(rows.len(), page.tunes.split(',').count(), "{}", page.name);
        }
        for asks in ["CacheEnable", "LuaHookAccessChecker", "ProtocolEcho", "DumpIOInput"] {
            let all = MODULES.iter().flat_map(|info| info.directives);
            assert!(all.into_iter().all(|row| row.name != asks), "{asks}");
        }
    }
}
