//! Shows the configuration in effect: every line with its origin; lines that another line replaced are struck out.

use conf::read::Ran;
use serde_json::{Value, json};
use server::Server;
use server::explain::{ExplainedLayer, Fate, levels};

use super::directives::fate;
use super::json::origin;
use crate::style::{Page, Style};

/// The whole configuration, as text or as JSON.
pub(crate) fn everything(server: &Server, json: bool, style: Style) -> String {
    let levels = levels(server);
    if json { for_programs(server, &levels) } else { for_people(server, &levels, style) }
}

fn for_people(server: &Server, levels: &[ExplainedLayer], style: Style) -> String {
    let language = &server.language;
    let mut out = Page::default();
    writeln!(out, "{}", style.bold("before all lines"));
    writeln!(out, "  ServerRoot \"{}\"", language.server_root);
    writeln!(out, "  DefaultRuntimeDir \"{}\"", language.runtime_dir());
    for (name, value) in defines(server) {
        let value = value.map_or_else(String::new, |value| format!(" \"{value}\""));
        writeln!(out, "  Define {name}{value}");
    }
    for id in module_ids(server) {
        writeln!(out, "  LoadModule {id}");
    }
    if !server.ran.is_empty() {
        writeln!(out);
        writeln!(out, "{}", style.bold("effective while the text was read"));
    }
    for ran in &server.ran {
        let at = style.dim(format!("  # {}", ran.origin));
        match ran.holds {
            Some(false) => writeln!(out, "- {}{at} not true: skipped", style.struck(&ran.text)),
            Some(true) => writeln!(out, "  {}{at} true", ran.text),
            None => writeln!(out, "  {}{at}", ran.text),
        }
    }
    for level in levels.iter().filter(|level| !level.lines.is_empty()) {
        let at = level.origin.as_ref().map_or_else(String::new, |origin| style.dim(format!("  # {origin}")));
        writeln!(out);
        writeln!(out, "{}{at}", style.bold(&level.title));
        for line in &level.lines {
            let text = format!("{}{} {}", line.within, line.row.name, line.args);
            let at = style.dim(format!("  # {}", line.origin));
            match line.fate {
                Fate::Lost => writeln!(out, "- {}{at} {}", style.struck(text), fate(line)),
                Fate::Holds | Fate::Silent | Fate::Unmet => writeln!(out, "  {text}{at}"),
            }
        }
    }
    out.finish()
}

fn for_programs(server: &Server, levels: &[ExplainedLayer]) -> String {
    let defines: serde_json::Map<String, Value> =
        defines(server).map(|(name, value)| (name.to_string(), value.into())).collect();
    let level = |level: &ExplainedLayer| {
        let line = |line: &server::explain::ExplainedLine| {
            json!({
                "directive": line.row.name,
                "value": line.args,
                "within": line.within.trim_end(),
                "origin": origin(&line.origin),
                "fate": fate(line),
            })
        };
        let lines: Vec<Value> = level.lines.iter().map(line).collect();
        json!({ "section": level.title, "origin": level.origin.as_ref().map(origin), "lines": lines })
    };
    let value = json!({
        "server_root": server.language.server_root,
        "runtime_dir": server.language.runtime_dir(),
        "defines": defines,
        "modules": module_ids(server),
        "read": server.ran.iter().map(ran).collect::<Vec<_>>(),
        "levels": levels.iter().map(level).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn ran(ran: &Ran) -> Value {
    json!({ "line": ran.text, "origin": origin(&ran.origin), "holds": ran.holds })
}

/// The loaded modules, each once.
pub(crate) fn module_ids(server: &Server) -> Vec<&'static str> {
    let mut ids: Vec<&str> = server.infos().iter().map(|info| info.id).collect();
    ids.dedup();
    ids
}

/// The defined names, without those that the program itself defines.
fn defines(server: &Server) -> impl Iterator<Item = (&str, Option<&str>)> {
    server.language.defines().filter(|(name, _)| !name.starts_with('-'))
}
