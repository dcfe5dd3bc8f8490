//! Mistakes in `ProxyPass` lines and in forward proxies that Apache accepts in silence, for `tsubame check`.

use std::collections::HashSet;
use std::sync::Arc;

use conf::fnmatch::is_pattern;
use conf::words::words;
use conf::{Node, Origin};
use server::Server;
use server::module::finding::{Finding, Topic, Weight};

use super::schemes::scheme_named;
use super::settings::{Matcher, Pass, ProxyServer};
use super::target::Target;
use crate::mappers::mod_alias::matched;

/// Examines the lines of all virtual hosts, those that several inherit once.
pub(super) fn lines(server: &Server, found: &mut dyn FnMut(Finding)) {
    in_locations(server, &server.tree, None, found);
    let mut known = HashSet::new();
    for host in &server.hosts {
        let conf = host.settings.get::<ProxyServer>();
        let passes = conf.passes.entries();
        for (at, (pass, origin)) in passes.iter().enumerate() {
            if known.insert(origin.to_string()) {
                let slashes = pass.url.as_deref().and_then(|url| match &pass.matcher {
                    Matcher::Prefix(path) => slashes(path, url),
                    Matcher::Pattern(_) => None,
                });
                let module = pass.url.as_deref().and_then(|url| module(server, url));
                let problems = [behind(&passes[..at], pass), slashes, module, chosen(pass)];
                problems.into_iter().flatten().for_each(|finding| found(finding.at(origin)));
            }
        }
        if let Some(origin) =
            conf.requests.origin().filter(|origin| conf.requests() && known.insert(origin.to_string()))
        {
            forward(server).into_iter().for_each(|finding| found(finding.at(origin)));
        }
    }
}

/// Examines the lines in `<Location>` sections, which have its path. `path`: that of the section around these lines.
fn in_locations(server: &Server, lines: &[Node], path: Option<&str>, found: &mut dyn FnMut(Finding)) {
    for line in lines {
        let words = words(line.args.trim_end_matches('>'));
        let first = words.first().map(String::as_str);
        if let Some(inner) = &line.children {
            let own = first.filter(|path| {
                line.name.eq_ignore_ascii_case("<Location") && path.starts_with('/') && !is_pattern(path)
            });
            in_locations(server, inner, own.or(path), found);
        }
        if let (Some(path), Some(url), true) = (path, first, line.name.eq_ignore_ascii_case("ProxyPass")) {
            let problems = [slashes(path, url), module(server, url)];
            problems.into_iter().flatten().for_each(|finding| found(finding.at(&line.origin)));
        }
    }
}

/// A line that an earlier one leaves no requests for.
fn behind(before: &[(Arc<Pass>, Origin)], pass: &Pass) -> Option<Finding> {
    let Matcher::Prefix(path) = &pass.matcher else { return None };
    let (winner, at) = before.iter().find_map(|(other, origin)| match &other.matcher {
        Matcher::Prefix(above) => matched(path, above).map(|_| (above, origin)),
        Matcher::Pattern(_) => None,
    })?;
    let message = format!("No request gets here: `ProxyPass {winner}` at {at} takes them first.");
    let finding = Finding::new(Weight::Loses, Topic::NeverMatches, "ProxyPass", message);
    Some(finding.instead("Put it above that line: the first line that matches counts"))
}

/// A slash at the end of the path, and none at the end of the URL; or the other way round.
fn slashes(path: &str, url: &str) -> Option<Finding> {
    let target = Target::parse(url).ok().filter(|_| !url.contains("${"))?;
    let (weight, message, instead) = match (path.ends_with('/'), target.path.ends_with('/')) {
        (true, false) => {
            let message = format!("{path}x is passed on as {url}x: the path ends with a slash, and the URL does not.");
            (Weight::Loses, message, format!("Write {url}/"))
        }
        (false, true) => {
            let message =
                format!("{path}/x is passed on as {url}/x: the URL ends with a slash, and the path does not.");
            (Weight::Harmless, message, format!("Write {path}/, or {}", url.trim_end_matches('/')))
        }
        _ => return None,
    };
    Some(Finding::new(weight, Topic::Warning, "ProxyPass", message).instead(instead))
}

/// A URL whose protocol is in a module that is not loaded.
fn module(server: &Server, url: &str) -> Option<Finding> {
    let target = Target::parse(url).ok()?;
    let scheme = scheme_named(&target.scheme).filter(|scheme| !server.has_module(scheme.module))?;
    let message = format!("{}:// needs {}, which is not loaded: these requests get a 500.", scheme.name, scheme.module);
    Some(Finding::new(Weight::Loses, Topic::Module, "ProxyPass", message).instead(load(scheme.module)))
}

/// A URL in which the client chooses the server.
fn chosen(pass: &Pass) -> Option<Finding> {
    let rest = pass.url.as_deref()?.split_once("://")?.1;
    let host = rest.split('/').next().unwrap_or_default();
    let Matcher::Pattern(pattern) = &pass.matcher else { return None };
    let mut chosen = host.split('$').skip(1).filter_map(|after| after.chars().next()?.to_digit(10));
    if chosen.all(|group| begins_with_slash(pattern.source(), group)) {
        return None;
    }
    let message = format!("The client chooses the server: {host} is a part of the path that it asks for.");
    let finding = Finding::new(Weight::Loses, Topic::Warning, "ProxyPassMatch", message);
    Some(finding.instead("Let the pattern list the servers, such as ^/(one|two)/(.*)$"))
}

/// Whether the text of a group of a pattern can only be empty, or begin with a slash: it leaves the host alone.
fn begins_with_slash(pattern: &str, number: u32) -> bool {
    let is_escaped = |at: usize| pattern[..at].ends_with('\\');
    let opened = pattern.match_indices('(').filter(|(at, _)| !is_escaped(*at)).map(|(at, _)| &pattern[at + 1..]);
    let mut groups = opened.filter(|rest| !rest.starts_with(['?', '*']));
    let group = number.checked_sub(1).and_then(|before| groups.nth(before as usize));
    group.is_some_and(|text| text.starts_with('/') && !text[1..].starts_with(['?', '*', '{']) && !text.contains('|'))
}

/// A forward proxy without the modules that do its work.
fn forward(server: &Server) -> Option<Finding> {
    let missing = ["proxy_http_module", "proxy_connect_module"].into_iter().find(|id| !server.has_module(id))?;
    let what = if missing == "proxy_http_module" { "for http://" } else { "with CONNECT, for https://," };
    let message = format!("Requests {what} are refused: {missing} is not loaded.");
    Some(Finding::new(Weight::Loses, Topic::Module, "ProxyRequests", message).instead(load(missing)))
}

fn load(id: &str) -> String {
    format!("LoadModule {id} modules/mod_{}.so", id.trim_end_matches("_module"))
}
