//! Parses `Header` and `RequestHeader`.

use std::sync::Arc;

use conf::expr::{Expr, StringExpr};
use conf::pattern::{Flags, Regex};
use conf::words::next_word;
use conf::{Cmd, InArgument as _, Outcome, Refusal};

use super::value::Value;
use super::{Action, HeadersDir, HeadersServer, Line, Table, When};

type Make = fn(Value) -> Action;

/// The parts of an action, which are examined last.
enum Written {
    Whole(Action),
    OfValue(Make, String),
    Edit { regex: Regex, replacement: String, all: bool },
}

/// The actions with only a value.
const OF_A_VALUE: [(&str, Make); 6] = [
    ("set", Action::Set),
    ("setifempty", Action::SetIfEmpty),
    ("add", Action::Add),
    ("append", Action::Append),
    ("merge", Action::Merge),
    ("note", Action::Note),
];

/// Takes a line.
pub(super) fn line(cmd: &mut Cmd<'_>, mut rest: &str, of_request: bool) -> Outcome {
    let directive = cmd.row.name;
    let mut action = next_word(&mut rest);
    // The number of the argument that is the action. The field's name and the value follow.
    let mut number = 1;
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
            number = 2;
        }
    }
    let name = next_word(&mut rest);
    let mut words = Vec::new();
    while !rest.trim_start().is_empty() {
        words.push(next_word(&mut rest));
    }
    if words.len() > 3 {
        return Err(Refusal::surplus(number + 5, format!("{directive} has too many arguments")));
    }
    let mut words = words.into_iter();
    let (value, second, third) = (words.next(), words.next(), words.next());
    let kind = action.to_ascii_lowercase();
    // The messages mention `Header` only, like Apache's.
    let (action, clause) = match kind.as_str() {
        "note" if of_request => {
            return Err(Refusal::argument(number, "RequestHeader does not support the 'note' action"));
        }
        "edit" | "edit*" => {
            let Some(replacement) = second else {
                return Err(Refusal::missing("Header edit requires a match and a substitution"));
            };
            let regex = Regex::new(&value.unwrap_or_default(), Flags::default())
                .map_err(|error| Refusal::pattern(number + 2, 0, &error, "Header edit regex could not be compiled"))?;
            (Written::Edit { regex, replacement, all: kind == "edit*" }, third)
        }
        "set" | "setifempty" | "add" | "append" | "merge" | "note" | "unset" | "echo" if third.is_some() => {
            return Err(Refusal::surplus(number + 4, "Too many arguments to directive"));
        }
        "unset" if second.is_some() => return Err(Refusal::surplus(number + 2, "header unset takes two arguments")),
        "unset" => (Written::Whole(Action::Unset), value),
        "echo" if second.is_some() => return Err(Refusal::surplus(number + 2, "Header echo takes two arguments")),
        "echo" if of_request => return Err(Refusal::argument(number, "Header echo only valid on Header directives")),
        "echo" => {
            let regex = Regex::new(&name, Flags::ignoring_case())
                .map_err(|error| Refusal::pattern(number + 1, 0, &error, "Header echo regex could not be compiled"))?;
            (Written::Whole(Action::Echo(regex)), value)
        }
        _ => {
            let makes = OF_A_VALUE.iter().find(|(known, _)| *known == kind);
            let (_, make) = makes.ok_or_else(|| {
                let message = "first argument must be 'add', 'set', 'setifempty', 'append', 'merge', 'unset', 'echo', \
                               'note', 'edit', or 'edit*'.";
                Refusal::argument(number, message)
            })?;
            let value = value.ok_or_else(|| Refusal::missing("Header requires three arguments"))?;
            (Written::OfValue(*make, value), second)
        }
    };
    let (mut when, mut early) = (When::Always, false);
    // The number of the argument that the condition is.
    let last = number
        + match &action {
            Written::Whole(_) => 2,
            Written::OfValue(..) => 3,
            Written::Edit { .. } => 4,
        };
    if let Some(clause) = clause {
        if clause.eq_ignore_ascii_case("early") {
            early = true;
        } else if let Some(name) = strip_ignoring_case(&clause, "env=") {
            let (there, name) = name.strip_prefix('!').map_or((true, name), |name| (false, name));
            if name.is_empty() {
                let text = "error: missing environment variable name. envclause should be in the form env=envar ";
                return Err(Refusal::argument(last, text));
            }
            when = When::Variable { name: name.to_string(), there };
        } else if let Some(text) = strip_ignoring_case(&clause, "expr=") {
            let expr = Expr::parse_with(text, cmd.expr_options())
                .map_err(|why| format!("Can't parse envclause/expression: {why}"))
                .in_argument(last)?;
            when = When::Holds(Box::new(expr));
        } else {
            return Err(Refusal::argument(last, format!("Unknown parameter: {clause}")));
        }
    }
    let action = match action {
        Written::Whole(action) => action,
        Written::OfValue(make, text) => make(parsed(cmd, &text).in_argument(number + 2)?),
        Written::Edit { regex, replacement, all } => {
            Action::Edit { regex, replacement: parsed(cmd, &replacement).in_argument(number + 3)?, all }
        }
    };
    let name = name.split_once(':').map_or(&*name, |(name, _)| name).to_string();
    let line = Arc::new(Line { table, name, action, when, origin: cmd.node.origin.clone() });
    match (early, cmd.place.in_section()) {
        (false, _) => cmd.push(|d: &mut HeadersDir| &mut d.lines, line),
        (true, false) => cmd.server_push(|s: &mut HeadersServer| &mut s.early, line),
        // The section is not known yet when such a line would act.
        (true, true) => Ok(()),
    }
}

fn parsed(cmd: &Cmd<'_>, text: &str) -> Result<Value, String> {
    match text.strip_prefix("expr=") {
        None => Value::parse(text, cmd.expr_options()),
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
