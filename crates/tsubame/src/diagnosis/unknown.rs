//! Explains names of modules and directives that a configuration uses and this server does not know.

use std::path::Path;

use conf::nearest_name;
use conf::{ModuleInfo, Origin};
use modules::manual::{self, Fact, Loss, MODULES, Other, Page, REMOVED};

use super::advice;
use super::context::ErrorContext;
use super::names::named;
use crate::config::known_modules;
use server::module::finding::{Finding, Topic, Weight};

pub(super) fn module(weight: Weight, id: &str, origin: Option<&Origin>) -> Finding {
    let found = |message: String| Finding::new(weight, Topic::Module, id, message);
    if let Some(page) = MODULES.iter().find(|page| page.identifier == id) {
        return found(format!(
            "Tsubame does not have {}: {}. See docs/compat.md.",
            page.name,
            manual::missing(page.name)
        ))
        .does(page.purpose)
        .loss(page.loss)
        .instead(without(page, &format!("{}, and put what needs it", unload(origin))));
    }
    if let Some(other) = Other::with_identifier(id) {
        return found(format!("Tsubame does not have {}.", other.name))
            .does(other.purpose)
            .loss(other.loss)
            .instead(other.instead);
    }
    // Without the end that all have, as it makes short names look alike.
    const END: &str = "_module";
    let ids = known_modules().iter().map(|info| info.id).chain(MODULES.iter().map(|page| page.identifier));
    let names = ids.filter_map(|id| id.strip_suffix(END));
    let instead = match nearest_name(names, id.strip_suffix(END).unwrap_or(id)) {
        Some(near) => format!("Did you mean {near}{END}?"),
        None => format!("{}, and put what needs it inside <IfModule {id}>", unload(origin)),
    };
    found("No module of this name is known.".into()).instead(instead)
}

pub(super) fn directive(weight: Weight, topic: Topic, name: &str, known: &ErrorContext<'_>) -> Finding {
    let subject = named(name);
    let found = |message: String| Finding::new(weight, topic, &subject, message);
    let is_loaded_by_id = |id: &str| known.loaded.iter().any(|have| have.id == id);
    let is_loaded = |info: &ModuleInfo| is_loaded_by_id(info.id);
    let ours = conf::directive::find_all(known_modules(), name).find(|(info, _)| !is_loaded(info));
    if let Some((info, row)) = ours {
        let module = info.source.trim_end_matches(".c");
        return found(format!("{module} has it, and is not loaded."))
            .does(row.help)
            .instead(advice::load(info, row.name, known));
    }
    if name.eq_ignore_ascii_case("<Perl") {
        return found("Tsubame runs no Perl while it reads a configuration.".into())
            .does("Perl code that writes directives, of mod_perl")
            .loss(Some(Loss::Feature))
            .instead(
                "Write the directives that the code makes, or let a program write them into a file that you Include",
            );
    }
    if let Some(fact) = refused(name) {
        let why = manual::refusal(fact, known_modules());
        let page = fact.page().filter(|page| page.info(known_modules()).is_none() && !page.identifier.is_empty());
        let message = match page {
            Some(_) => format!("{} has it. Tsubame does not have {0}: {why}. See docs/compat.md.", fact.module),
            None => format!("Tsubame does not have it: {why}."),
        };
        return found(message).does(fact.purpose).loss(fact.loss()).instead(page.map_or_else(
            || "Remove it".into(),
            |page| match is_loaded_by_id(page.identifier) {
                // Its LoadModule line makes the condition true, as in Apache.
                true if page.instead.is_empty() => {
                    let id = page.identifier;
                    format!("Remove it, or remove LoadModule {id} and put it inside <IfModule {id}>")
                }
                _ => without(page, "Remove it, or put it"),
            },
        ));
    }
    if let Some(removed) = REMOVED.iter().find(|removed| removed.name.eq_ignore_ascii_case(name)) {
        return found(format!("Apache {} was the last version that had it.", removed.last))
            .does(removed.purpose)
            .loss(removed.loss)
            .instead(removed.instead);
    }
    if let Some(other) = Other::with_directive(name) {
        return found(format!("{} has it. Tsubame does not have {0}.", other.name))
            .does(other.purpose)
            .loss(other.loss)
            .instead(other.instead);
    }
    if name.starts_with('\u{feff}') {
        return found("The file begins with a UTF-8 byte order mark.".into()).instead("Save it without the mark");
    }
    let found = found(NO_SUCH_DIRECTIVE.into());
    match nearest_directive(name) {
        Some(near) => {
            let is_here = conf::directive::find(known.loaded, near).is_some();
            let but = if is_here { String::new() } else { directive(weight, topic, near, known).message };
            found.instead(format!("Did you mean {}? {but}", named(near)).trim_end())
        }
        None => found,
    }
}

