//! Writes a short explanation: the verdict, the directives that decided, and what happened.

use conf::{Level, Origin};
use server::explain::{Explanation, Note, Question, Reason, Settings, Step};

use super::directives::EffectiveDirective;
use super::text;
use crate::style::{Page, Style};

/// The maximum number of directives to list; the middle ones are left out.
const DIRECTIVES_MAX: usize = 7;
/// The maximum number of steps to list; the middle ones are left out.
const STEPS_MAX: usize = 9;

pub(super) fn of(
    question: &Question,
    doubt: Option<&str>,
    explanation: &Explanation,
    paths: &[(&Settings, Vec<EffectiveDirective<'_>>)],
    style: Style,
) -> String {
    let mut out = Page::default();
    text::doubt(&mut out, doubt, style);
    text::verdict(&mut out, explanation, style);
    let decided = decided(explanation, paths, style);
    if !decided.is_empty() {
        writeln!(out);
        writeln!(out, "{}", style.bold("What decided"));
        shown(&mut out, &decided, DIRECTIVES_MAX, style);
    }
    writeln!(out);
    writeln!(out, "{}", style.bold("How it went"));
    let mut steps = vec![text::request_line(question), text::virtual_host(explanation, style)];
    happened(&explanation.steps, &mut steps, style);
    shown(&mut out, &steps, STEPS_MAX, style);
    let count: usize = paths.iter().map(|(_, directives)| directives.len()).sum();
    writeln!(out);
    writeln!(out, "{}", style.dim(format!("--all shows every step, and the {count} directives that the request met.")));
    out.finish()
}

/// Writes lines; if there are too many, as many from the beginning as from the end.
fn shown(out: &mut Page, lines: &[String], max: usize, style: Style) {
    if lines.len() <= max {
        lines.iter().for_each(|line| writeln!(out, "  {line}"));
        return;
    }
    let (first, last) = (max / 2, (max - 1) / 2);
    lines[..first].iter().for_each(|line| writeln!(out, "  {line}"));
    writeln!(out, "  {}", style.dim(format!("… {} more", lines.len() - first - last)));
    lines[lines.len() - last..].iter().for_each(|line| writeln!(out, "  {line}"));
}

/// The configuration lines that changed the outcome of the request, each once, in the order in which they did.
fn decided(explanation: &Explanation, paths: &[(&Settings, Vec<EffectiveDirective<'_>>)], style: Style) -> Vec<String> {
    let mut origins: Vec<&Origin> = explanation.request.vhost.origin.iter().collect();
    deciding(&explanation.steps, explanation, &mut origins);
    let mut lines: Vec<(String, &Origin)> = Vec::new();
    for origin in origins {
        if !lines.iter().any(|(_, known)| *known == origin) {
            lines.extend(written(origin, paths).map(|text| (text, origin)));
        }
    }
    let widths = lines.iter().map(|(text, _)| text.chars().count());
    let width = widths.filter(|width| *width <= WIDTH_MAX).max().unwrap_or(0);
    lines.into_iter().map(|(text, origin)| format!("{text:<width$}  {}", style.dim(origin))).collect()
}

/// The maximum width of a directive for which the places are aligned; longer ones push their place to the right.
const WIDTH_MAX: usize = 50;

fn deciding<'a>(steps: &'a [Step], explanation: &'a Explanation, origins: &mut Vec<&'a Origin>) {
    for step in steps {
        match step {
            Step::Note(Note { origin: Some(origin), counts: true, .. }) => origins.push(origin),
            Step::Adopted(inner) => deciding(inner, explanation, origins),
            // One rule may refuse a module, and another may allow it.
            Step::Reason(Reason { origin: Some(origin), .. }) if is_named_by_the_verdict(origin, explanation) => {
                origins.push(origin)
            }
            _ => {}
        }
    }
}

/// Whether the verdict names this line.
fn is_named_by_the_verdict(origin: &Origin, explanation: &Explanation) -> bool {
    let verdict = &explanation.verdict;
    [Some(&verdict.reason), verdict.instead_of.as_ref()]
        .into_iter()
        .flatten()
        .any(|it| it.origin.as_ref() == Some(origin))
}

/// The text of a configuration line that applied to the request: a directive, or the first line of a section.
fn written(origin: &Origin, paths: &[(&Settings, Vec<EffectiveDirective<'_>>)]) -> Option<String> {
    let mut layers = paths.iter().flat_map(|(settings, _)| &settings.layers);
    layers.find_map(|layer| {
        let section = (layer.origin.as_ref() == Some(origin)).then(|| layer.title.clone());
        let line = || layer.lines.iter().find(|line| line.origin == *origin);
        section.or_else(|| line().map(|line| format!("{} {}", line.row.name, line.args).trim_end().to_string()))
    })
}

/// The actions of modules, and what went wrong.
fn happened(steps: &[Step], lines: &mut Vec<String>, style: Style) {
    for step in steps {
        match step {
            Step::Path(path, why) if !["the request", "a look-up"].contains(why) => {
                lines.push(format!("goes on with {path}, {why}"));
            }
            Step::AccessFile(path, read, wrong) => {
                let refused = read.iter().filter(|line| line.objection.is_some()).count();
                let used = match (wrong, refused) {
                    (Some(_), _) => style.bad("an error in it, so none of it is used"),
                    (None, 0) => "all of it is used".into(),
                    (None, count) => style.bad(format!("{count} of its lines are refused")),
                };
                lines.push(format!("{path} is read: {used}"));
            }
            Step::Decided(phase, module, Some(status)) => {
                lines.push(format!("{module} ends the request with {} ({phase})", style.bad(status)));
            }
            Step::Note(Note { module, text, counts: true, .. }) => lines.push(format!("{module}: {text}")),
            Step::Logged(module, level, text) if *level <= Level::Warn => {
                lines.push(style.dim(format!("error log: {module}: {text}")));
            }
            Step::Adopted(inner) => happened(inner, lines, style),
            _ => {}
        }
    }
}
