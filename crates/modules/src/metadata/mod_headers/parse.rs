//! Parses `Header` and `RequestHeader`.

use std::sync::Arc;

use conf::expr::{Expr, StringExpr};
use conf::pattern::{Flags, Regex};
use conf::words::next_word;
use conf::{Cmd, InArgument as _, Outcome, Refusal};

use super::value::Value;
use super::{Action, HeadersDir, HeadersServer, Line, Table, When};

type Make = fn(Value) -> Action;

/// An action whose values are not parsed yet: their errors come after those of the clause.
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

/// Parses the arguments of `Header`, or of `RequestHeader`, and stores the line.
pub(super) fn line(cmd: &mut Cmd<'_>, mut rest: &str, of_request: bool) -> Outcome {
    let (table, kind, action_at) = table_and_action(&mut rest, of_request);
    let name = next_word(&mut rest);
    let mut words = Vec::new();
    while !rest.trim_start().is_empty() {
        words.push(next_word(&mut rest));
    }
    if words.len() > 3 {
        return Err(Refusal::surplus(action_at + 5, format!("{} has too many arguments", cmd.row.name)));
    }
    let (written, clause) = action(&kind, action_at, &name, words, of_request)?;
    let (when, is_early) = match clause {
        None => (When::Always, false),
        Some(clause) => self::clause(cmd, &clause, action_at + written.arguments())?,
    };
    let action = written.parse(cmd, action_at)?;
    let name = name.split_once(':').map_or(&*name, |(name, _)| name).to_string();
    let line = Arc::new(Line { table, name, action, when, origin: cmd.node.origin.clone() });
    match (is_early, cmd.place.in_section()) {
        (false, _) => cmd.push(|d: &mut HeadersDir| &mut d.lines, line),
        (true, false) => cmd.server_push(|s: &mut HeadersServer| &mut s.early, line),
        // The section is not known yet when such a line would act.
        (true, true) => Ok(()),
    }
}

/// The fields that a line is about, its action in lower case, and the number of the argument that is the action. The
/// field's name and the values follow it.
fn table_and_action(rest: &mut &str, of_request: bool) -> (Table, String, usize) {
    let first = next_word(rest).to_ascii_lowercase();
    let table = match first.as_str() {
        _ if of_request => return (Table::Request, first, 1),
        "always" => Table::Always,
        "onsuccess" => Table::OnSuccess,
        _ => return (Table::OnSuccess, first, 1),
    };
    (table, next_word(rest).to_ascii_lowercase(), 2)
}

/// An action, and the clause after its values. `at`: the number of its argument. The messages mention `Header` only, like
/// Apache's.
fn action(
    kind: &str,
    at: usize,
    name: &str,
    words: Vec<String>,
    of_request: bool,
) -> Result<(Written, Option<String>), Refusal> {
    let mut words = words.into_iter();
    let (value, second, third) = (words.next(), words.next(), words.next());
    Ok(match kind {
        "note" if of_request => {
            return Err(Refusal::argument(at, "RequestHeader does not support the 'note' action"));
        }
        "edit" | "edit*" => {
            let Some(replacement) = second else {
                return Err(Refusal::missing("Header edit requires a match and a substitution"));
            };
            let regex = Regex::new(&value.unwrap_or_default(), Flags::default())
                .map_err(|error| Refusal::pattern(at + 2, 0, &error, "Header edit regex could not be compiled"))?;
            (Written::Edit { regex, replacement, all: kind == "edit*" }, third)
        }
        "set" | "setifempty" | "add" | "append" | "merge" | "note" | "unset" | "echo" if third.is_some() => {
            return Err(Refusal::surplus(at + 4, "Too many arguments to directive"));
        }
        "unset" if second.is_some() => return Err(Refusal::surplus(at + 2, "header unset takes two arguments")),
        "unset" => (Written::Whole(Action::Unset), value),
        "echo" if second.is_some() => return Err(Refusal::surplus(at + 2, "Header echo takes two arguments")),
        "echo" if of_request => return Err(Refusal::argument(at, "Header echo only valid on Header directives")),
        "echo" => {
            let regex = Regex::new(name, Flags::ignoring_case())
                .map_err(|error| Refusal::pattern(at + 1, 0, &error, "Header echo regex could not be compiled"))?;
            (Written::Whole(Action::Echo(regex)), value)
        }
        _ => {
            let makes = OF_A_VALUE.iter().find(|(known, _)| *known == kind);
            let (_, make) = makes.ok_or_else(|| {
                let message = "first argument must be 'add', 'set', 'setifempty', 'append', 'merge', 'unset', 'echo', \
                               'note', 'edit', or 'edit*'.";
                Refusal::argument(at, message)
            })?;
            let value = value.ok_or_else(|| Refusal::missing("Header requires three arguments"))?;
            (Written::OfValue(*make, value), second)
        }
    })
}

/// The condition in a clause, argument `at`, and whether the line acts early.
fn clause(cmd: &Cmd<'_>, clause: &str, at: usize) -> Result<(When, bool), Refusal> {
    if clause.eq_ignore_ascii_case("early") {
        return Ok((When::Always, true));
    }
    if let Some(name) = strip_ignoring_case(clause, "env=") {
        let (there, name) = name.strip_prefix('!').map_or((true, name), |name| (false, name));
        if name.is_empty() {
            let text = "error: missing environment variable name. envclause should be in the form env=envar ";
            return Err(Refusal::argument(at, text));
        }
        return Ok((When::Variable { name: name.to_string(), there }, false));
    }
    let Some(text) = strip_ignoring_case(clause, "expr=") else {
        return Err(Refusal::argument(at, format!("Unknown parameter: {clause}")));
    };
    let expr = Expr::parse_with(text, cmd.expr_options())
        .map_err(|why| format!("Can't parse envclause/expression: {why}"))
        .in_argument(at)?;
    Ok((When::Holds(Box::new(expr)), false))
}

impl Written {
    /// The number of arguments from the action to its last value. A clause may follow.
    fn arguments(&self) -> usize {
        match self {
            Written::Whole(_) => 2,
            Written::OfValue(..) => 3,
            Written::Edit { .. } => 4,
        }
    }

    /// Parses the values. `at`: the number of the argument that is the action.
    fn parse(self, cmd: &Cmd<'_>, at: usize) -> Result<Action, Refusal> {
        Ok(match self {
            Written::Whole(action) => action,
            Written::OfValue(make, text) => make(parsed(cmd, &text).in_argument(at + 2)?),
            Written::Edit { regex, replacement, all } => {
                Action::Edit { regex, replacement: parsed(cmd, &replacement).in_argument(at + 3)?, all }
            }
        })
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
