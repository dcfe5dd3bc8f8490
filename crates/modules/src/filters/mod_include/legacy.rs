//! Conditions in the syntax of Apache 2.2 (`SSILegacyExprParser`): strings, `=`, `!=`, `<`, `/regex/`, `!`, `&&`, `||`,
//! parentheses, `-A`.

/// A condition of `if` or `elif`, parsed and not yet evaluated.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Words, joined by one blank: true unless empty.
    Text(String),
    /// A regular expression, which is invalid alone.
    Regex(String),
    Not(Option<Box<Condition>>),
    And(Side, Side),
    Or(Side, Side),
    Compare(Comparison, Side, Side),
    /// `(...)`; empty it is true.
    Group(Side),
    /// `-A`: whether a URL is accessible.
    Access(Side),
}

/// An operand, which may be missing.
pub(super) type Side = Option<Box<Condition>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Why a condition is invalid: Apache's message, still without the condition and the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Invalid,
    /// `)` without `(`.
    Closed,
    /// `(` without `)`.
    Open,
}

impl Fault {
    pub(super) fn message(self, text: &str, file: &str) -> String {
        match self {
            Fault::Invalid => format!("AH03188: Invalid expression \"{text}\" in file {file}"),
            Fault::Closed => format!("AH03189: Unmatched ')' in \"{text}\" in file {file}"),
            Fault::Open => format!("AH03191: Unmatched '(' in \"{text}\" in file {file}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Text(String),
    Regex(String),
    And,
    Or,
    Not,
    Compare(Comparison),
    Open,
    Close,
    Access,
}

/// The maximum nesting of parentheses and negations.
const DEPTH_MAX: usize = 100;

/// Parses a condition; `None`: there is none, which is false.
pub(super) fn parse(text: &str) -> Result<Option<Condition>, Fault> {
    let tokens = tokens(text);
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    let condition = parser.sequence()?;
    match parser.peek() {
        Some(_) => Err(Fault::Closed),
        None => Ok(condition),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Operands joined by `&&` and `||`, up to `)` or the end.
    fn sequence(&mut self) -> Result<Option<Condition>, Fault> {
        self.joined(&Token::Or, Condition::Or, |parser| parser.joined(&Token::And, Condition::And, Self::comparison))
    }

    fn joined(
        &mut self,
        sign: &Token,
        join: fn(Side, Side) -> Condition,
        operand: impl Fn(&mut Self) -> Result<Option<Condition>, Fault>,
    ) -> Result<Option<Condition>, Fault> {
        let mut sides = vec![operand(self)?];
        while self.peek() == Some(sign) {
            self.at += 1;
            sides.push(operand(self)?);
            let is_missing = |side: Option<&Option<Condition>>| side.is_some_and(Option::is_none);
            if is_missing(sides.first())
                || is_missing(sides.last()) && matches!(self.peek(), Some(Token::And | Token::Or))
            {
                return Err(Fault::Invalid);
            }
        }
        let last = sides.pop().flatten();
        let joined =
            sides.into_iter().rev().fold(last, |right, left| Some(join(left.map(Box::new), right.map(Box::new))));
        Ok(joined)
    }

    fn comparison(&mut self) -> Result<Option<Condition>, Fault> {
        let left = self.operand()?;
        let Some(Token::Compare(comparison)) = self.peek().cloned() else { return Ok(left) };
        // Only texts can be compared, and only once.
        if !matches!(left, Some(Condition::Text(_))) {
            return Err(Fault::Invalid);
        }
        self.at += 1;
        let right = match (comparison, self.peek().cloned()) {
            (Comparison::Equal | Comparison::NotEqual, Some(Token::Regex(regex))) => {
                self.at += 1;
                Some(Condition::Regex(regex))
            }
            _ => self.operand()?,
        };
        let right = right.map(Box::new);
        match self.peek() {
            Some(Token::Compare(_)) => Err(Fault::Invalid),
            _ => Ok(Some(Condition::Compare(comparison, left.map(Box::new), right))),
        }
    }

    fn operand(&mut self) -> Result<Option<Condition>, Fault> {
        let Some(token) = self.peek().cloned() else { return Ok(None) };
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::Invalid);
        }
        let operand = match token {
            Token::Text(mut all) => {
                self.at += 1;
                while let Some(Token::Text(more)) = self.peek() {
                    if !all.is_empty() {
                        all.push(' ');
                    }
                    all.push_str(more);
                    self.at += 1;
                }
                Some(Condition::Text(all))
            }
            // A pattern is only valid after `=` and `!=`.
            Token::Regex(_) => return Err(Fault::Invalid),
            Token::Not => {
                self.at += 1;
                Some(Condition::Not(self.operand()?.map(Box::new)))
            }
            Token::Access => {
                self.at += 1;
                Some(Condition::Access(self.operand()?.map(Box::new)))
            }
            Token::Open => {
                self.at += 1;
                let inner = self.sequence()?;
                match self.peek() {
                    Some(Token::Close) => self.at += 1,
                    _ => return Err(Fault::Open),
                }
                Some(Condition::Group(inner.map(Box::new)))
            }
            Token::And | Token::Or | Token::Compare(_) | Token::Close => None,
        };
        self.depth -= 1;
        // Two operands in a row, without an operator.
        match (&operand, self.peek()) {
            (Some(_), Some(Token::Text(_) | Token::Regex(_) | Token::Not | Token::Open | Token::Access)) => {
                Err(Fault::Invalid)
            }
            _ => Ok(operand),
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut all = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let signs = [
            ("!=", Token::Compare(Comparison::NotEqual)),
            (">=", Token::Compare(Comparison::GreaterOrEqual)),
            ("<=", Token::Compare(Comparison::LessOrEqual)),
            ("||", Token::Or),
            ("&&", Token::And),
            ("(", Token::Open),
            (")", Token::Close),
            ("=", Token::Compare(Comparison::Equal)),
            ("!", Token::Not),
            (">", Token::Compare(Comparison::Greater)),
            ("<", Token::Compare(Comparison::Less)),
        ];
        if let Some((sign, token)) = signs.into_iter().find(|(sign, _)| rest.starts_with(sign)) {
            all.push(token);
            // `==` is `=`.
            rest = &rest[sign.len()..];
            if sign == "=" {
                rest = rest.strip_prefix('=').unwrap_or(rest);
            }
        } else if rest.starts_with("-A") && rest[2..].chars().next().is_none_or(|next| next.is_ascii_whitespace()) {
            all.push(Token::Access);
            rest = &rest[2..];
        } else if first == '\'' || first == '/' && all.last() != Some(&Token::Access) {
            let (value, length) = quoted(&rest[1..], first);
            all.push(if first == '/' { Token::Regex(value) } else { Token::Text(value) });
            rest = &rest[1 + length..];
        } else {
            let (value, length) = word(rest);
            all.push(Token::Text(value));
            rest = &rest[length..];
        }
        rest = rest.trim_start();
    }
    all
}

/// The text up to the closing quote; without one it is empty. A backslash escapes the next character.
fn quoted(text: &str, quote: char) -> (String, usize) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            char if char == quote => return (value, at + char.len_utf8()),
            char => value.push(char),
        }
    }
    (String::new(), text.len())
}

