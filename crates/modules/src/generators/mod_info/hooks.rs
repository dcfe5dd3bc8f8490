//! The modules in each phase, and their providers by name.

use std::fmt::Write as _;

use server::{Hook, Module, Order};

use super::entry::Entry;

/// The phases before requests, in Apache's order.
const STARTUP: &[&str] = &["Check Configuration", "Post Configuration", "Open Logs", "Child Init"];

/// The phases of requests, in Apache's order.
const REQUESTS: &[&str] = &[
    "Post-Read Request",
    "Header Parse",
    "Quick Handler",
    "Translate Name",
    "Map to Storage",
    "Check Access",
    "Check Access (legacy)",
    "Verify User ID",
    "Note Authentication Failure",
    "Verify User Access",
    "Check Type",
    "Fixups",
    "Insert Filters",
    "Content Handlers",
    "Transaction Logging",
    "Generate Log ID",
];

/// Anchors, titles and phases of the lists.
const LISTS: [(&str, &str, &[&str]); 2] =
    [("startup_hooks", "Startup Hooks", STARTUP), ("request_hooks", "Request Hooks", REQUESTS)];

/// The names of a hook's providers, if they are of the wanted kind.
type NamesOf = fn(&'static Hook) -> &'static [&'static str];

/// The kinds of providers.
const PROVIDERS: [(&str, NamesOf); 8] = [
    ("authn", authn),
    ("authz", authz),
    ("cache", |hook| of_group(hook, "cache")),
    ("dav", |hook| of_group(hook, "dav")),
    ("dav-lock", |hook| of_group(hook, "dav-lock")),
    ("proxylbmethod", |hook| of_group(hook, "proxylbmethod")),
    ("slotmem", |hook| of_group(hook, "slotmem")),
    ("socache", shared_cache),
];

/// Anchors and titles of the lists.
pub(super) fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    LISTS.iter().map(|(anchor, title, _)| (*anchor, *title))
}

/// All listed phases.
#[cfg(test)]
pub(super) fn phases() -> impl Iterator<Item = &'static str> {
    STARTUP.iter().chain(REQUESTS).copied()
}

/// The request phases of a module.
pub(super) fn of_requests(entry: &Entry) -> impl Iterator<Item = &'static str> {
    let takes_part = |phase: &&str| entry.hooks.iter().any(|hook| hook.phase().is_some_and(|(name, _)| name == *phase));
    REQUESTS.iter().copied().filter(takes_part)
}

/// All phases with their modules, in the order in which they are called.
pub(super) fn write(out: &mut String, modules: &[&'static Module]) {
    let hooks = || modules.iter().flat_map(|module| module.hooks.iter().map(|hook| (module.info.source, hook)));
    for (anchor, title, phases) in LISTS {
        let _ = write!(out, "<h2><a name=\"{anchor}\">{title}</a></h2>\n<dl>");
        for phase in phases {
            let _ = write!(out, "<dt><strong>{phase}:</strong>\n <br /><tt>\n");
            let mut takers: Vec<(Order, &str)> = hooks()
                .filter_map(|(source, hook)| {
                    hook.phase().filter(|(name, _)| name == phase).map(|(_, order)| (order, source))
                })
                .collect();
            takers.sort_by_key(|(order, _)| *order);
            // Several hooks of one module count once.
            takers.dedup();
            for (order, source) in takers {
                let _ = write!(out, "&nbsp;&nbsp; {} <a href=\"?{source}\">{source}</a> <br/>", number(order));
            }
            out.push_str("\n  </tt>\n</dt>\n");
        }
        out.push_str("</dl>\n<hr />\n");
    }
}

/// Apache's number for an order.
fn number(order: Order) -> &'static str {
    match order {
        Order::ReallyFirst => "-10",
        Order::First => "00",
        Order::BeforeMiddle | Order::Middle | Order::AfterMiddle(_) => "10",
        Order::Last => "20",
        Order::ReallyLast => "30",
    }
}

/// The providers of the modules, by name.
pub(super) fn providers(out: &mut String, entries: &[Entry]) {
    out.push_str("<h2><a name=\"providers\">Providers</a></h2>\n<dl>");
    for (group, names_of) in PROVIDERS {
        let mut names: Vec<&str> =
            entries.iter().flat_map(|entry| &entry.hooks).flat_map(|hook| names_of(hook)).copied().collect();
        names.sort_unstable();
        if names.is_empty() {
            continue;
        }
        let _ = write!(out, "<dt><strong>{group}</strong> (version <tt>0</tt>):\n <br />\n");
        for name in names {
            let _ = write!(out, "<tt>&nbsp;&nbsp;{name}</tt><br/>");
        }
        out.push_str("\n</dt>\n");
    }
    out.push_str("</dl>\n<hr />\n");
}

fn authn(hook: &Hook) -> &'static [&'static str] {
    if let Hook::Authn(provider) = hook { std::slice::from_ref(&provider.name) } else { &[] }
}

fn authz(hook: &Hook) -> &'static [&'static str] {
    if let Hook::Authz(provider) = hook { std::slice::from_ref(&provider.name) } else { &[] }
}

fn of_group(hook: &'static Hook, wanted: &str) -> &'static [&'static str] {
    match hook {
        Hook::Provider(group, name) if *group == wanted => std::slice::from_ref(name),
        _ => &[],
    }
}

fn shared_cache(hook: &Hook) -> &'static [&'static str] {
    if let Hook::SharedCache(cache) = hook { cache.names } else { &[] }
}
