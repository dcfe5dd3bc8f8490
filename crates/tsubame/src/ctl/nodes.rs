//! `tsubame ctl diff OTHER`: compares the configuration in effect with a bundle, or with that of another machine.
//!
//! Each side is what `config --json` prints. Lines are compared where their order matters to Apache, and as a set elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};

use super::align::{Side, align};
use crate::bundles::Bundle;
use crate::cli::Options;
use crate::config::{self, ConfigSource};
use crate::diagnosis::explanation;
use crate::explain;
use crate::output;
use crate::style::{Page, Style};

/// The exit status if both could be compared and differ, and if they could not be compared.
const DIFFERENT: u8 = 1;
const TROUBLE: u8 = 2;
/// The largest text of a configuration that is read, in bytes.
const SIZE_MAX: u64 = conf::read::TEXT_MAX as u64;
/// The section of what comes before all lines.
const BEFORE: &str = "before all lines";
/// Directives whose lines are a set.
const SETS: [&str; 3] = ["listen", "serveralias", "loadmodule"];

/// A line of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    text: String,
    /// Its file and line; `None` for what comes before all lines.
    origin: Option<(String, u64)>,
}

/// The lines of a configuration, by section and by what their order matters among.
type Sections = BTreeMap<String, BTreeMap<String, Vec<Line>>>;

/// A line that one side has only.
struct Change<'a> {
    section: &'a str,
    side: Side,
    line: &'a Line,
}

/// Compares `here`, the answer of `config --json`, with what `other` names, and prints the differences.
pub(super) fn run(options: &Options, here: &Result<String, String>, other: &str, json: bool) -> ExitCode {
    let program = &options.program;
    let both = here.clone().and_then(|here| Ok((sections(&here)?, sections(&read(options, other)?)?)));
    let (here, there) = match both {
        Ok(both) => both,
        Err(why) => {
            output::complain(&format!("{program} ctl: diff {other}: {}", why.trim_end()));
            return ExitCode::from(TROUBLE);
        }
    };
    let changes = compare(&here, &there);
    let text = if json { for_programs(&changes) } else { for_people(&changes, other, Style::of_output()) };
    output::print(&text);
    if changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENT) }
}

/// The other configuration, as `config --json` prints it: `-` is standard input.
fn read(options: &Options, other: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = match other {
        "-" => std::io::stdin().take(SIZE_MAX).read_to_end(&mut bytes),
        file => std::fs::File::open(Path::new(file)).and_then(|file| file.take(SIZE_MAX).read_to_end(&mut bytes)),
    };
    read.map_err(|error| sys::describe(&error))?;
    if bytes.trim_ascii_start().first() == Some(&b'{') {
        return String::from_utf8(bytes).map_err(|error| error.to_string());
    }
    let bundle = Arc::new(Bundle::from_bytes(&bytes)?);
    let configured = config::read(options, &ConfigSource::Exactly(Some(&bundle)))
        .map_err(|failed| explanation::of(&failed.error, &(&*failed).into(), &options.program, Style::of_errors()))?;
    Ok(explain::everything(&configured.loaded.server, true, Style(false)))
}

/// The lines of a configuration.
fn sections(text: &str) -> Result<Sections, String> {
    const NONE: &str = "this is neither a bundle nor what `tsubame ctl config --json` prints";
    let value: Value = serde_json::from_str(text).map_err(|_| NONE)?;
    let (levels, modules) = value["levels"].as_array().zip(value["modules"].as_array()).ok_or(NONE)?;
    let mut found = Sections::new();
    let mut add = |section: &str, group: String, line: Line| {
        found.entry(section.to_string()).or_default().entry(group).or_default().push(line);
    };
    let plain = |text: String| Line { text, origin: None };
    add(
        BEFORE,
        "serverroot".into(),
        plain(format!("ServerRoot {}", value["server_root"].as_str().unwrap_or_default())),
    );
    for id in modules.iter().filter_map(Value::as_str) {
        add(BEFORE, "loadmodule".into(), plain(format!("LoadModule {id}")));
    }
    let defines = value["defines"].as_object().into_iter().flatten();
    for (name, value) in defines.filter(|(name, _)| config::says_something(name)) {
        add(
            BEFORE,
            "define".into(),
            plain(format!("Define {name} {}", value.as_str().unwrap_or_default()).trim_end().into()),
        );
    }
    let mut host = String::new();
    for level in levels {
        let title = level["section"].as_str().ok_or(NONE)?;
        let lines = level["lines"].as_array().ok_or(NONE)?;
        let section = named(title, lines, &mut host);
        if title.starts_with('<') {
            let kind = title.rsplit_once(" <").map_or(title.trim_start_matches('<'), |(_, last)| last);
            let kind = kind.split([' ', '>']).next().unwrap_or_default().to_ascii_lowercase();
            add("", kind, Line { text: section.clone(), origin: place(&level["origin"]) });
        }
        for line in lines {
            let (directive, text) = (line["directive"].as_str().ok_or(NONE)?, line["value"].as_str().ok_or(NONE)?);
            let within = line["within"].as_str().unwrap_or_default();
            let text = format!("{within} {directive} {text}").trim().to_string();
            add(&section, group(directive), Line { text, origin: place(&line["origin"]) });
        }
    }
    for (name, lines) in found.values_mut().flatten() {
        // Apache sorts sections of directories itself.
        if SETS.contains(&name.as_str()) || name == "directory" {
            lines.sort_by(|a, b| a.text.cmp(&b.text));
        }
    }
    Ok(found)
}

