//! Values with items that depend on the request.

use conf::expr::StringExpr;
use server::Request;

/// A value.
#[derive(Debug)]
pub(super) enum Value {
    /// Texts and items, one after the other.
    Format(Vec<Part>),
    /// What an expression comes to.
    Expression(Box<StringExpr>),
}

/// A part of a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// `%t`: when the request came, in microseconds since 1970.
    Time,
    /// `%D`: how long it has taken so far, in microseconds.
    Duration,
    /// `%l`, `%i`, `%b`: load, and how idle and busy the server is.
    Load,
    Idle,
    Busy,
    /// `%{name}e`
    Variable(String),
}

impl Value {
    /// Reads a value. `Err`: the message of a syntax error.
    pub(super) fn parse(text: &str) -> Result<Value, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '\\' => match chars.next() {
                    // A pattern's replacement keeps what it does not know.
                    Some('r') => literal.push('\r'),
                    Some('n') => literal.push('\n'),
                    Some('t') => literal.push('\t'),
                    Some(other) => {
                        literal.push('\\');
                        literal.push(other);
                    }
                    None => literal.push('\\'),
                },
                '%' => {
                    let item = match chars.next() {
                        None | Some('%') => {
                            literal.push('%');
                            continue;
                        }
                        Some('t') => Part::Time,
                        Some('D') => Part::Duration,
                        Some('l') => Part::Load,
                        Some('i') => Part::Idle,
                        Some('b') => Part::Busy,
                        Some('{') => {
                            let name: String = chars.by_ref().take_while(|char| *char != '}').collect();
                            match chars.next() {
                                Some('e') => Part::Variable(name),
                                Some('s') => {
                                    return Err("Header value: %{...}s needs TLS, which is not served yet".into());
                                }
                                Some(other) => return Err(format!("Unrecognized header format %{other}")),
                                None => return Err("Unrecognized header format %".into()),
                            }
                        }
                        Some(other) => return Err(format!("Unrecognized header format %{other}")),
                    };
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal)));
                    }
                    parts.push(item);
                }
                other => literal.push(other),
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Value::Format(parts))
    }

    /// What it comes to. `Err`: an expression cannot be evaluated.
    pub(super) fn of(&self, request: &Request) -> Result<String, String> {
        let parts = match self {
            Value::Format(parts) => parts,
            Value::Expression(expr) => {
                return server::evaluate_string(request, expr).map_err(|why| why.to_string());
            }
        };
        let mut out = String::new();
        for part in parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Time => {
                    let since = request.account.time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                    out.push_str(&format!("t={}", since.as_micros()));
                }
                Part::Duration => out.push_str(&format!("D={}", request.account.start.elapsed().as_micros())),
                Part::Load => {
                    let [one, five, fifteen] = sys::time::load().unwrap_or_default();
                    out.push_str(&format!("l={one:.2}/{five:.2}/{fifteen:.2}"));
                }
                Part::Idle => out.push_str(&format!("i={}", percent(true))),
                Part::Busy => out.push_str(&format!("b={}", percent(false))),
                Part::Variable(name) => out.push_str(request.env.get(name).unwrap_or("(null)")),
            }
        }
        Ok(out)
    }
}

/// How many workers of a hundred are idle, or busy.
fn percent(idle: bool) -> u64 {
    let Some(board) = seam::scoreboard::get().map(|board| board.snapshot()) else { return 0 };
    let workers = || board.processes.iter().flat_map(|process| &process.workers);
    let count = |is: fn(seam::scoreboard::State) -> bool| workers().filter(|worker| is(worker.state)).count() as u64;
    use seam::scoreboard::State;
    let ready = count(|state| state == State::Ready);
    let all = count(|state| state != State::Dead).max(1);
    if idle { 100 * ready / all } else { 100 * (all - ready) / all }
}
