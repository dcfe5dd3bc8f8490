//! Adds, changes and removes fields of requests and responses.
//!
//! Apache manual: mod_headers. Doubtful cases were measured on 2.4.71.

mod parse;
mod value;

use std::fmt::Display;
use std::sync::Arc;

use conf::directive::Args::Raw;
use conf::expr::Expr;
use conf::pattern::{Captures, Regex, substitute_in};
use conf::{Allowed, Directive, Listed, ModuleInfo, Origin, row, settings};
use http::text::{from_bytes, to_bytes};
use server::PhaseHook::Now;
use server::{Fields, Flow, Hook, Module, Order, Phase, Request, ResponseHook};

use value::Value;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "headers_module", source: "mod_headers.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::PostRead, Order::First, Now(early)),
        Hook::Phase(Phase::Fixups, Order::Last, Now(of_request)),
        Hook::ResponseFields(Order::Last, ResponseHook::Now(of_response)),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("Header", Allowed::FILEINFO, Raw(|c, line| parse::line(c, line, false)), "", "an optional condition, an action, header and value followed by optional env clause"),
    row("RequestHeader", Allowed::FILEINFO, Raw(|c, line| parse::line(c, line, true)), "", "an action, header and value followed by optional env clause"),
];

settings! {
    /// The lines of a section, in order.
    pub struct HeadersDir { lines: Listed<Arc<Line>> }
}

settings! {
    /// The lines outside sections that act as soon as the head was read.
    pub struct HeadersServer { early: Listed<Arc<Line>> }
}

/// A `Header` or `RequestHeader` line: what it does to which fields, and when.
#[derive(Debug)]
struct Line {
    table: Table,
    name: String,
    action: Action,
    when: When,
    origin: Origin,
}

/// The fields that a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    /// The fields of the request.
    Request,
    /// The fields of successful responses.
    OnSuccess,
    /// The fields of all responses, errors included.
    Always,
}

/// What a line does to the fields with its name.
#[derive(Debug)]
enum Action {
    Set(Value),
    SetIfEmpty(Value),
    Add(Value),
    Append(Value),
    Merge(Value),
    Unset,
    /// Copies the request's fields whose names match.
    Echo(Regex),
    /// Copies the value into the notes, under this name.
    Note(Value),
    Edit {
        regex: Regex,
        replacement: Value,
        all: bool,
    },
}

/// The condition at the end of a line (`env=`, `expr=`).
#[derive(Debug)]
enum When {
    Always,
    /// A variable is set, or is not.
    Variable {
        name: String,
        there: bool,
    },
    Holds(Box<Expr>),
}

/// Before anything else in the request is examined.
fn early(request: &mut Request) -> Flow {
    if request.is_subrequest() {
        return Flow::Declined;
    }
    let host = request.vhost;
    let lines = &host.settings.get::<HeadersServer>().early;
    for table in [Table::Request, Table::Always, Table::OnSuccess] {
        for line in lines.iter().filter(|line| line.table == table) {
            if let Err(flow) = act(request, line) {
                return flow;
            }
        }
    }
    Flow::Declined
}

fn of_request(request: &mut Request) -> Flow {
    let dir = request.dir.slots.clone();
    for line in dir.get::<HeadersDir>().lines.iter().filter(|line| line.table == Table::Request) {
        if let Err(flow) = act(request, line) {
            return flow;
        }
    }
    Flow::Declined
}

/// Changes the fields of a response; an error has only those in the table for all responses.
fn of_response(request: &mut Request, is_error: bool) {
    let dir = request.dir.slots.clone();
    let lines = &dir.get::<HeadersDir>().lines;
    if lines.is_empty() {
        return;
    }
    for table in [Table::Always, Table::OnSuccess] {
        if table == Table::OnSuccess && is_error {
            continue;
        }
        for line in lines.iter().filter(|line| line.table == table) {
            if act(request, line).is_err() {
                // The failure is logged, and no response is sent.
                return;
            }
        }
    }
}

/// Sends the request's fields back whose names match.
fn echo(request: &mut Request, regex: &Regex, line: &Line) -> Result<(), Flow> {
    // Repeated fields are joined, as in Apache.
    let mut asked = Fields::default();
    request.headers().into_iter().for_each(|(name, value)| asked.merge(name.into_owned(), &value));
    let mut echoed = Vec::new();
    for (name, value) in asked.iter() {
        if regex.is_match(name).map_err(undecided(request, line))? {
            let value = request.bounded(value.to_string()).map_err(undecided(request, line))?;
            echoed.push((name.to_string(), value));
        }
    }
    // As in Apache, never into the table for all responses.
    let fields = &mut request.response.headers_out;
    echoed.into_iter().for_each(|(name, value)| fields.add(name, value));
    Ok(())
}

