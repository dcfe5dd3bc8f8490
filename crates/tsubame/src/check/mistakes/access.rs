//! Log-ins that cannot work, and access rules of two kinds.

use std::path::Path;

use super::line::{Config, Line, is_variable};
use crate::check::report::Report;
use server::module::finding::{Topic, Weight};

/// Finds `AuthType` without `AuthName`: requests that have to log in are answered with 500.
pub(super) fn no_name(config: &Config<'_>, report: &mut Report) {
    for line in config.named("AuthType") {
        let kind = line.words().first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        if !matches!(&*kind, "basic" | "digest") {
            continue;
        }
        // A name in any section may apply, except those that belong to another AuthType.
        let innermost = |line: &Line<'_>| line.within.last().map(|node| node.origin.clone());
        let has_type = |other: &Line<'_>| config.named("AuthType").any(|own| innermost(own) == innermost(other));
        let mut names = config.named("AuthName");
        if names.any(|name| innermost(name) == innermost(line) || !has_type(name)) {
            continue;
        }
        let message = "There is no AuthName: requests that have to log in are answered with 500.";
        report.add(
            line.finding(Weight::Loses, Topic::Warning, message).instead("Write `AuthName \"Members\"` beside it"),
        );
    }
}

/// Directives that name a file of users or groups, and how to make one.
const FILES: [(&str, &str); 2] = [("AuthUserFile", "htpasswd -c"), ("AuthGroupFile", "touch")];

/// Finds such files that do not exist: nobody can log in.
pub(super) fn missing_password_files(config: &Config<'_>, report: &mut Report) {
    for (name, make) in FILES {
        for line in config.named(name) {
            let Some(path) = line.words().into_iter().next().filter(|path| !is_variable(path)) else { continue };
            let path = conf::paths::join(&config.server.language.server_root, &path);
            // One that may not be looked at may exist.
            if Path::new(&path).try_exists().unwrap_or(true) {
                continue;
            }
            let message = format!("{path} does not exist: nobody can log in.");
            let user = if name == "AuthUserFile" { " USER" } else { "" };
            report.add(line.finding(Weight::Loses, Topic::Warning, message).instead(format!("{make} {path}{user}")));
        }
    }
}

/// Finds sections with the access rules of 2.2 and of 2.4: both must let a request in.
pub(super) fn rules_of_mixed_kinds(config: &Config<'_>, report: &mut Report) {
    for line in config.named("Require").filter(|line| line.words() == ["all", "granted"]) {
        let Some(section) = line.within.last() else { continue };
        let mut siblings = section.children.iter().flatten();
        let old =
            siblings.find(|node| node.name.eq_ignore_ascii_case("Deny") && node.args.eq_ignore_ascii_case("from all"));
        let mut allows = section.children.iter().flatten().filter(|node| node.name.eq_ignore_ascii_case("Allow"));
        if let Some(old) = old
            && allows.next().is_none()
        {
            let message = format!(
                "`Deny from all` at {} keeps everybody out all the same: both kinds of rules count.",
                old.origin
            );
            report
                .add(line.finding(Weight::Harmless, Topic::Warning, message).instead("Remove the lines of Apache 2.2"));
        }
    }
}
