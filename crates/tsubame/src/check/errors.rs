//! What the reader has to say: errors, with what is known of the names that it does not know, and warnings.

use conf::directive::nearest_name;
use conf::read::Ran;
use conf::words::next_word;
use conf::{Error, Level, ModuleInfo, Node, Notice, Origin, Unknown};
use modules::manual::{self, Fact, MODULES, Other, Page, REMOVED};

use super::report::{Finding, Report, Topic, Weight};
use crate::boot;

/// Errors of the configuration: each of them stops the start.
pub(super) fn all<'a>(
    report: &mut Report,
    errors: impl Iterator<Item = &'a Error>,
    tree: &[Node],
    ran: &[Ran],
    loaded: &[&'static ModuleInfo],
) {
    for error in errors {
        let mut found = finding(error, Weight::Stops, Topic::Directive, tree, loaded);
        let obeyed = ran.iter().find(|ran| Some(&ran.origin) == error.origin.as_ref());
        if let Some(ran) = obeyed.filter(|_| found.topic == Topic::Syntax) {
            found.subject = named(&next_word(&mut ran.text.as_str()));
        }
        report.add(found);
    }
}

/// What to say of an error. `topic`: that of an unknown directive.
pub(super) fn finding(
    error: &Error,
    weight: Weight,
    topic: Topic,
    tree: &[Node],
    loaded: &[&'static ModuleInfo],
) -> Finding {
    let mut found = match &error.unknown {
        Some(Unknown::Module(id)) => module(weight, id),
        Some(Unknown::Directive(name, _)) => directive(weight, topic, name, loaded),
        None => {
            let topic = if topic == Topic::Directive { Topic::Syntax } else { topic };
            let name = error.origin.as_ref().and_then(|origin| name_at(tree, origin));
            let subject = name.or_else(|| end(&error.message)).unwrap_or_else(|| "configuration".into());
            missing_log(&error.message)
                .or_else(|| circle(error))
                .unwrap_or_else(|| Finding::new(weight, topic, &subject, error.message.trim_end()))
        }
    };
    if found.places.is_empty() {
        found.places.extend(error.origin.clone());
    }
    found
}

/// Files that include each other, with the lines that do so; their own place is the first of these.
fn circle(error: &Error) -> Option<Finding> {
    let last = error.origin.as_ref().filter(|_| error.message.starts_with("Exceeded maximum include depth"))?;
    let is_same = |at: &&Origin| at.line == last.line && at.file() == last.file();
    let around: Vec<&Origin> = last.chain().take_while(|at| !is_same(at)).collect();
    let mut lines: Vec<&Origin> = std::iter::once(last).chain(around).collect();
    lines.reverse();
    let first = last.chain().filter(is_same).last()?;
    let lines: Vec<String> = lines.iter().map(|at| at.to_string()).collect();
    let message = match &lines[..] {
        [_] => "This file includes itself, without end.".to_string(),
        _ => format!("These lines include each other, without end: {}.", lines.join(", ")),
    };
    let mut found = Finding::new(Weight::Stops, Topic::Circle, "Include", message).instead(if lines.len() == 1 {
        "Remove the line"
    } else {
        "Remove one of them"
    });
    found.places.push(first.clone());
    Some(found)
}

/// What to do where a variable is not defined.
const UNDEFINED: &str = ". /etc/apache2/envvars (Debian), or Define it";

/// Whether a message is about a log whose directory is not there.
fn missing_log(message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("AH02291: ").or_else(|| message.split_once("AH02297: "))?;
    let dir = rest.split('\'').nth(1)?;
    let found = Finding::new(Weight::Stops, Topic::Log, dir, message.trim_end());
    let is_path = !dir.contains("${");
    Some(if is_path { found.instead(format!("mkdir -p {dir}")) } else { found.instead(UNDEFINED) })
}

/// The directive that stands at a line.
pub(super) fn name_at(nodes: &[Node], origin: &Origin) -> Option<String> {
    nodes.iter().find_map(|node| {
        if node.origin == *origin {
            return Some(named(&node.name));
        }
        name_at(node.children.as_deref().unwrap_or_default(), origin)
    })
}

/// The end of a section that a message is about.
fn end(message: &str) -> Option<String> {
    message.split_whitespace().rfind(|word| word.starts_with("</")).map(named)
}

/// A name as people write it: a section with both brackets. Nonsense is cut off.
pub(super) fn named(name: &str) -> String {
    const MAX: usize = 60;
    let end = name.char_indices().nth(MAX).map_or(name.len(), |(end, _)| end);
    let more = if end < name.len() { "…" } else { "" };
    let close = if name.starts_with('<') && !name.ends_with('>') { ">" } else { "" };
    format!("{}{more}{close}", &name[..end])
}

fn module(weight: Weight, id: &str) -> Finding {
    let found = |message: String| Finding::new(weight, Topic::Module, id, message);
    if let Some(page) = MODULES.iter().find(|page| page.identifier == id) {
        return found(format!("{} is not here: {}.", page.name, manual::missing(page.name)))
            .does(page.purpose)
            .loss(page.loss)
            .instead(without(page, "Remove the line, and put what needs it"));
    }
    if let Some(other) = Other::with_identifier(id) {
        return found(format!("{} is not here.", other.name))
            .does(other.purpose)
            .loss(other.loss)
            .instead(other.instead);
    }
    let ids = boot::known().iter().map(|info| info.id).chain(MODULES.iter().map(|page| page.identifier));
    let instead = match nearest_name(ids, id) {
        Some(near) => format!("Did you mean {near}?"),
        None => format!("Remove the line, and put what needs it inside <IfModule {id}>"),
    };
    found("No module of this name is known.".into()).instead(instead)
}

/// What to do without a module of Apache's; where nothing takes its place, `guard` it.
fn without(page: &Page, guard: &str) -> String {
    if page.instead.is_empty() { format!("{guard} inside <IfModule {}>", page.identifier) } else { page.instead.into() }
}

fn directive(weight: Weight, topic: Topic, name: &str, loaded: &[&'static ModuleInfo]) -> Finding {
    let subject = named(name);
    let found = |message: String| Finding::new(weight, topic, &subject, message);
    let is_loaded = |info: &ModuleInfo| loaded.iter().any(|have| have.id == info.id);
    let ours = conf::directive::find_all(boot::known(), name).find(|(info, _)| !is_loaded(info));
    if let Some((info, row)) = ours {
        let file = info.source.trim_end_matches(".c");
        return found(format!("It needs {file}, which is not loaded.")).does(row.help).instead(format!(
            "LoadModule {} modules/{file}.so (Debian: a2enmod {})",
            info.id,
            info.log_name()
        ));
    }
    if let Some(fact) = refused(name) {
        let why = manual::refusal(fact, boot::known());
        let page = fact.page().filter(|page| page.info(boot::known()).is_none() && !page.identifier.is_empty());
        let message = match page {
            Some(_) => format!("It is a directive of {}, which is not here: {why}.", fact.module),
            None => format!("It is not here: {why}."),
        };
        return found(message)
            .does(fact.purpose)
            .loss(fact.loss())
            .instead(page.map_or_else(|| "Remove it".into(), |page| without(page, "Remove it, or put it")));
    }
    if let Some(removed) = REMOVED.iter().find(|removed| removed.name.eq_ignore_ascii_case(name)) {
        return found(format!("Apache {} was the last version that had it.", removed.last))
            .does(removed.purpose)
            .loss(removed.loss)
            .instead(removed.instead);
    }
    if let Some(other) = Other::with_directive(name) {
        return found(format!("It is a directive of {}, which is not here.", other.name))
            .does(other.purpose)
            .loss(other.loss)
            .instead(other.instead);
    }
    let found = found("No module has a directive of this name.".into());
    match meant(name) {
        Some(near) => {
            let is_here = conf::directive::find(loaded, near).is_some();
            let but = if is_here { String::new() } else { directive(weight, topic, near, loaded).message };
            found.instead(format!("Did you mean {}? {but}", named(near)).trim_end())
        }
        None => found,
    }
}

/// Apache's directive of a name that we do not have. mod_lua has its directives as sections too, of which the manual does not
/// speak.
fn refused(name: &str) -> Option<&'static Fact> {
    let line = || manual::directive(name.strip_prefix('<')?).filter(|fact| fact.module == "mod_lua");
    manual::directive(name).or_else(line)
}

/// The directive that a misspelt name stands for.
fn meant(name: &str) -> Option<&'static str> {
    let ours = boot::known().iter().flat_map(|info| info.directives).map(|row| row.name);
    let theirs = manual::DIRECTIVES.iter().map(|fact| fact.name.trim_end_matches('>'));
    nearest_name(ours.chain(theirs).chain(REMOVED.iter().map(|removed| removed.name)), name)
}