/// How to take out a `LoadModule` line. On Debian it has a file of its own, which a program switches off.
fn unload(origin: Option<&Origin>) -> String {
    let file = origin.map(|origin| Path::new(origin.file()));
    let debian = file.filter(|file| file.parent().is_some_and(|directory| directory.ends_with("mods-enabled")));
    match debian.and_then(Path::file_stem) {
        Some(name) => format!("Run `a2dismod {}`", name.display()),
        None => "Remove the line".into(),
    }
}

/// Advice for a missing Apache module: what replaces it, or `guard` it.
fn without(page: &Page, guard: &str) -> String {
    if page.instead.is_empty() { format!("{guard} inside <IfModule {}>", page.identifier) } else { page.instead.into() }
}

pub(super) const NO_SUCH_DIRECTIVE: &str = "No module has a directive of this name.";

/// Apache's directive of this name if we do not have it. mod_lua also offers its directives as sections, which the
/// manual does not list.
fn refused(name: &str) -> Option<&'static Fact> {
    let line = || manual::directive(name.strip_prefix('<')?).filter(|fact| fact.module == "mod_lua");
    manual::directive(name).or_else(line)
}

/// The directive that was probably meant by a misspelt name.
fn nearest_directive(name: &str) -> Option<&'static str> {
    let ours = known_modules().iter().flat_map(|info| info.directives).map(|row| row.name);
    let theirs = manual::DIRECTIVES.iter().map(|fact| fact.name.trim_end_matches('>'));
    nearest_name(ours.chain(theirs).chain(REMOVED.iter().map(|removed| removed.name)), name)
}

#[cfg(test)]
mod tests {
    use modules::manual::{DIRECTIVES, OTHERS};

    use super::*;

    /// Every refused directive and module has an explanation.
    #[test]
    fn everything_missing_is_described() {
        server::module::set_known(modules::MODULES);
        for fact in DIRECTIVES.iter() {
            let name = fact.name.trim_end_matches('>');
            if conf::directive::find(known_modules(), name).is_none() {
                assert!(!fact.purpose.is_empty() && fact.loss().is_some(), "{fact:?}");
            }
        }
        for page in MODULES.iter().filter(|page| !page.identifier.is_empty() && page.info(known_modules()).is_none()) {
            assert!(!page.purpose.is_empty() && page.loss.is_some(), "{page:?}");
        }
        for other in OTHERS.iter() {
            assert!(!other.purpose.is_empty() && !other.instead.is_empty() && other.loss.is_some(), "{other:?}");
        }
        for removed in REMOVED.iter() {
            assert!(
                !removed.purpose.is_empty() && !removed.instead.is_empty() && removed.loss.is_some(),
                "{removed:?}"
            );
            assert!(manual::directive(removed.name).is_none(), "Apache 2.4 has {}", removed.name);
        }
    }

    #[test]
    fn modules_of_others_are_known_by_the_first_word_of_a_directive() {
        let of = |name| Other::with_directive(name).map(|other| other.name);
        assert_eq!(of("CASCookie"), Some("mod_auth_cas"));
        assert_eq!(of("CaseFilter"), Some("mod_case_filter"));
        assert_eq!(of("RPAFenable"), Some("mod_rpaf"));
        assert_eq!(of("secruleengine"), Some("mod_security"));
        assert_eq!(of("Secondary"), None);
        assert_eq!(of("mod_gzip_on"), Some("mod_gzip"));
    }

    #[test]
    fn misspelt_names_have_a_neighbour() {
        server::module::set_known(modules::MODULES);
        for (name, near) in [
            ("Hader", "Header"),
            ("RewriteRul", "RewriteRule"),
            ("Lsiten", "Listen"),
            ("Odrer", "Order"),
            ("MDomian", "MDomain"),
            ("LockFiel", "LockFile"),
            ("<Directry", "<Directory"),
            ("SecureListn", "SecureListen"),
        ] {
            assert_eq!(nearest_directive(name), Some(near), "{name}");
        }
        assert_eq!(nearest_directive("Entirely"), None);
    }
}