/// Executes a line, if it applies. `Err`: that cannot be decided.
fn act(request: &mut Request, line: &Line) -> Result<(), Flow> {
    if !applies(request, line)? {
        return Ok(());
    }
    let name = &line.name;
    let of = |request: &Request, value: &Value| value.of(request).map_err(undecided(request, line));
    // The media type is stored separately, which takes precedence; as in Apache, only replacements of a value reach it.
    let is_type = line.table != Table::Request && name.eq_ignore_ascii_case("Content-Type");
    match &line.action {
        Action::Set(value) => {
            let value = of(request, value)?;
            set(request, line, is_type, value);
        }
        Action::SetIfEmpty(value) => {
            if !fields(request, line.table).contains(name) {
                let value = of(request, value)?;
                set(request, line, is_type, value);
            }
        }
        Action::Add(value) => {
            let value = of(request, value)?;
            fields(request, line.table).add(name.clone(), value);
        }
        Action::Append(value) => {
            let value = of(request, value)?;
            fields(request, line.table).merge(name.clone(), &value);
        }
        Action::Merge(value) => {
            let value = of(request, value)?;
            let fields = fields(request, line.table);
            if !fields.joined(name).is_some_and(|joined| has_item(&joined, &value)) {
                fields.merge(name.clone(), &value);
            }
        }
        Action::Unset => {
            if is_type {
                request.response.clear_content_type();
            }
            fields(request, line.table).remove(name);
        }
        Action::Echo(regex) => echo(request, regex, line)?,
        Action::Note(note) => {
            let note = of(request, note)?;
            match fields(request, line.table).get(name).map(str::to_string) {
                Some(value) => request.notes.set(note, value),
                None => request.notes.remove(&note),
            }
        }
        Action::Edit { regex, replacement, all } => {
            let replace = |request: &Request, value: &str| {
                edited(request, regex, replacement, *all, value).map_err(undecided(request, line))
            };
            edit(request, line, is_type, replace)?;
        }
    }
    Ok(())
}

/// Whether a line applies to the request.
fn applies(request: &mut Request, line: &Line) -> Result<bool, Flow> {
    match &line.when {
        When::Always => Ok(true),
        When::Variable { name, there } => Ok(request.env.contains(name) == *there),
        When::Holds(expr) => server::evaluate(request, expr).map_err(undecided(request, line)),
    }
}

/// Refuses a request because a line cannot be decided.
fn undecided<E: Display>(request: &Request, line: &Line) -> impl Fn(E) -> Flow {
    move |why| request.undecided("headers", &why, &line.origin)
}

/// Replaces the values of the fields that a line names. `is_type`: the media type, too.
fn edit(
    request: &mut Request,
    line: &Line,
    is_type: bool,
    replace: impl Fn(&Request, &str) -> Result<String, Flow>,
) -> Result<(), Flow> {
    if is_type && let Some(now) = request.response.content_type().map(str::to_string) {
        let value = replace(request, &now)?;
        request.response.set_content_type(value);
    }
    let before = fields(request, line.table).clone();
    if !before.contains(&line.name) {
        return Ok(());
    }
    let mut after = Fields::default();
    for (field, value) in before.iter() {
        let value = match field.eq_ignore_ascii_case(&line.name) {
            true => replace(request, value)?,
            false => value.to_string(),
        };
        after.add(field.to_string(), value);
    }
    *fields(request, line.table) = after;
    Ok(())
}

/// The fields that a line is about.
fn fields(request: &mut Request, table: Table) -> &mut Fields {
    match table {
        Table::Request => request.headers_mut(),
        Table::OnSuccess => &mut request.response.headers_out,
        Table::Always => &mut request.response.err_headers_out,
    }
}

/// Sets the field that a line names.
fn set(request: &mut Request, line: &Line, is_type: bool, value: String) {
    if is_type {
        request.response.set_content_type(value.clone());
    }
    fields(request, line.table).set(line.name.clone(), value);
}

/// A value with its matches replaced, once or everywhere. `Err`: that cannot be decided.
fn edited(request: &Request, regex: &Regex, replacement: &Value, all: bool, value: &str) -> Result<String, String> {
    let bytes = to_bytes(value);
    let (mut out, mut captures, mut rest) = (Vec::new(), Captures::default(), &*bytes);
    // As in Apache each match is searched in the rest alone: `^` matches at the end of the last one.
    while regex.captures_in(rest, 0, &mut captures).map_err(|why| why.to_string())? {
        let Some(span) = captures.span(0) else { break };
        out.extend_from_slice(&rest[..span.start]);
        substitute_in(&mut out, &replacement.of(request)?, rest, &captures, server::TEXT_MAX)
            .map_err(|why| why.to_string())?;
        rest = &rest[span.end..];
        if all && span.is_empty() {
            // An empty match would repeat there for ever.
            let (first, behind) = rest.split_at(rest.len().min(1));
            out.extend_from_slice(first);
            rest = behind;
        }
        if !all || rest.is_empty() {
            break;
        }
    }
    out.extend_from_slice(rest);
    request.bounded(from_bytes(&out).into_owned()).map_err(|why| why.to_string())
}

/// Whether a list contains an item, compared letter by letter.
fn has_item(list: &str, item: &str) -> bool {
    let (mut quoted, mut escaped, mut start) = (false, false, 0);
    let bytes = to_bytes(list).into_owned();
    let item = to_bytes(item);
    let mut items = Vec::new();
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                items.push(&bytes[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    // After the last comma, and in an empty list, there is nothing.
    items.extend(Some(&bytes[start..]).filter(|rest| !rest.is_empty()));
    items.iter().any(|one| one.trim_ascii() == &*item)
}

#[cfg(test)]
mod tests;
