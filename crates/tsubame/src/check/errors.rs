//! What the reader has to say: errors, with what is known of the names that it does not know, and warnings.

use conf::read::Ran;
use conf::words::next_word;
use conf::{Error, Level, ModuleInfo, Node, Notice, Origin, Unknown};
use modules::manual::{self, MODULES, Other, Page, REMOVED};

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
        Some(Unknown::Directive(name, near)) => directive(weight, topic, name, *near, loaded),
        None => {
            let topic = if topic == Topic::Directive { Topic::Syntax } else { topic };
            let name = error.origin.as_ref().and_then(|origin| name_at(tree, origin));
            let subject = name.unwrap_or_else(|| "configuration".into());
            missing_log(&error.message)
                .unwrap_or_else(|| Finding::new(weight, topic, &subject, error.message.trim_end()))
        }
    };
    found.places.extend(error.origin.clone());
    found
}

/// Whether a message is about a log whose directory is not there.
fn missing_log(message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("AH02291: ").or_else(|| message.split_once("AH02297: "))?;
    let dir = rest.split('\'').nth(1)?;
    let found = Finding::new(Weight::Stops, Topic::Log, dir, message.trim_end());
    Some(found.instead(format!("mkdir -p {dir}")))
}

/// The directive that stands at a line.
fn name_at(nodes: &[Node], origin: &Origin) -> Option<String> {
    nodes.iter().find_map(|node| {
        if node.origin == *origin {
            return Some(named(&node.name));
        }
        name_at(node.children.as_deref().unwrap_or_default(), origin)
    })
}

/// A name as people write it: a section with both brackets.
pub(super) fn named(name: &str) -> String {
    if name.starts_with('<') { format!("{name}>") } else { name.to_string() }
}

fn module(weight: Weight, id: &str) -> Finding {
    let page = MODULES.iter().find(|page| page.identifier == id);
    let found = |message: String| Finding::new(weight, Topic::Module, id, message);
    let guard = format!("Remove the line, and put what needs it inside <IfModule {id}>");
    match (page, Other::with_identifier(id)) {
        (Some(page), _) => found(format!("{} is not here: {}.", page.name, manual::missing(page.name)))
            .does(page.purpose)
            .instead(guard),
        (None, Some(other)) => found(format!("{} is not here.", other.name)).does(other.purpose).instead(other.instead),
        (None, None) => found("No module of this name is known.".into()).instead(guard),
    }
}

fn directive(
    weight: Weight,
    topic: Topic,
    name: &str,
    near: Option<&'static str>,
    loaded: &[&'static ModuleInfo],
) -> Finding {
    let subject = named(name);
    let found = |message: String| Finding::new(weight, topic, &subject, message);
    let is_loaded = |info: &ModuleInfo| loaded.iter().any(|have| have.id == info.id);
    let ours = conf::directive::find_all(boot::known(), name).find(|(info, _)| !is_loaded(info));
    if let Some((info, row)) = ours {
        let file = info.source.trim_end_matches(".c");
        return found(format!("It needs {file}, which is not loaded."))
            .does(row.help)
            .instead(format!("LoadModule {} modules/{file}.so", info.id));
    }
    if let Some(fact) = manual::directive(name) {
        let why = manual::refusal(fact, boot::known());
        let instead = MODULES
            .iter()
            .find(|page: &&Page| page.name == fact.module)
            .map_or_else(String::new, |page| format!("Remove it, or put it inside <IfModule {}>", page.identifier));
        return found(format!("It is a directive of {}, which is not here: {why}.", fact.module))
            .does(fact.purpose)
            .instead(instead);
    }
    if let Some(removed) = REMOVED.iter().find(|removed| removed.name.eq_ignore_ascii_case(name)) {
        return found(format!("Apache {} was the last version that had it.", removed.last))
            .does(removed.purpose)
            .instead(removed.instead);
    }
    if let Some(other) = Other::with_directive(name) {
        return found(format!("It is a directive of {}, which is not here.", other.name))
            .does(other.purpose)
            .instead(other.instead);
    }
    let found = found("No module has a directive of this name.".into());
    match near {
        Some(near) => found.instead(format!("Did you mean {}?", named(near))),
        None => found,
    }
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
        () => (Weight::Harmless, Topic::Warning, name.as_deref().unwrap_or(notice.module)),
    };
    let mut found = Finding::new(weight, topic, subject, text);
    found.places.extend(notice.origin.clone());
    if is("AH00111") {
        found = found.instead("Define it, or set it in the environment first (Debian: . /etc/apache2/envvars)");
    }
    found
}
