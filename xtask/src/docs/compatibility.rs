//! Writes `docs/compat.md`: the state of each directive and module of Apache's manual.

use std::fmt::Write as _;

use conf::{Directive, ModuleInfo, Remark};

use super::catalogue::{Entry, State, code, entries, prose, remark};
use super::directives;
use super::infos::title;
use modules::idle;
use modules::manual::{MODULES, missing, refusal};

/// The text of the page.
pub(super) fn page(infos: &[&'static ModuleInfo]) -> String {
    let entries = entries(infos);
    let mut out = String::from(
        "# Apache's directives and modules: which ones work\n\n\
         Look here before you move a configuration. Each directive works, is accepted because nothing needs it here, or is\n\
         refused: an error at start and in `.htaccess` (*Invalid command*), so that no line is ignored silently. `<IfModule>`\n\
         skips the directives of a module that is not loaded, as always. Where the state of a module ends with *LoadModule is\n\
         accepted*, its line alone changes nothing ([differences.md](differences.md#configuration)). [directives.md](directives.md) says how single directives\n\
         differ, [differences.md](differences.md) has all other differences.\n\n\
         `cargo xtask docs` makes this page from the program's tables and the names in the manual of Apache httpd 2.4.71.\n\n",
    );
    let documented: Vec<&Entry> = entries.iter().filter(|entry| entry.documented()).collect();
    let counts = Counts::of(documented.iter().copied());
    let differ = documented.iter().filter(|entry| differs(entry)).count();
    let _ = write!(
        out,
        "| directives of the manual | {} |\n| --- | --- |\n| implemented | {} |\n| … of these with a difference | {differ} |\n\
         | accepted without effect | {} |\n| refused | {} |\n",
        documented.len(),
        counts.implemented,
        counts.idle,
        counts.refused
    );
    modules(&mut out, &entries, infos);
    directives_of_the_manual(&mut out, &documented, infos);
    undocumented(&mut out, &entries, infos);
    ours(&mut out, &entries, infos);
    out
}

/// The number of directives in each state.
#[derive(Default)]
struct Counts {
    implemented: usize,
    idle: usize,
    refused: usize,
}

impl Counts {
    fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Counts {
        let mut counts = Counts::default();
        for entry in entries {
            *match entry.state() {
                State::Implemented => &mut counts.implemented,
                State::WithoutEffect => &mut counts.idle,
                State::Refused => &mut counts.refused,
            } += 1;
        }
        counts
    }
}

fn differs(entry: &Entry) -> bool {
    let other = |row: &Directive| matches!(row.remark, Some(Remark::Differs(_)));
    entry.state() == State::Implemented && entry.rows.iter().any(|(_, row)| other(row))
}

fn modules(out: &mut String, entries: &[Entry], infos: &[&'static ModuleInfo]) {
    out.push_str("\n## Modules\n\nEach page of the manual, with the number of directives that it describes.\n\n");
    out.push_str("| module | status | since | state | implemented | without effect | refused |\n");
    out.push_str("| --- | --- | --- | --- | ---: | ---: | ---: |\n");
    for page in MODULES.iter() {
        let own = entries.iter().filter(|entry| {
            entry.documented() && entry.facts.iter().any(|fact| fact.module == page.name && !fact.undocumented)
        });
        let Counts { implemented, idle, refused } = Counts::of(own);
        let state = match page.info(infos) {
            _ if page.identifier.is_empty() => "always there",
            Some(info) if info.linked => "always there",
            Some(_) => "built in",
            None if idle::is_idle(page.identifier) => &format!("{}; LoadModule is accepted", missing(page.name)),
            None => missing(page.name),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {state} | {implemented} | {idle} | {refused} |",
            page.name, page.status, page.since
        );
    }
}

fn directives_of_the_manual(out: &mut String, documented: &[&Entry], infos: &[&'static ModuleInfo]) {
    out.push_str("\n## Directives of the manual\n\n| directive | module | state |\n| --- | --- | --- |\n");
    for entry in documented {
        line(out, entry, infos);
    }
}

fn undocumented(out: &mut String, entries: &[Entry], infos: &[&'static ModuleInfo]) {
    out.push_str(
        "\n## Directives that the manual does not have\n\nApache's program knows them all the same. Port and\n\
         FancyIndexing are errors that name the replacement, in Apache and here.\n\n",
    );
    out.push_str("| directive | module | state |\n| --- | --- | --- |\n");
    for entry in entries.iter().filter(|entry| !entry.documented() && !entry.facts.is_empty()) {
        line(out, entry, infos);
    }
}

fn line(out: &mut String, entry: &Entry, infos: &[&'static ModuleInfo]) {
    let modules: Vec<&str> = entry.facts.iter().map(|fact| fact.module).collect();
    let _ = writeln!(out, "| {} | {} | {} |", entry.link("directives.md"), modules.join(", "), state(entry, infos));
}

/// The state of a directive, in words.
fn state(entry: &Entry, infos: &[&'static ModuleInfo]) -> String {
    match entry.state() {
        State::Implemented => {
            let difference = if differs(entry) { ", with a difference" } else { "" };
            let idle: Vec<&str> = idle(entry).map(|(module, _)| module).collect();
            let but = if idle.is_empty() { String::new() } else { format!("; without effect in {}", idle.join(", ")) };
            format!("implemented{difference}{but}")
        }
        State::WithoutEffect => {
            let why = idle(entry).next().map_or("", |(_, why)| why);
            format!("accepted without effect: {}", remark(why))
        }
        State::Refused => format!("refused: {}", entry.facts.first().map_or("", |fact| refusal(fact, infos))),
    }
}

/// The modules in which a directive has no effect, and why.
fn idle(entry: &Entry) -> impl Iterator<Item = (&str, &'static str)> {
    entry.rows.iter().filter_map(|(module, row)| match row.remark {
        Some(Remark::WithoutEffect(why)) => Some((module.as_str(), why)),
        _ => None,
    })
}

fn ours(out: &mut String, entries: &[Entry], infos: &[&'static ModuleInfo]) {
    out.push_str("\n## Tsubame's own\n\n| directive | module | what it does |\n| --- | --- | --- |\n");
    for entry in entries.iter().filter(|entry| entry.facts.is_empty()) {
        let modules: Vec<&str> = entry.rows.iter().map(|(module, _)| module.as_str()).collect();
        let help = entry.rows.first().map_or("", |(_, row)| row.help);
        let _ = writeln!(out, "| {} | {} | {} |", entry.link("directives.md"), modules.join(", "), prose(help));
    }
    let theirs =
        |info: &ModuleInfo| MODULES.iter().any(|page| page.identifier == info.id) || IN_THE_CORE.contains(&info.id);
    let own = directives::modules(infos).into_iter().filter(|(_, info)| !theirs(info));
    let names: Vec<String> = own.map(|(_, info)| format!("{} ({})", title(info), code(info.id))).collect();
    let _ = writeln!(out, "\nModules that Apache's manual does not have: {}.", names.join(", "));
}

/// Apache modules whose directives are on the page of the core.
const IN_THE_CORE: [&str; 2] = ["core_module", "http_module"];

#[cfg(test)]
mod tests {
    use super::super::infos::infos;
    use super::*;

    #[test]
    fn every_name_of_the_manual_has_a_line_with_a_state() {
        let page = page(&infos());
        let (_, rest) = page.split_once("## Directives of the manual\n").expect("a heading");
        let (table, _) = rest.split_once("\n## ").expect("another heading");
        let lines: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
        assert_eq!(lines.len(), 730);
        let states = ["implemented", "accepted without effect: ", "refused: "];
        for line in lines {
            let state = line.split(" | ").nth(2).expect("a third cell");
            assert!(states.iter().any(|begin| state.starts_with(begin)), "{line}");
        }
        assert!(page.contains("\n| directives of the manual | 730 |\n"));
    }

    #[test]
    fn a_refused_directive_says_why() {
        let page = page(&infos());
        for line in [
            "| LuaScope | mod_lua | refused: there is no Lua |",
            "| ProxyFtpDirCharset | mod_proxy_ftp | refused: only HTTP, WebSockets, AJP, FastCGI, SCGI and uwsgi are proxied |",
            "| GprofDir | core | refused: Apache has it only where it was built for profiling |",
            "| [DirectoryIndex](directives.md#directoryindex) | mod_dir | implemented |",
        ] {
            assert!(page.lines().any(|have| have == line), "{line}\nis not in\n{page}");
        }
    }
}
