//! Reports errors and warnings of the configuration reader, and explains names that it does not know.

use std::path::Path;

use conf::directive::nearest_name;
use conf::words::next_word;
use conf::{Error, Level, ModuleInfo, Node, Notice, Origin, Unknown};
use modules::manual::{self, Fact, Loss, MODULES, Other, Page, REMOVED};

use super::advice;
use super::report::{Finding, Report, Topic, Weight};
use crate::boot;
use crate::complaint::Known;

/// Reports the errors of the configuration. Each of them prevents the start.
pub(super) fn all<'a>(report: &mut Report, errors: impl Iterator<Item = &'a Error>, known: &Known<'_>) {
    for error in errors {
        let mut found = finding(error, Weight::Stops, Topic::Directive, known);
        let obeyed = known.ran.iter().find(|ran| Some(&ran.origin) == error.origin.as_ref());
        if let Some(ran) = obeyed.filter(|_| found.topic == Topic::Syntax) {
            found.subject = named(&next_word(&mut ran.text.as_str()));
        }
        if let Some(reason) = &error.reason {
            found.message = format!("{}; {reason}", found.message.trim_end_matches('.'));
        }
        report.add(found);
    }
}

/// An explanation to add to Apache's own words about an error.
pub(crate) struct Explained {
    /// The problem, where Apache's words do not state it.
    pub(crate) message: Option<String>,
    /// What to write or do instead.
    pub(crate) instead: Option<String>,
}

/// Explains an error.
pub(crate) fn explained(error: &Error, known: &Known<'_>) -> Explained {
    let Finding { message, instead, .. } = finding(error, Weight::Stops, Topic::Directive, known);
    let says_more = message != NO_SUCH_DIRECTIVE && message != error.message.trim_end();
    Explained { message: says_more.then_some(message), instead }
}

/// What errors of one kind have in common: their reason. Unknown modules are one kind.
pub(crate) fn kind(error: &Error, known: &Known<'_>) -> String {
    match &error.unknown {
        Some(Unknown::Module(_)) => "module".into(),
        Some(Unknown::Directive(name)) => match explained(error, known).message {
            Some(why) => why,
            None => name.to_ascii_lowercase(),
        },
        None => error.message.clone(),
    }
}

/// The finding for an error. `topic` is the topic for an unknown directive.
pub(super) fn finding(error: &Error, weight: Weight, topic: Topic, known: &Known<'_>) -> Finding {
    let mut found = match &error.unknown {
        Some(Unknown::Module(id)) => module(weight, id, error.origin.as_ref()),
        Some(Unknown::Directive(name)) => directive(weight, topic, name, known),
        None => {
            let topic = if topic == Topic::Directive { Topic::Syntax } else { topic };
            let name = error.origin.as_ref().and_then(|origin| name_at(known.tree, origin));
            let subject = name.or_else(|| end(&error.message)).unwrap_or_else(|| "configuration".into());
            missing_log(&error.message)
                .or_else(|| circle(error))
                .unwrap_or_else(|| Finding::new(weight, topic, &subject, error.message.trim_end()))
        }
    };
    if found.places.is_empty() {
        found.places.extend(error.origin.clone());
    }
    if found.instead.is_none() {
        let undefined = || undefined_variable(error, known.notices).map(define);
        let others = || {
            advice::elsewhere(error, known)
                .or_else(|| advice::near_value(&error.message))
                .or_else(|| advice::mpms(error, known))
        };
        found.instead = undefined().or_else(others);
    }
    found.excerpt = error.excerpt();
    found
}

/// A finding about files that include each other, with the lines that do so. The place of the error is the first of
/// these lines.
fn circle(error: &Error) -> Option<Finding> {
    let last = error.origin.as_ref().filter(|_| error.message.starts_with("Exceeded maximum include depth"))?;
    let lines = last.cycle()?;
    let is_same = |at: &&Origin| at.line == last.line && at.file() == last.file();
    let first = last.chain().filter(is_same).last()?;
    let rounds = (last.depth() + 1).div_ceil(lines.len());
    let shown: Vec<String> = lines.iter().map(|at| at.to_string()).collect();
    let (message, instead) = match &shown[..] {
        [_] => (format!("This file includes itself, {rounds} times over until the limit."), "Remove the line"),
        _ => {
            let lines = shown.join(", ");
            let message = format!("These lines include each other, {rounds} times over until the limit: {lines}.");
            (message, "Remove one of them")
        }
    };
    let mut found = Finding::new(Weight::Stops, Topic::Circle, "Include", message).instead(instead);
    found.places.push(first.clone());
    Some(found)
}

/// The undefined variable that caused an error: one in its line, or one that the message repeats.
fn undefined_variable<'a>(error: &'a Error, notices: &'a [Notice]) -> Option<&'a str> {
    let of_line = notices.iter().filter(|notice| notice.origin.is_some() && notice.origin == error.origin);
    let texts = of_line.filter(|notice| notice.text.contains(UNDEFINED)).map(|notice| notice.text.as_str());
    texts.chain([error.message.as_str()]).find_map(variable)
}

/// Apache's message number for an undefined variable.
const UNDEFINED: &str = "AH00111";

/// The name of the first `${variable}` in a text.
fn variable(text: &str) -> Option<&str> {
    let (name, _) = text.split_once("${")?.1.split_once('}')?;
    Some(name).filter(|name| !name.is_empty())
}

