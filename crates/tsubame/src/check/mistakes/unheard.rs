//! Lines that do nothing because another line is missing.

use super::line::{Config, Line};
use crate::check::report::Report;
use server::module::finding::{Topic, Weight};

/// Who listens to a line.
enum Listener {
    /// A line of this directive that begins with this word; with any, if it is empty.
    Line(&'static str, &'static str),
    /// A filter, wherever it is configured.
    Filter(&'static str),
}

use Listener::{Filter, Line as Says};

/// Lines, who listens to them, and what to write if nobody does.
const LISTENERS: [(&[&str], Listener, &str); 8] = [
    (&["ExpiresByType", "ExpiresDefault"], Says("ExpiresActive", "on"), "Write `ExpiresActive On` above them"),
    (
        &["RemoteIPTrustedProxy", "RemoteIPInternalProxy", "RemoteIPTrustedProxyList", "RemoteIPInternalProxyList"],
        Says("RemoteIPHeader", ""),
        "Write `RemoteIPHeader X-Forwarded-For`, with the field that the proxy sends",
    ),
    (
        &["SessionCookieName", "SessionCookieName2", "SessionCryptoPassphrase", "SessionEnv", "SessionMaxAge"],
        Says("Session", "on"),
        "Write `Session On` above them",
    ),
    (
        &["AuthUserFile", "AuthDBMUserFile"],
        Says("AuthType", ""),
        "Write `AuthType Basic` and `AuthName \"...\"` beside it",
    ),
    (&["Substitute"], Filter("SUBSTITUTE"), "Write `AddOutputFilterByType SUBSTITUTE text/html` above them"),
    (&["OutputSed"], Filter("Sed"), "Write `AddOutputFilter Sed html` above them"),
    (
        &["SSIErrorMsg", "SSITimeFormat", "SSIStartTag", "SSIUndefinedEcho"],
        Filter("INCLUDES"),
        "Write `AddOutputFilter INCLUDES .shtml` and `Options +Includes`",
    ),
    (&["BufferSize"], Filter("BUFFER"), "Write `SetOutputFilter BUFFER` or `SetInputFilter BUFFER` beside it"),
];

/// The directives that name filters.
const FILTERS: [&str; 7] = [
    "SetOutputFilter",
    "AddOutputFilter",
    "AddOutputFilterByType",
    "SetInputFilter",
    "AddInputFilter",
    "FilterProvider",
    "XBitHack",
];

/// Finds lines to which nobody listens. An `.htaccess` file could have the missing line: where there may be some, nothing is
/// sure.
pub(super) fn nobody_listens(config: &Config<'_>, report: &mut Report) {
    if config.named("AllowOverride").chain(config.named("AllowOverrideList")).any(|line| !begins_with(line, "none")) {
        return;
    }
    for (names, listener, instead) in &LISTENERS {
        let is_heard = match listener {
            Says(name, word) => config.named(name).any(|line| begins_with(line, word)),
            Filter(filter) => FILTERS.iter().any(|name| config.named(name).any(|line| names_filter(line, filter))),
        };
        let first = config.lines.iter().find(|line| names.iter().any(|name| line.is(name)));
        if let Some(line) = first.filter(|_| !is_heard) {
            let missing = match listener {
                Says(name, "") => format!("There is no {name}"),
                Says(name, word) => format!("There is no {name} {}", capital(word)),
                Filter(filter) => format!("No line puts the filter {filter} in"),
            };
            let message = format!("{missing}: this line does nothing.");
            report.add(line.finding(Weight::Loses, Topic::Warning, message).instead(*instead));
        }
    }
}

/// Finds conditions that no rule follows.
pub(super) fn conditions_without_a_rule(config: &Config<'_>, report: &mut Report) {
    let section = |line: &Line<'_>| line.within.last().map(|node| &node.origin).cloned();
    for (at, line) in config.lines.iter().enumerate().filter(|(_, line)| line.is("RewriteCond")) {
        let mut later = config.lines[at + 1..].iter().filter(|later| section(later) == section(line));
        if !later.any(|later| later.is("RewriteRule") || later.is("RewriteCond")) {
            let message = "No RewriteRule follows in this section: the condition belongs to nothing.";
            report.add(line.finding(Weight::Loses, Topic::Warning, message).instead("Write its RewriteRule below it"));
        }
    }
}

fn begins_with(line: &Line<'_>, word: &str) -> bool {
    word.is_empty() || line.words().first().is_some_and(|first| first.eq_ignore_ascii_case(word))
}

/// Whether a line has the filter among its words, which separate filters with semicolons.
fn names_filter(line: &Line<'_>, filter: &str) -> bool {
    // `XBitHack` has pages with the execute bit parsed.
    line.is("XBitHack") && filter == "INCLUDES" && !begins_with(line, "off")
        || line.words().iter().flat_map(|word| word.split(';')).any(|word| word.eq_ignore_ascii_case(filter))
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
