//! Requests that each line of the configuration is about, and requests that just miss that line.

use super::{Collected, Given};
use crate::switch::ask::{Sample, Source};
use crate::switch::tree::{Directive, all};

/// Directives whose first argument is a path of URLs.
const PATHS: [&str; 9] = [
    "Alias",
    "AliasMatch",
    "Location",
    "ProxyPass",
    "Redirect",
    "RedirectPermanent",
    "RedirectTemp",
    "ScriptAlias",
    "SSIErrorMsg",
];

/// Adds them for each site.
pub(super) fn collect(given: &Given<'_>, collected: &mut Collected) {
    for (number, site) in given.sites.all().iter().enumerate() {
        let is_own =
            |directive: &&Directive| directive.is("VirtualHost") && site.origin.as_ref() == Some(&directive.origin);
        let own = given.installed.tree.iter().filter(is_own).flat_map(|host| all(host.inside()));
        let general = given.installed.tree.iter().filter(|directive| !directive.is("VirtualHost"));
        let general = general.flat_map(|directive| all(std::slice::from_ref(directive)));
        for directive in own.chain(general) {
            for (target, what) in targets(directive) {
                if let Some(ask) = given.ask(number, &target) {
                    let source = Source::Configuration(directive.origin.clone(), what);
                    collected.add(Sample { ask, weight: 0, due: None, source });
                }
            }
        }
    }
}

/// The paths that a line is about.
fn targets(directive: &Directive) -> Vec<(String, &'static str)> {
    if !PATHS.iter().any(|name| directive.is(name)) {
        return Vec::new();
    }
    let words = directive.words();
    let Some(path) = words.iter().find(|word| word.starts_with('/')) else { return Vec::new() };
    let bare = path.trim_end_matches('/');
    vec![
        (path.clone(), "the path itself"),
        (format!("{bare}/"), "with a slash"),
        (format!("{bare}/no-such-name"), "below the path"),
        (format!("{bare}x"), "beside the path"),
    ]
}