/// Advice for an undefined variable. The names in Debian's configuration begin with `APACHE_`.
fn define(name: &str) -> String {
    match name.starts_with("APACHE_") {
        true => format!("Run `. /etc/apache2/envvars` first: it defines ${{{name}}}"),
        false => format!("Write `Define {name} VALUE` above this line, or set the environment variable {name}"),
    }
}

/// The finding for a message about a log whose directory does not exist.
fn missing_log(message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("AH02291: ").or_else(|| message.split_once("AH02297: "))?;
    let dir = rest.split('\'').nth(1)?;
    let found = Finding::new(Weight::Stops, Topic::Log, dir, message.trim_end());
    Some(found.instead(variable(dir).map_or_else(|| format!("mkdir -p {dir}"), define)))
}

/// The name of the directive at a line.
pub(super) fn name_at(nodes: &[Node], origin: &Origin) -> Option<String> {
    nodes.iter().find_map(|node| {
        if node.origin == *origin {
            return Some(named(&node.name));
        }
        name_at(node.children.as_deref().unwrap_or_default(), origin)
    })
}

/// The section end tag that a message is about.
fn end(message: &str) -> Option<String> {
    message.split_whitespace().rfind(|word| word.starts_with("</")).map(named)
}

/// A name as it is usually written: a section with both brackets. Long nonsense is truncated.
pub(crate) fn named(name: &str) -> String {
    const MAX: usize = 60;
    let end = name.char_indices().nth(MAX).map_or(name.len(), |(end, _)| end);
    let more = if end < name.len() { "…" } else { "" };
    let close = if name.starts_with('<') && !name.ends_with('>') { ">" } else { "" };
    format!("{}{more}{close}", &name[..end])
}

fn module(weight: Weight, id: &str, origin: Option<&Origin>) -> Finding {
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
    let ids = boot::known().iter().map(|info| info.id).chain(MODULES.iter().map(|page| page.identifier));
    let names = ids.filter_map(|id| id.strip_suffix(END));
    let instead = match nearest_name(names, id.strip_suffix(END).unwrap_or(id)) {
        Some(near) => format!("Did you mean {near}{END}?"),
        None => format!("{}, and put what needs it inside <IfModule {id}>", unload(origin)),
    };
    found("No module of this name is known.".into()).instead(instead)
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

fn directive(weight: Weight, topic: Topic, name: &str, known: &Known<'_>) -> Finding {
    let subject = named(name);
    let found = |message: String| Finding::new(weight, topic, &subject, message);
    let is_loaded_by_id = |id: &str| known.loaded.iter().any(|have| have.id == id);
    let is_loaded = |info: &ModuleInfo| is_loaded_by_id(info.id);
    let ours = conf::directive::find_all(boot::known(), name).find(|(info, _)| !is_loaded(info));
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
        let why = manual::refusal(fact, boot::known());
        let page = fact.page().filter(|page| page.info(boot::known()).is_none() && !page.identifier.is_empty());
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

const NO_SUCH_DIRECTIVE: &str = "No module has a directive of this name.";

/// Apache's directive of this name if we do not have it. mod_lua also offers its directives as sections, which the
/// manual does not list.
fn refused(name: &str) -> Option<&'static Fact> {
    let line = || manual::directive(name.strip_prefix('<')?).filter(|fact| fact.module == "mod_lua");
    manual::directive(name).or_else(line)
}

/// The directive that was probably meant by a misspelt name.
fn nearest_directive(name: &str) -> Option<&'static str> {
    let ours = boot::known().iter().flat_map(|info| info.directives).map(|row| row.name);
    let theirs = manual::DIRECTIVES.iter().map(|fact| fact.name.trim_end_matches('>'));
    nearest_name(ours.chain(theirs).chain(REMOVED.iter().map(|removed| removed.name)), name)
}

/// Reports the notices that `-t` prints while the configuration is read.
pub(super) fn notices(report: &mut Report, notices: &[Notice], tree: &[Node]) {
    for notice in notices.iter().filter(|notice| notice.level <= Level::Warn) {
        report.add(missing_log(&notice.text).unwrap_or_else(|| warning(notice, tree)));
    }
}

/// The finding for a notice.
fn warning(notice: &Notice, tree: &[Node]) -> Finding {
    let text = notice.text.trim_end();
    let name = notice.origin.as_ref().and_then(|origin| name_at(tree, origin));
    let is = |number: &str| text.contains(number);
    // A missing handler, no PHP, a missing root, an undefined variable.
    let (weight, topic, subject) = match () {
        () if is("requests for it are answered with 500") => (Weight::Loses, Topic::Handler, "handler"),
        () if is("PHP is not installed") => (Weight::Loses, Topic::Handler, "php"),
        () if is("AH00112") => (Weight::Loses, Topic::Warning, "DocumentRoot"),
        () if is(UNDEFINED) => (Weight::Loses, Topic::Warning, "variable"),
        () if is("AH00558") => (Weight::Harmless, Topic::Warning, "ServerName"),
        () => (Weight::Harmless, Topic::Warning, name.as_deref().unwrap_or(notice.module)),
    };
    let mut found = Finding::new(weight, topic, subject, text);
    found.places.extend(notice.origin.clone());
    if is(UNDEFINED) {
        found.instead = variable(text).map(define);
    }
    found
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
            if conf::directive::find(boot::known(), name).is_none() {
                assert!(!fact.purpose.is_empty() && fact.loss().is_some(), "{fact:?}");
            }
        }
        for page in MODULES.iter().filter(|page| !page.identifier.is_empty() && page.info(boot::known()).is_none()) {
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
