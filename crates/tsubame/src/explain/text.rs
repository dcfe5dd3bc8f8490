//! Writes the full explanation as text.

use std::fmt::Write as _;

use conf::Origin;
use server::explain::{AccessLine, Explanation, Fate, Note, Question, Reason, Refused, Settings, Step};

use super::directives::EffectiveDirective;
use super::verdict;
use crate::style::{Page, Style};

pub(super) fn of(
    question: &Question,
    doubt: Option<&str>,
    explanation: &Explanation,
    paths: &[(&Settings, Vec<EffectiveDirective<'_>>)],
    style: Style,
) -> String {
    let mut out = Page::default();
    self::doubt(&mut out, doubt, style);
    self::verdict(&mut out, explanation, style);
    writeln!(out);
    writeln!(out, "{}", style.bold("What happens"));
    writeln!(out, "      {}", request_line(question));
    writeln!(out, "      {}", virtual_host(explanation, style));
    let mut number = 0;
    steps(&mut out, &explanation.steps, style, &mut number);
    answer(&mut out, explanation, style);
    for (of, directives) in paths {
        // There is more than one path only after an error document or another redirect.
        let whose = if paths.len() > 1 { format!(" of {}", of.path) } else { String::new() };
        let title = format!("Settings{whose}: later sections override earlier ones");
        writeln!(out);
        writeln!(out, "{}", style.bold(title));
        let mut number = 0;
        for layer in &of.layers {
            let at = layer.origin.as_ref().map_or_else(String::new, |origin| at(origin, style));
            match layer.unmet {
                Some(why) => writeln!(out, "   -  {}{at}  {why}", style.struck(&layer.title)),
                None => item(&mut out, &mut number, &format!("{}{at}", layer.title)),
            }
        }
        writeln!(out);
        writeln!(out, "{}", style.bold(format!("Directives{whose}")));
        settings(&mut out, directives, style);
    }
    out.finish()
}

/// Warns that a request never reaches the server.
pub(super) fn doubt(out: &mut Page, doubt: Option<&str>, style: Style) {
    if let Some(why) = doubt {
        writeln!(out, "{} such a request never arrives: {why}", style.bad("Warning:"));
    }
}

/// A request that is refused before there is anything to explain.
pub(super) fn of_refused(question: &Question, doubt: Option<&str>, refused: &Refused, style: Style) -> String {
    let mut out = Page::default();
    self::doubt(&mut out, doubt, style);
    writeln!(out, "{}", style.bad(format!("{}: {}", refused.status, refused.why)));
    writeln!(out);
    writeln!(out, "{}", style.bold("How it went"));
    writeln!(out, "  {}", request_line(question));
    writeln!(out, "  refused when its head was read, before any section or module saw it");
    out.finish()
}

/// The verdict: what the client gets, and why.
pub(super) fn verdict(out: &mut Page, explanation: &Explanation, style: Style) {
    let lines = verdict::lines(explanation);
    let is_bad = explanation.verdict.status.is_some_and(|status| status >= 400);
    let mark = |line: &String| if is_bad { style.bad(line) } else { style.good(line) };
    for (at, line) in lines.iter().enumerate() {
        let indent = if at > 0 { "  " } else { "" };
        writeln!(out, "{indent}{}", mark(line));
    }
}

/// The request on one line.
pub(super) fn request_line(question: &Question) -> String {
    let Question { method, target, host, client, local, .. } = question;
    let host = host.as_deref().unwrap_or("- (HTTP/1.0)");
    format!("{method} {target}, Host: {host}, from {} to {local}", client.ip())
}

/// The virtual host, and why it was selected.
pub(super) fn virtual_host(explanation: &Explanation, style: Style) -> String {
    let vhost = explanation.request.vhost;
    let name = style.good(&vhost.name);
    let why = match (&vhost.origin, explanation.candidates, explanation.named) {
        (None, ..) => match explanation.request.server.hosts.len() - 1 {
            0 => "there are no virtual hosts".to_string(),
            others => format!("none of {others} virtual hosts has this address; use --to for another one"),
        },
        (_, 1, _) => "the only one at this address".to_string(),
        (_, count, true) => format!("its name matches, among {count} at this address"),
        (_, count, false) => format!("the first of {count} at this address: none has the requested name"),
    };
    let what = if vhost.origin.is_some() { "virtual host" } else { "main server" };
    format!("{what} {name}: {why}")
}

fn steps(out: &mut Page, steps: &[Step], style: Style, number: &mut usize) {
    let mut closed: Vec<&str> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        // Directories in which `.htaccess` is not looked up are listed together.
        if let Step::NoAccessFile(directory, why) = step {
            closed.push(directory);
            let same = |next: &Step| matches!(next, Step::NoAccessFile(_, next) if next == why);
            if !steps.get(i + 1).is_some_and(same) {
                let at = why.as_ref().map_or_else(String::new, |origin| at(origin, style));
                item(
                    out,
                    number,
                    &format!("no .htaccess is looked for in {}: AllowOverride None{at}", closed.join(" ")),
                );
                closed.clear();
            }
            continue;
        }
        match step {
            Step::Path(path, why) => item(out, number, &format!("{path} ({why})")),
            Step::NoAccessFile(..) => {}
            Step::MissingAccessFile(directory) => item(out, number, &format!("{directory} has no .htaccess")),
            Step::AccessFile(path, lines, wrong) => {
                let none_counts = |wrong| format!(", and none of it is used because of an error: {}", style.bad(wrong));
                let used = wrong.as_ref().map_or_else(String::new, none_counts);
                item(out, number, &format!("{path} is read{used}"));
                for AccessLine { depth, text, number, objection } in lines {
                    let verdict = match objection {
                        Some(why) => style.bad(why),
                        None if wrong.is_none() => style.good("allowed"),
                        None => String::new(),
                    };
                    let line = format!("{}{text}  {verdict}", "  ".repeat(*depth));
                    writeln!(out, "        {number:>4}  {}", line.trim_end());
                }
            }
            Step::Decided(phase, module, status) => {
                let status = status.map_or_else(String::new, |status| format!(", with {}", style.bad(status)));
                item(out, number, &style.dim(format!("{phase}: decided by {module}{status}")));
            }
            Step::Note(Note { module, text, origin, .. }) => {
                let at = origin.as_ref().map_or_else(String::new, |origin| at(origin, style));
                item(out, number, &format!("{module}: {text}{at}"));
            }
            Step::Reason(Reason { status, module, cause, origin, effect }) => {
                let at = origin.as_ref().map_or_else(String::new, |origin| at(origin, style));
                item(out, number, &format!("{module}: {status}, because {cause} {effect}{at}"));
            }
            Step::Logged(module, level, text) => {
                let text = format!("{module}:{}: {text}", level.name());
                item(out, number, &style.dim(text));
            }
            Step::Adopted(inner) => self::steps(out, inner, style, number),
        }
    }
}

fn item(out: &mut Page, number: &mut usize, text: &str) {
    *number += 1;
    writeln!(out, "  {number:>2}  {text}");
}

fn answer(out: &mut Page, explanation: &Explanation, style: Style) {
    let request = &explanation.request;
    writeln!(out);
    writeln!(out, "{}", style.bold("The answer"));
    let file = match request.mapped.stat {
        _ if request.mapped.filename.is_empty() => "none".into(),
        Some(meta) if meta.is_dir() => format!("{} (a directory)", request.mapped.filename),
        Some(_) => request.mapped.filename.clone(),
        None => format!("{} (does not exist)", request.mapped.filename),
    };
    writeln!(out, "  file      {file}");
    if !request.mapped.path_info.is_empty() {
        writeln!(out, "  path info {}", request.mapped.path_info);
    }
    writeln!(out, "  type      {}", request.response.content_type().unwrap_or("unknown"));
    writeln!(out, "  handler   {}", request.mapped.handler.as_deref().unwrap_or("none"));
    writeln!(out, "  made by   {}", explanation.handler.unwrap_or("nobody"));
    match explanation.waits {
        true => writeln!(out, "  status    {}", style.good("would be made now")),
        false if request.response.status() < 400 => {
            writeln!(out, "  status    {}", style.good(request.response.status()))
        }
        false => writeln!(out, "  status    {}", style.bad(request.response.status())),
    }
    if let Some(location) =
        request.response.headers_out.get("Location").filter(|_| (300..400).contains(&request.response.status()))
    {
        writeln!(out, "  location  {location}");
    }
}

fn settings(out: &mut Page, directives: &[EffectiveDirective<'_>], style: Style) {
    let mut module = "";
    for said in directives {
        if said.module.source != module {
            module = said.module.source;
            writeln!(out, "  {}", style.dim(module));
        }
        let name = said.row.name;
        if said.lines.is_empty() {
            writeln!(out, "    {name} {}  {}", said.row.default, style.dim("by default"));
        }
        for (_, line) in said.lines.iter().rev() {
            let text = format!("{}{name} {}", line.within, line.args);
            let at = at(&line.origin, style);
            match line.fate {
                Fate::Holds => writeln!(out, "    {text}{at}"),
                Fate::Lost => writeln!(out, "  - {}{at}  {}", style.struck(text), super::directives::fate(line)),
                Fate::Silent | Fate::Unmet => {
                    writeln!(out, "    {}{at}  {}", style.dim(text), super::directives::fate(line))
                }
            }
        }
        if let Some(remark) = super::directives::remark(said.row) {
            writeln!(out, "      {}", style.dim(remark));
        }
        if let Some(result) = said.result.as_ref().filter(|_| said.lines.len() > 1) {
            writeln!(out, "    = {name} {result}");
        }
    }
}

/// `  file:line`, and the lines that included it.
fn at(origin: &Origin, style: Style) -> String {
    let mut text = format!("  {origin}");
    for outer in origin.chain() {
        let _ = write!(text, " < {outer}");
    }
    style.dim(text)
}
