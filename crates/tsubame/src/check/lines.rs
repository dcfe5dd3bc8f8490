//! Finds lines that do nothing, or less than they seem to.

use std::path::Path;

use conf::directive::find;
use conf::fnmatch::is_pattern;
use conf::nearest_name;
use conf::words::next_word;
use conf::{Error, Node, Origin, Remark};
use modules::idle;
use modules::manual::{self, Alone, MODULES, Other};
use server::Server;
use server::explain::{ExplainedLayer, Fate, levels};

use super::report::Report;
use crate::config;
use crate::diagnosis::names::named;
use server::module::finding::{Finding, Topic, Weight};

/// Runs all checks that need only the lines.
pub(super) fn all(report: &mut Report, server: &Server, wrong: &[Error]) {
    remarks(report, server, &server.tree);
    for ran in &server.ran {
        remark(report, server, next_word(&mut ran.text.as_str()).as_str(), &ran.origin);
    }
    idle_modules(report, server);
    directories(report, &server.tree);
    conditions(report, server);
    levels(server).iter().for_each(|level| overwritten(report, level, wrong));
    repeated(report, &server.tree);
}

/// Reports directives without effect, and those that differ from Apache's.
pub(super) fn remarks(report: &mut Report, server: &Server, nodes: &[Node]) {
    for node in nodes {
        remark(report, server, &node.name, &node.origin);
        remarks(report, server, node.children.as_deref().unwrap_or_default());
    }
}

/// Reports the directive of this name if there is something to say about it.
fn remark(report: &mut Report, server: &Server, name: &str, origin: &Origin) {
    let Some((_, row)) = find(server.infos(), name) else { return };
    let (topic, why) = match row.remark {
        Some(Remark::WithoutEffect(why)) => (Topic::WithoutEffect, why),
        Some(Remark::Differs(how)) => (Topic::Differs, how),
        None => return,
    };
    report.add(Finding::new(Weight::Harmless, topic, &named(row.name), why).at(origin).does(row.help));
}

/// Reports `LoadModule` lines that are accepted though the module is missing.
fn idle_modules(report: &mut Report, server: &Server) {
    for ran in &server.ran {
        let mut rest = ran.text.as_str();
        let (name, id) = (next_word(&mut rest), next_word(&mut rest));
        if !name.eq_ignore_ascii_case("LoadModule") || !idle::is_idle(&id) {
            continue;
        }
        let page = MODULES.iter().find(|page| page.identifier == id);
        let does = page.map(|page| page.purpose).or_else(|| Other::with_identifier(&id).map(|other| other.purpose));
        let why = match page.filter(|page| page.alone == Some(Alone::There)) {
            Some(page) => format!("It is not needed: {}.", manual::missing(page.name)),
            None => idle::WITHOUT_EFFECT.to_string(),
        };
        let subject = format!("LoadModule {id}");
        let found = Finding::new(Weight::Harmless, Topic::WithoutEffect, &subject, why).at(&ran.origin);
        report.add(found.does(does.unwrap_or_default()));
    }
}

/// Reports `<Directory>` sections of directories that do not exist.
fn directories(report: &mut Report, nodes: &[Node]) {
    for node in nodes {
        if node.name.eq_ignore_ascii_case("<Directory") {
            let mut rest = node.args.trim_end_matches('>');
            let path = next_word(&mut rest);
            if path.starts_with('/') && !is_pattern(&path) && rest.trim().is_empty() && !Path::new(&path).exists() {
                let message = format!("{path} does not exist.");
                report
                    .add(Finding::new(Weight::Harmless, Topic::NeverMatches, "<Directory>", message).at(&node.origin));
            }
        }
        directories(report, node.children.as_deref().unwrap_or_default());
    }
}

/// Reports `<IfModule>` sections of unknown modules.
fn conditions(report: &mut Report, server: &Server) {
    for ran in &server.ran {
        let mut rest = ran.text.as_str();
        if !next_word(&mut rest).eq_ignore_ascii_case("<IfModule") {
            continue;
        }
        let mut rest = rest.trim_end_matches('>');
        let word = next_word(&mut rest);
        let name = word.trim_start_matches('!');
        let ours = || config::known_modules().iter().flat_map(|info| [info.id, info.source]);
        let of_apache =
            || MODULES.iter().any(|page| page.identifier == name || name.strip_suffix(".c") == Some(page.name));
        let of_others = || Other::with_identifier(name).is_some() || Other::with_source(name).is_some();
        if ours().any(|have| have == name) || of_apache() || of_others() {
            continue;
        }
        let message = match ran.holds {
            Some(true) => "No module of this name is known: the condition is always true.",
            _ => "No module of this name is known: its contents are never read.",
        };
        let mut found =
            Finding::new(Weight::Harmless, Topic::NeverMatches, &format!("<IfModule {word}>"), message).at(&ran.origin);
        if let Some(near) = nearest_name(ours(), name) {
            found = found.instead(format!("Did you mean {near}?"));
        }
        report.add(found);
    }
}

/// Reports lines that another line of the same section replaces. Lines with an error are skipped, as they have no
/// effect.
fn overwritten(report: &mut Report, level: &ExplainedLayer, wrong: &[Error]) {
    let is_wrong = |origin: &Origin| wrong.iter().any(|error| error.origin.as_ref() == Some(origin));
    for (i, line) in level.lines.iter().enumerate().filter(|(_, line)| line.fate == Fate::Lost) {
        if is_wrong(&line.origin) {
            continue;
        }
        let mut later = level.lines[i + 1..].iter().filter(|later| std::ptr::eq(later.row, line.row));
        let Some(winner) = later.rfind(|later| later.fate == Fate::Holds) else { continue };
        let message = match winner.args == line.args {
            true => format!("The same line is at {}.", winner.origin),
            false => format!("Replaced by `{} {}` at {}.", winner.row.name, winner.args, winner.origin),
        };
        report.add(Finding::new(Weight::Harmless, Topic::Twice, line.row.name, message).at(&line.origin));
    }
}

/// Directives that add to a list: repeating the same line adds nothing, or does the same twice.
const LISTS: [(&str, &str); 8] = [
    ("Alias", "The first one counts."),
    ("AliasMatch", "The first one counts."),
    ("ScriptAlias", "The first one counts."),
    ("ScriptAliasMatch", "The first one counts."),
    ("Redirect", "The first one counts."),
    ("RedirectMatch", "The first one counts."),
    ("CustomLog", "Each request is logged twice."),
    ("ServerAlias", "It changes nothing."),
];

/// Reports lines that occur twice in the same section.
fn repeated(report: &mut Report, nodes: &[Node]) {
    for (i, node) in nodes.iter().enumerate() {
        let same = |other: &&Node| other.name.eq_ignore_ascii_case(&node.name) && other.args == node.args;
        if let Some((name, what)) = LISTS.iter().find(|(name, _)| node.name.eq_ignore_ascii_case(name))
            && let Some(first) = nodes[..i].iter().find(same)
        {
            let message = format!("The same line is at {}. {what}", first.origin);
            report.add(Finding::new(Weight::Harmless, Topic::Twice, name, message).at(&node.origin));
        }
        repeated(report, node.children.as_deref().unwrap_or_default());
    }
}
