//! Values with items that depend on the request.

use std::str::Chars;

use conf::expr::{Options, StringExpr};
use http::text::{from_bytes, to_bytes};
use server::Request;

/// Stands for a missing variable.
const NOTHING: &str = "(null)";

/// The value of a `Header` line, as a format or as an expression.
#[derive(Debug)]
pub(super) enum Value {
    /// Texts and items, one after the other.
    Format(Vec<Part>),
    /// The value of an expression.
    Expression(Box<StringExpr>),
}

/// A text in a format, or an item with its `%`.
#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    /// `%t`: when the request came, in microseconds since 1970.
    Time,
    /// `%D`: how long it has taken so far, in microseconds.
    Duration,
    /// `%l`, `%i`, `%b`: the load, and the percentages of idle and busy workers.
    Load,
    Idle,
    Busy,
    /// `%{name}e`
    Variable(String),
    /// `%{name}s`: a variable of mod_ssl; without that module there is none.
    OfTls(Option<StringExpr>),
}

impl Value {
    /// Parses a value. `Err`: the message of a syntax error.
    pub(super) fn parse(text: &str, options: Options) -> Result<Value, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            match char {
                '\\' => match chars.next() {
                    // A pattern's replacement keeps unknown escapes.
                    Some('r') => literal.push('\r'),
                    Some('n') => literal.push('\n'),
                    Some('t') => literal.push('\t'),
                    Some(other) => {
                        literal.push('\\');
                        literal.push(other);
                    }
                    None => literal.push('\\'),
                },
                '%' => match item(&mut chars, options)? {
                    None => literal.push('%'),
                    Some(item) => {
                        if !literal.is_empty() {
                            parts.push(Part::Text(std::mem::take(&mut literal)));
                        }
                        parts.push(item);
                    }
                },
                other => literal.push(other),
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Value::Format(parts))
    }

    /// The value for a request. `Err`: an expression cannot be evaluated.
    pub(super) fn of(&self, request: &Request) -> Result<String, String> {
        let parts = match self {
            Value::Format(parts) => parts,
            Value::Expression(expr) => {
                let text = server::evaluate_string(request, expr).map_err(|why| why.to_string())?;
                return request.bounded(text).map_err(|why| why.to_string());
            }
        };
        let mut out = String::new();
        for part in parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Time => {
                    let since = request.time();
                    out.push_str(&format!("t={}", since.as_micros()));
                }
                Part::Duration => out.push_str(&format!("D={}", request.elapsed().as_micros())),
                Part::Load => {
                    request.asks_beyond_head();
                    let [one, five, fifteen] = sys::time::load().unwrap_or_default();
                    out.push_str(&format!("l={one:.2}/{five:.2}/{fifteen:.2}"));
                }
                Part::Idle => out.push_str(&format!("i={}", percent(request, true))),
                Part::Busy => out.push_str(&format!("b={}", percent(request, false))),
                Part::Variable(name) => out.push_str(request.env_value(name).unwrap_or(NOTHING)),
                Part::OfTls(variable) => {
                    let value = variable.as_ref().map(|variable| server::evaluate_string(request, variable));
                    let value = value.transpose().map_err(|why| why.to_string())?.unwrap_or_default();
                    out.push_str(if value.is_empty() { NOTHING } else { &value });
                }
            }
            if out.len() > server::TEXT_MAX {
                break;
            }
        }
        request.bounded(out).map_err(|why| why.to_string())
    }
}

/// The item after a `%`. `None`: the `%` stands for itself.
fn item(chars: &mut Chars<'_>, options: Options) -> Result<Option<Part>, String> {
    let (name, kind) = match chars.next() {
        None | Some('%') => return Ok(None),
        Some('{') => (chars.by_ref().take_while(|char| *char != '}').collect(), chars.next()),
        kind => (String::new(), kind),
    };
    Ok(Some(match kind {
        Some('t') => Part::Time,
        Some('D') => Part::Duration,
        Some('l') => Part::Load,
        Some('i') => Part::Idle,
        Some('b') => Part::Busy,
        Some('e') => Part::Variable(name),
        Some('s') => Part::OfTls(of_tls(&name, options)),
        other => return Err(format!("Unrecognized header format %{}", first_byte(other))),
    }))
}

/// A variable of mod_ssl, if that is loaded.
fn of_tls(name: &str, options: Options) -> Option<StringExpr> {
    StringExpr::parse_with(&format!("%{{{name}}}"), options).ok().filter(|_| options.ssl)
}

/// Apache's view of a character: its first byte.
fn first_byte(char: Option<char>) -> String {
    let text: String = char.into_iter().collect();
    from_bytes(to_bytes(&text).get(..1).unwrap_or_default()).into_owned()
}

/// The percentage of idle, or busy, workers.
fn percent(request: &Request, idle: bool) -> u64 {
    request.asks_beyond_head();
    let Some(board) = runtime::scoreboard::get().map(|board| board.snapshot()) else { return 0 };
    let workers = || board.processes.iter().flat_map(|process| &process.workers);
    let count = |is: fn(runtime::scoreboard::State) -> bool| workers().filter(|worker| is(worker.state)).count() as u64;
    use runtime::scoreboard::State;
    let ready = count(|state| state == State::Ready);
    let all = count(|state| state != State::Dead).max(1);
    if idle { 100 * ready / all } else { 100 * (all - ready) / all }
}
