//! `Alias` and `Redirect` lines behind another line that takes their requests.

use super::line::{Config, Line};
use crate::check::report::Report;
use server::module::finding::{Topic, Weight};

/// Finds lines whose path an earlier `Redirect` covers. (Apache itself warns of an `Alias` behind an `Alias`.)
pub(super) fn never_reached(config: &Config<'_>, report: &mut Report) {
    let all: Vec<(&Line<'_>, String)> = config.lines.iter().filter_map(|line| Some((line, path(line)?))).collect();
    for (at, (line, below)) in all.iter().enumerate() {
        let is_redirect = is_redirect(line);
        let covers = |(number, (other, above)): &(usize, &(&Line<'_>, String))| {
            // All redirects come before all aliases.
            let is_first = self::is_redirect(other) && (!is_redirect || *number < at);
            is_first && *number != at && other.host() == line.host() && contains(above, below)
        };
        let Some((_, (winner, _))) = all.iter().enumerate().find(covers) else { continue };
        // The same line twice is reported as such.
        if winner.node.args == line.node.args {
            continue;
        }
        let message = format!(
            "No request gets here: `{} {}` at {} takes them first.",
            winner.node.name, winner.node.args, winner.node.origin
        );
        report.add(line.finding(Weight::Loses, Topic::NeverMatches, message).instead("Put it above that line"));
    }
}

/// The path of a line outside sections.
fn path(line: &Line<'_>) -> Option<String> {
    let words = line.words();
    let is_alias = line.is("Alias") || line.is("ScriptAlias");
    if !line.is_at_server_level() || !(is_alias || is_redirect(line)) {
        return None;
    }
    words.into_iter().take(2).find(|word| word.starts_with('/'))
}

fn is_redirect(line: &Line<'_>) -> bool {
    ["Redirect", "RedirectTemp", "RedirectPermanent"].iter().any(|name| line.is(name))
}

/// Whether a path is the other one, or below it.
fn contains(above: &str, below: &str) -> bool {
    let above = above.trim_end_matches('/');
    below.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