fn word(text: &str) -> (String, usize) {
    let mut value = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let is_double = matches!(char, '|' | '&') && chars.peek().is_some_and(|(_, next)| *next == char);
        let ends = char.is_ascii_whitespace() || "()=!<>".contains(char) || is_double;
        match char {
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            // The first character is always a part of it.
            _ if ends && at > 0 => return (value, at),
            char => value.push(char),
        }
    }
    (value, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(side: Option<&Condition>) -> String {
        let show = |side: &Side| shown(side.as_deref());
        match side {
            None => "?".into(),
            Some(Condition::Text(text)) => format!("'{text}'"),
            Some(Condition::Regex(regex)) => format!("/{regex}/"),
            Some(Condition::Not(inner)) => format!("!{}", show(inner)),
            Some(Condition::And(a, b)) => format!("and({},{})", show(a), show(b)),
            Some(Condition::Or(a, b)) => format!("or({},{})", show(a), show(b)),
            Some(Condition::Compare(how, a, b)) => format!("{how:?}({},{})", show(a), show(b)),
            Some(Condition::Group(inner)) => format!("[{}]", show(inner)),
            Some(Condition::Access(inner)) => format!("-A{}", show(inner)),
        }
    }

    #[test]
    fn conditions() {
        let cases = [
            ("", "?"),
            ("a  b 'c d'", "'a b c d'"),
            ("$a = b && $c", "and(Equal('$a','b'),'$c')"),
            ("a == b", "Equal('a','b')"),
            ("a || b && c || d", "or('a',or(and('b','c'),'d'))"),
            ("a ||", "or('a',?)"),
            ("$x = /^a\\/b/", "Equal('$x',/^a/b/)"),
            ("-A a/b", "-A'a/b'"),
            ("!(a >= b)", "![GreaterOrEqual('a','b')]"),
            ("a=b||!c", "or(Equal('a','b'),!'c')"),
            ("()", "[?]"),
            ("a = ", "Equal('a',?)"),
            ("-A /x", "-A'/x'"),
            ("x'y", "'x'y'"),
            ("'open", "''"),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text).map(|condition| shown(condition.as_ref())), Ok(want.to_string()), "{text}");
        }
        for (text, fault) in [
            ("&& a", Fault::Invalid),
            ("= a", Fault::Invalid),
            ("!a = b", Fault::Invalid),
            ("a = b = c", Fault::Invalid),
            ("(a) = b", Fault::Invalid),
            ("a && && b", Fault::Invalid),
            ("/a/", Fault::Invalid),
            ("a < /b/", Fault::Invalid),
            ("a (b)", Fault::Invalid),
            ("(a", Fault::Open),
            ("a)", Fault::Closed),
        ] {
            assert_eq!(parse(text), Err(fault), "{text}");
        }
        assert_eq!(parse(&"(".repeat(5000)), Err(Fault::Invalid));
    }
}
