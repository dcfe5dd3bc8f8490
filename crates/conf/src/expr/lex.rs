//! The scanner: turns text into tokens.
//!
//! Strings, variables and regular expressions have their own rules, so the scanner keeps a stack of states. It runs to
//! the end or to the first error; an error is a token too, because the grammar decides what the message looks like.

mod strings;
mod token;

use super::tree::Comparison;

pub(super) use token::Token;

/// The longest run of plain text in a string, and the longest regular expression.
const MAX_TEXT: usize = 8192;

/// Tokens; the last one is `End` or `Error`.
pub(super) struct Tokens {
    pub(super) tokens: Vec<Token>,
    /// The byte at which each token begins.
    pub(super) places: Vec<usize>,
}

/// The tokens of a condition.
pub(super) fn condition(text: &str) -> Tokens {
    Lexer::new(text, vec![State::Expression]).run()
}

/// The tokens of a string, as if it were between quotes.
pub(super) fn string(text: &str) -> Tokens {
    Lexer::new(text, vec![State::Expression, State::String(None)]).run()
}

/// A state of the scanner: the construct that it is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Expression,
    /// Between quotes of this kind; `None` if the whole text is the string.
    String(Option<char>),
    /// After `%{`.
    Variable,
    /// After the colon in `%{name:`.
    Argument,
}

struct Lexer<'t> {
    rest: &'t str,
    states: Vec<State>,
    tokens: Vec<Token>,
    /// The length of the whole text.
    length: usize,
    /// Where the tokens begin.
    places: Vec<usize>,
}

/// The result of a step. An error stops the scanner: it is the message for the error token.
type Step = Result<(), String>;

const UNTERMINATED: &str = "Unterminated string or variable";

impl<'t> Lexer<'t> {
    fn new(rest: &'t str, states: Vec<State>) -> Self {
        Self { rest, states, tokens: Vec::new(), length: rest.len(), places: Vec::new() }
    }

    fn run(mut self) -> Tokens {
        let last = self.scan();
        self.tokens.push(last);
        let end = self.length - self.rest.trim_start().len();
        self.places.resize(self.tokens.len(), end);
        Tokens { tokens: self.tokens, places: self.places }
    }

