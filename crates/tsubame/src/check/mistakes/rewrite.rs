//! Rules of mod_rewrite that never apply.

use super::line::{Config, Line};
use crate::check::report::Report;
use server::module::finding::{Topic, Weight};

/// Finds patterns that begin with a slash in a directory.
pub(super) fn slash_in_a_directory(config: &Config<'_>, report: &mut Report) {
    config.lines.iter().for_each(|line| slash(line, report));
}

/// Finds a pattern that begins with a slash in one line: in a directory a rule sees the path without the directory and its slash.
pub(super) fn slash(line: &Line<'_>, report: &mut Report) {
    let is_in_directory = line.in_access_file || line.is_in("<Directory") || line.is_in("<DirectoryMatch");
    if !line.is("RewriteRule") || !is_in_directory {
        return;
    }
    let Some(pattern) = line.words().into_iter().next() else { return };
    let Some(rest) = pattern.strip_prefix("^/") else { return };
    // Another branch may match, and the slash may be optional.
    if rest.contains('|') || rest.starts_with(['?', '*', '{']) {
        return;
    }
    let message = "Here the path has no slash at its beginning: the pattern never matches.";
    report.add(line.finding(Weight::Loses, Topic::NeverMatches, message).instead(format!("Write ^{rest}")));
}

/// Finds hosts and sections with rules in a configuration that never switches them on.
pub(super) fn engine_is_off(config: &Config<'_>, report: &mut Report) {
    let is_on = |line: &&Line<'_>| line.words().first().is_some_and(|word| word.eq_ignore_ascii_case("on"));
    let engines: Vec<&Line<'_>> = config.named("RewriteEngine").collect();
    let mut said = Vec::new();
    for line in config.named("RewriteRule") {
        let is_server = line.is_at_server_level();
        // A switch of a section may reach another one; one outside sections reaches only rules outside sections.
        let reaches = |engine: &&&Line<'_>| {
            engine.is_at_server_level() == is_server && (engine.host().is_none() || engine.host() == line.host())
        };
        let here: Vec<&&Line<'_>> = engines.iter().filter(reaches).collect();
        // `Off` on purpose is a switch of the administrator's.
        let is_off_here = here.iter().any(|engine| engine.host() == line.host());
        let is_inherited = config.named("RewriteOptions").next().is_some();
        let section = line.within.last().map(|node| &node.origin);
        if here.iter().any(|engine| is_on(engine)) || is_off_here || is_inherited || said.contains(&section) {
            continue;
        }
        said.push(section);
        let message = "No RewriteEngine On applies here: the rules do nothing.";
        report.add(line.finding(Weight::Loses, Topic::Warning, message).instead("Write `RewriteEngine On` above them"));
    }
}