/// The name of a section. Virtual hosts may share an address, so their names are part of it.
fn named(title: &str, lines: &[Value], host: &mut String) -> String {
    let Some(rest) = title.strip_prefix("<VirtualHost ") else { return title.into() };
    let Some((own, inner)) = rest.split_once("> <") else {
        let name = lines.iter().find(|line| line["directive"] == "ServerName");
        let name =
            name.and_then(|line| line["value"].as_str()).map_or_else(String::new, |name| format!(" ServerName {name}"));
        *host = format!("{title}{name}");
        return host.clone();
    };
    if !host.starts_with(&format!("<VirtualHost {own}>")) {
        *host = format!("<VirtualHost {own}>");
    }
    format!("{host} <{inner}")
}

/// What the order of a directive's lines matters among: those of the same module, and of the core those of one name.
fn group(directive: &str) -> String {
    let has_it = |info: &&&conf::ModuleInfo| info.directives.iter().any(|row| row.name.eq_ignore_ascii_case(directive));
    let name = directive.to_ascii_lowercase();
    match config::known_modules().iter().find(has_it) {
        Some(info) if info.id != "core" && info.id != "core_module" && !SETS.contains(&name.as_str()) => info.id.into(),
        _ => name,
    }
}

fn place(origin: &Value) -> Option<(String, u64)> {
    Some((origin["file"].as_str()?.to_string(), origin["line"].as_u64()?))
}

/// The lines that are on one side only, section by section.
fn compare<'a>(here: &'a Sections, there: &'a Sections) -> Vec<Change<'a>> {
    static NONE: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    let mut changes = Vec::new();
    let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    for section in names {
        let (left, right) = (here.get(section).unwrap_or(&NONE), there.get(section).unwrap_or(&NONE));
        let groups: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        for group in groups {
            let lines = |side: &'a BTreeMap<String, Vec<Line>>| side.get(group).map(Vec::as_slice).unwrap_or_default();
            let aligned = align(lines(left), lines(right), |a, b| a.text == b.text);
            let only = aligned.into_iter().filter(|(side, _)| *side != Side::Both);
            changes.extend(only.map(|(side, line)| Change { section, side, line }));
        }
    }
    changes
}

fn for_programs(changes: &[Change<'_>]) -> String {
    let change = |Change { section, side, line }: &Change<'_>| {
        let origin = line.origin.as_ref().map(|(file, line)| json!({ "file": file, "line": line }));
        json!({
            "only": if *side == Side::Left { "here" } else { "there" },
            "section": section,
            "line": line.text,
            "origin": origin,
        })
    };
    let list: Vec<Value> = changes.iter().map(change).collect();
    format!("{:#}\n", json!({ "same": changes.is_empty(), "changes": list }))
}

fn for_people(changes: &[Change<'_>], other: &str, style: Style) -> String {
    let other = if other == "-" { "standard input" } else { other };
    if changes.is_empty() {
        return format!("the configuration in effect is that of {other}\n");
    }
    let mut out = Page::default();
    writeln!(out, "{}", style.bad("- in effect here"));
    writeln!(out, "{}", style.good(format!("+ {other}")));
    let mut shown = "";
    for Change { section, side, line } in changes {
        if shown != *section {
            writeln!(out, "  {section}");
            shown = section;
        }
        let at = line.origin.as_ref().map_or_else(String::new, |(file, line)| style.dim(format!("  # {file}:{line}")));
        let indent = if section.is_empty() { "" } else { "  " };
        match side {
            Side::Right => writeln!(out, "{}{at}", style.good(format!("+ {indent}{}", line.text))),
            Side::Both | Side::Left => writeln!(out, "{}{at}", style.bad(format!("- {indent}{}", line.text))),
        }
    }
    out.finish()
}
