//! Collects the lines that apply to a request, by directive.

use conf::{Allowed, Directive, ModuleInfo, Remark};
use server::Server;
use server::explain::{ExplainedLine, Fate, Settings};

/// A directive with all its lines.
pub(super) struct EffectiveDirective<'a> {
    pub(super) row: &'static Directive,
    pub(super) module: &'static ModuleInfo,
    /// The lines, each with the title of its layer, in order of precedence.
    pub(super) lines: Vec<(&'a str, &'a ExplainedLine)>,
    /// The combined value of the lines, if it is not one of them.
    pub(super) result: Option<String>,
}

/// The directives with a line that applies, by module and name; with `all` also those that do not concern requests, and
/// unset ones that have a default.
pub(super) fn of<'a>(settings: &'a Settings, server: &Server, all: bool) -> Vec<EffectiveDirective<'a>> {
    let mut found: Vec<EffectiveDirective<'a>> = Vec::new();
    for layer in &settings.layers {
        for line in layer.lines.iter().filter(|line| all || !line.row.allowed.global_only()) {
            match found.iter_mut().find(|said| std::ptr::eq(said.row, line.row)) {
                Some(said) => said.lines.push((&layer.title, line)),
                None => found.push(EffectiveDirective {
                    row: line.row,
                    module: line.module,
                    lines: vec![(&layer.title, line)],
                    result: None,
                }),
            }
        }
    }
    if all {
        found.extend(defaults(server, &found));
    }
    for said in found.iter_mut().filter(|said| said.row.name == "Options") {
        said.result = Some(server::core::options::names(settings.options));
    }
    let place = |said: &EffectiveDirective<'_>| {
        let infos = server.infos();
        infos.iter().position(|info| std::ptr::eq(*info, said.module)).unwrap_or(usize::MAX)
    };
    found.sort_by_cached_key(|said| (place(said), said.row.name.to_ascii_lowercase()));
    found
}

fn defaults<'a>(server: &Server, said: &[EffectiveDirective<'a>]) -> Vec<EffectiveDirective<'a>> {
    let unsaid = |row: &Directive| !said.iter().any(|said| said.row.name.eq_ignore_ascii_case(row.name));
    let infos = server.infos().iter();
    let rows = infos.flat_map(|info| info.directives.iter().map(move |row| (info, row)));
    rows.filter(|(_, row)| !row.default.is_empty() && row.allowed != Allowed::NONE && unsaid(row))
        .map(|(module, row)| EffectiveDirective { row, module, lines: Vec::new(), result: None })
        .collect()
}

/// The remark about a directive, independent of its lines.
pub(super) fn remark(row: &Directive) -> Option<String> {
    row.remark.map(|remark| match remark {
        Remark::WithoutEffect(why) => format!("no effect: {why}"),
        Remark::Differs(how) => format!("not as in Apache: {how}"),
    })
}

/// The state of a line, in a few words.
pub(crate) fn fate(line: &ExplainedLine) -> &'static str {
    match line.fate {
        Fate::Holds => "in effect",
        Fate::Lost => "replaced",
        Fate::Silent => "no effect here",
        Fate::Unmet => "in a section that was skipped",
    }
}
