//! Reading `Header` and `RequestHeader`.

use std::sync::Arc;

use conf::expr::{Expr, StringExpr};
use conf::pattern::{Flags, Regex};
use conf::words::next_word;
use conf::{Cmd, Outcome};

use super::value::Value;
use super::{Action, HeadersDir, HeadersServer, Line, Table, When};

/// Takes a line.
pub(super) fn line(cmd: &mut Cmd<'_>, mut rest: &str, of_request: bool) -> Outcome {
    let directive = cmd.row.name;
    let mut action = next_word(&mut rest);
    let mut table = if of_request { Table::Request } else { Table::OnSuccess };
    if !of_request {
        let named = match action.to_ascii_lowercase().as_str() {
            "always" => Some(Table::Always),
            "onsuccess" => Some(Table::OnSuccess),
            _ => None,
        };
        if let Some(named) = named {
            table = named;
            action = next_word(&mut rest);
        }
    }
    let name = next_word(&mut rest);
    let mut words = Vec::new();
    while !rest.trim_start().is_empty() {
        words.push(next_word(&mut rest));
    }
    if words.len() > 3 {
        return Err(format!("{directive} has too many arguments"));
    }
    let mut words = words.into_iter();
    let (value, second, third) = (words.next(), words.next(), words.next());
    let kind = action.to_ascii_lowercase();
    let name = name.strip_suffix(':').unwrap_or(&name).to_string();
    let (action, clause) = match kind.as_str() {
        "edit" | "edit*" => {
            let Some(replacement) = second else {
                return Err("Header edit requires a regex and a substitution".replace("Header", directive));
            };
            let regex = Regex::new(&value.unwrap_or_default(), Flags::default())
                .map_err(|_| format!("{directive} edit regex could not be compiled"))?;
            let replacement = parsed(cmd, &replacement)?;
            (Action::Edit { regex, replacement, all: kind == "edit*" }, third)
        }
        _ if third.is_some() => return Err("Too many arguments to directive".into()),
        "unset" | "echo" if second.is_some() => return Err(format!("header {kind} takes two arguments")),
        "unset" => (Action::Unset, value),
        "echo" if of_request => return Err(format!("{directive} does not know the action 'echo'")),
        "echo" => {
            let regex =
                Regex::new(&name, Flags::ignoring_case()).map_err(|_| "Header echo regex could not be compiled")?;
            (Action::Echo(regex), value)
        }
        "set" | "setifempty" | "add" | "append" | "merge" | "note" => {
            let Some(value) = value else { return Err("Header requires three arguments".replace("Header", directive)) };
            let action = match kind.as_str() {
                "note" => Action::Note(value),
                "set" => Action::Set(parsed(cmd, &value)?),
                "setifempty" => Action::SetIfEmpty(parsed(cmd, &value)?),
                "add" => Action::Add(parsed(cmd, &value)?),
                "append" => Action::Append(parsed(cmd, &value)?),
                _ => Action::Merge(parsed(cmd, &value)?),
            };
            (action, second)
        }
        _ => {
            return Err("first argument must be 'add', 'set', 'setifempty', 'append', 'merge', 'unset', 'echo', \
                        'note', 'edit', or 'edit*'."
                .into());
        }
    };
    let (mut when, mut early) = (When::Always, false);
    if let Some(clause) = clause {
        if clause.eq_ignore_ascii_case("early") {
            early = true;
        } else if let Some(name) = strip_ignoring_case(&clause, "env=") {
            let (there, name) = name.strip_prefix('!').map_or((true, name), |name| (false, name));
            when = When::Variable { name: name.to_string(), there };
        } else if let Some(text) = strip_ignoring_case(&clause, "expr=") {
            let expr = Expr::parse_with(text, cmd.expr_options())
                .map_err(|why| format!("Can't parse envclause/expression: {why}"))?;
            when = When::Holds(Box::new(expr));
        } else {
            return Err("error: envclause should be in the form env=envar".into());
        }
    }
    let line = Arc::new(Line { table, name, action, when, origin: cmd.node.origin.clone() });
    if !early {
        return cmd.push(|d: &mut HeadersDir| &mut d.lines, line);
    }
    if cmd.place.path.is_some() || cmd.place.htaccess {
        return Err(format!("{directive}: early is possible outside sections only"));
    }
    cmd.server_push(|s: &mut HeadersServer| &mut s.early, line)
}

fn parsed(cmd: &Cmd<'_>, text: &str) -> Result<Value, String> {
    match text.strip_prefix("expr=") {
        None => Value::parse(text),
        Some(expr) => {
            let expr = StringExpr::parse_with(expr, cmd.expr_options())
                .map_err(|why| format!("Can't parse value expression : {why}"))?;
            Ok(Value::Expression(Box::new(expr)))
        }
    }
}

fn strip_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}