/// What was worth saying while the configuration was read, as `-t` says it.
pub(super) fn notices(report: &mut Report, notices: &[Notice], tree: &[Node]) {
    for notice in notices.iter().filter(|notice| notice.level <= Level::Warn) {
        report.add(missing_log(&notice.text).unwrap_or_else(|| warning(notice, tree)));
    }
}

/// A warning.
fn warning(notice: &Notice, tree: &[Node]) -> Finding {
    let text = notice.text.trim_end();
    let name = notice.origin.as_ref().and_then(|origin| name_at(tree, origin));
    let is = |number: &str| text.contains(number);
    // A handler that is not there, a root that is not there, a variable that is not there.
    let (weight, topic, subject) = match () {
        () if is("requests for it are answered with 500") => (Weight::Loses, Topic::Handler, "handler"),
        () if is("AH00112") => (Weight::Loses, Topic::Warning, "DocumentRoot"),
        () if is("AH00111") => (Weight::Loses, Topic::Warning, "variable"),
        () if is("AH00558") => (Weight::Harmless, Topic::Warning, "ServerName"),
        () => (Weight::Harmless, Topic::Warning, name.as_deref().unwrap_or(notice.module)),
    };
    let mut found = Finding::new(weight, topic, subject, text);
    found.places.extend(notice.origin.clone());
    if is("AH00111") {
        found = found.instead(UNDEFINED);
    }
    found
}

#[cfg(test)]
mod tests {
    use modules::manual::{DIRECTIVES, OTHERS};

    use super::*;

    /// Nothing that is refused is refused without a word about it.
    #[test]
    fn whatever_is_not_here_is_described() {
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
            assert_eq!(meant(name), Some(near), "{name}");
        }
        assert_eq!(meant("Entirely"), None);
    }
}
