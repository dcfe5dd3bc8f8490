//! Files, directories and sockets that lines name, and that do not exist.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use server::VirtualHost;

use super::line::{Config, Line, is_variable};
use crate::check::report::Report;
use server::module::finding::{Topic, Weight};

/// Finds targets of `Alias` and `ScriptAlias` that do not exist.
pub(super) fn missing_targets(config: &Config<'_>, report: &mut Report) {
    for line in ["Alias", "ScriptAlias"].into_iter().flat_map(|name| config.named(name)) {
        let words = line.words();
        let ([_, target] | [target]) = &words[..] else { continue };
        if is_variable(target) {
            continue;
        }
        let path = conf::paths::join(&config.server.language.server_root, target);
        if !Path::new(&path).try_exists().unwrap_or(true) {
            let message = format!("{path} does not exist: requests for it are answered with 404.");
            report.add(line.finding(Weight::Loses, Topic::Warning, message).instead("Make it, or remove the line"));
        }
    }
}

/// Directives that may serve a path which is no file of the document root.
const MAPPING: [&str; 17] = [
    "Action",
    "Alias",
    "AliasMatch",
    "FallbackResource",
    "ProxyPass",
    "ProxyPassMatch",
    "Redirect",
    "RedirectMatch",
    "RewriteRule",
    "SCGIMount",
    "ScriptAlias",
    "ScriptAliasMatch",
    "SetHandler",
    "UserDir",
    "VirtualDocumentRoot",
    "VirtualDocumentRootIP",
    "AuthFormLoginRequiredLocation",
];

/// Finds local `ErrorDocument` pages that no host has.
pub(super) fn missing_error_pages(config: &Config<'_>, report: &mut Report) {
    let may_be_mapped = |line: &Line<'_>, page: &str| {
        let mapping = |other: &&Line<'_>| MAPPING.iter().any(|name| other.is(name));
        config.lines.iter().filter(mapping).any(|other| {
            let reaches = other.host().is_none() || line.host().is_none() || other.host() == line.host();
            let prefix = other.words().into_iter().next().unwrap_or_default();
            let is_prefix =
                other.is("Alias") || other.is("ScriptAlias") || other.is("Redirect") || other.is("ProxyPass");
            reaches && (!is_prefix || !other.is_at_server_level() || page.starts_with(&prefix))
        })
    };
    for line in config.named("ErrorDocument") {
        let words = line.words();
        let Some(page) = words.get(1).filter(|page| page.starts_with('/') && !is_variable(page)) else {
            continue;
        };
        let page = page.split(['?', '#']).next().unwrap_or_default();
        if may_be_mapped(line, page) {
            continue;
        }
        let hosts = &config.server.hosts;
        let own = |host: &&VirtualHost| match line.host() {
            Some(origin) => host.origin.as_ref() == Some(origin),
            None => true,
        };
        let has_page =
            |host: &VirtualHost| Path::new(&format!("{}{page}", host.document_root)).try_exists().unwrap_or(true);
        if !hosts.iter().filter(own).any(has_page) {
            let root = hosts.iter().find(own).map(|host| host.document_root.clone()).unwrap_or_default();
            let message =
                format!("{root}{page} does not exist: clients get the built-in page, with a second error in it.");
            report
                .add(line.finding(Weight::Loses, Topic::Warning, message).instead("Make the page, or remove the line"));
        }
    }
}

/// Finds sockets of backends that are not there: nothing listens behind them.
pub(super) fn missing_sockets(config: &Config<'_>, report: &mut Report) {
    for line in ["SetHandler", "ProxyPass", "ProxyPassMatch"].into_iter().flat_map(|name| config.named(name)) {
        let Some((_, rest)) = line.node.args.split_once("unix:") else { continue };
        let Some(path) = rest.split(['|', '"', ' ']).next().filter(|path| path.starts_with('/')) else { continue };
        if is_variable(path) || Path::new(path).try_exists().unwrap_or(true) {
            continue;
        }
        let message = format!("No program listens at {path}: requests for it are answered with 503.");
        let found = line.finding(Weight::Loses, Topic::Handler, message);
        report.add(match neighbour(path) {
            Some(near) => found.instead(format!("Start the program, or write {near}, which is there")),
            None => found.instead("Start the program that listens there"),
        });
    }
}

/// A socket in the same directory.
fn neighbour(path: &str) -> Option<String> {
    let entries = std::fs::read_dir(Path::new(path).parent()?).ok()?;
    let is_socket = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_socket());
    let mut found: Vec<String> =
        entries.flatten().filter(is_socket).map(|entry| entry.path().display().to_string()).collect();
    found.sort_unstable();
    found.into_iter().next()
}