    /// Scans to the end or to the first error, and returns the last token.
    fn scan(&mut self) -> Token {
        loop {
            let begin = self.length - self.rest.len();
            let step = match self.states.last() {
                Some(State::String(quote)) => self.string(*quote),
                Some(State::Argument) => self.argument(),
                Some(State::Variable) => self.variable(),
                Some(State::Expression) | None if self.rest.is_empty() => break Token::End,
                Some(State::Expression) | None => self.expression(),
            };
            self.places.resize(self.tokens.len(), begin);
            if let Err(message) = step {
                break Token::Error(message);
            }
        }
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes `length` bytes, which the caller has already checked.
    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn push(&mut self, token: Token) -> Step {
        self.tokens.push(token);
        Ok(())
    }

    /// Scans one token outside strings and variables.
    fn expression(&mut self) -> Step {
        let Some(c) = self.rest.chars().next() else {
            return Ok(());
        };
        match c {
            ' ' | '\t' | '\n' => {
                self.take(1);
                Ok(())
            }
            '"' | '\'' => {
                self.take(1);
                self.states.push(State::String(Some(c)));
                self.push(Token::StringBegin)
            }
            '%' if self.eat("%{") => {
                self.states.push(State::Variable);
                self.push(Token::VariableBegin)
            }
            '$' if second_digit(self.rest).is_some() => self.back_reference(),
            '/' => self.regex(1),
            '0'..='9' => {
                let digits = self.take(run(self.rest, |b| b.is_ascii_digit()));
                self.push(Token::Digit(digits.to_owned()))
            }
            'a'..='z' | 'A'..='Z' => self.word(),
            '-' => self.minus(),
            _ => self.sign(c),
        }
    }

    /// Scans an identifier, a keyword, or the `m` that begins a regular expression.
    fn word(&mut self) -> Step {
        let length = run(self.rest, is_word);
        let separator = self.rest.strip_prefix('m').and_then(|r| r.chars().next());
        let is_regex = separator.is_some_and(|c| "/#$%^,;:_?|-!.'\"".contains(c));
        if is_regex && length <= 2 {
            return self.regex(2);
        }
        let token = match self.take(length) {
            "true" => Token::True,
            "false" => Token::False,
            "and" => Token::And,
            "or" => Token::Or,
            "not" => Token::Not,
            "in" => Token::In,
            name => match comparison(name) {
                Some(comparison) => Token::Numeric(comparison),
                None => Token::Id(name.to_owned()),
            },
        };
        self.push(token)
    }

    /// Scans a token that begins with a minus sign: a number or an operator.
    fn minus(&mut self) -> Step {
        let after = &self.rest[1..];
        let digits = run(after, |b| b.is_ascii_digit());
        if digits > 0 {
            let number = self.take(1 + digits).to_owned();
            return self.push(Token::Digit(number));
        }
        let length = run(after, is_word);
        if length == 0 {
            return Err(near('-'));
        }
        let name = &self.take(1 + length)[1..];
        let token = match (name, comparison(name)) {
            ("in", _) => Token::In,
            (_, Some(comparison)) => Token::Numeric(comparison),
            _ if length == 1 => Token::Unary(name.to_owned()),
            _ => Token::Binary(name.to_owned()),
        };
        self.push(token)
    }

    fn sign(&mut self, c: char) -> Step {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        const SIGNS: [(&str, Token); 13] = [
            ("==", Token::Textual(Equal)),
            ("=~", Token::Match),
            ("=", Token::Textual(Equal)),
            ("!=", Token::Textual(NotEqual)),
            ("!~", Token::NoMatch),
            ("!", Token::Not),
            ("<=", Token::Textual(LessOrEqual)),
            ("<", Token::Textual(Less)),
            (">=", Token::Textual(GreaterOrEqual)),
            (">", Token::Textual(Greater)),
            ("&&", Token::And),
            ("||", Token::Or),
            (".", Token::Concat),
        ];
        if let Some((_, token)) = SIGNS.iter().find(|(sign, _)| self.eat(sign)) {
            return self.push(token.clone());
        }
        if matches!(c, '(' | ')' | '{' | '}' | ',' | ':') {
            self.take(1);
            return self.push(Token::Sign(c));
        }
        Err(near(c))
    }

    /// Scans a regular expression after an opening of `opening` bytes; the last of them is also the closing delimiter.
    ///
    /// The delimiter cannot be escaped. Without one, the expression ends with the text.
    fn regex(&mut self, opening: usize) -> Step {
        let delimiter = &self.take(opening)[opening - 1..];
        let Some((pattern, rest)) = self.rest.split_once(delimiter) else {
            self.rest = "";
            return Ok(());
        };
        if pattern.len() >= MAX_TEXT {
            return Err("Regexp too long".to_owned());
        }
        self.rest = rest;
        let ignore_case = self.eat("i");
        self.push(Token::Regex { pattern: pattern.to_owned(), ignore_case })
    }

    fn back_reference(&mut self) -> Step {
        let digit = second_digit(self.rest).unwrap_or_default();
        self.take(2);
        self.push(Token::BackReference(digit))
    }
}

/// The operator `eq`, `ne` and so on, with or without a leading minus sign.
fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        "eq" => Comparison::Equal,
        "ne" => Comparison::NotEqual,
        "lt" => Comparison::Less,
        "le" => Comparison::LessOrEqual,
        "gt" => Comparison::Greater,
        "ge" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn near(c: char) -> String {
    format!("Parse error near '{c}'")
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of the run of wanted bytes at the start of `text`.
fn run(text: &str, wanted: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|b| wanted(*b)).count()
}

/// The digit in `$3`.
fn second_digit(text: &str) -> Option<u8> {
    let digit = text.as_bytes().get(1).filter(|b| b.is_ascii_digit())?;
    Some(digit - b'0')
}
