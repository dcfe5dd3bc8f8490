//! The parser: turns tokens into a tree.
//!
//! Apache's messages come from a table-driven parser: they name the unexpected token and the tokens that would be
//! allowed instead, if there are at most four. At a point where a construct may end, that parser has already returned
//! to the enclosing one, so the message names only the tokens that may follow there. The lists here are those of
//! Apache's tables.

mod conditions;
mod words;

use std::fmt;
use std::ops::Range;

use super::lex::{self, Token, Tokens};
use super::names::UnaryOp;
use super::tree::{Condition, Expr, Options, StringExpr, Word};

/// How deep parentheses, functions and variables may nest.
const MAX_DEPTH: usize = 250;

/// Why an expression is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExprError {
    /// Apache's own message, without the directive's prefix.
    pub message: String,
    /// The bytes of the token at fault; empty at the end of the text.
    pub place: Range<usize>,
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExprError {}

impl Expr {
    /// Parses a condition.
    ///
    /// # Errors
    /// The text is not an expression.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        Self::parse_with(text, Options::default())
    }

    /// Parses a condition with the given options.
    ///
    /// # Errors
    /// The text is not an expression, or the options forbid a part of it.
    pub fn parse_with(text: &str, options: Options) -> Result<Self, ExprError> {
        condition(text, options).map(|root| Self { root })
    }

    /// Whether it may need the result of a subrequest.
    #[must_use]
    pub fn looks_up(&self) -> bool {
        self.root.looks_up()
    }
}

impl Condition {
    fn looks_up(&self) -> bool {
        match self {
            Condition::Not(inner) => inner.looks_up(),
            Condition::Any(parts) | Condition::All(parts) => parts.iter().any(Condition::looks_up),
            Condition::Unary(operator, _) => matches!(operator, UnaryOp::Access(_)),
            _ => false,
        }
    }
}

impl StringExpr {
    /// Parses a string.
    ///
    /// # Errors
    /// The text is not an expression.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        Self::parse_with(text, Options::default())
    }

    /// Parses a string with the given options.
    ///
    /// # Errors
    /// The text is not an expression, or the options forbid a part of it.
    pub fn parse_with(text: &str, options: Options) -> Result<Self, ExprError> {
        string(text, options).map(|root| Self { root })
    }

    /// The value, if it is the same for every request.
    #[must_use]
    pub fn constant(&self) -> Option<&str> {
        match &self.root {
            Word::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Parses a condition.
fn condition(text: &str, options: Options) -> Result<Condition, ExprError> {
    Parser::new(text, lex::condition(text), options).finish(|parser| {
        let condition = parser.any()?;
        parser.expect(&Token::End, &["$end"])?;
        Ok(condition)
    })
}

/// Parses a string.
fn string(text: &str, options: Options) -> Result<Word, ExprError> {
    Parser::new(text, lex::string(text), options)
        .finish(|parser| parser.parts(&Token::End, &["T_ERROR", "T_STRING"], &["$end"]))
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    /// The byte at which each token begins.
    places: Vec<usize>,
    /// The current token.
    at: usize,
    options: Options,
    depth: usize,
    /// An error outside the grammar, with the token at fault; the latest one counts.
    detail: Option<(usize, String)>,
}

/// Why parsing ends early.
enum Abort {
    /// With a message; the detail is appended.
    Message(String),
    /// The scanner failed at a point where the grammar allows an error token: the detail is the message.
    Scanner,
}

type Parsed<T> = Result<T, Abort>;

impl<'t> Parser<'t> {
    fn new(text: &'t str, Tokens { tokens, places }: Tokens, options: Options) -> Self {
        Self { text, tokens, places, at: 0, options, depth: 0, detail: None }
    }

    /// Parses the whole text, and composes the message of an error.
    fn finish<T>(mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Result<T, ExprError> {
        let (at, message) = match (parse(&mut self), self.detail.take()) {
            (Ok(tree), None) => return Ok(tree),
            (Err(Abort::Message(message)), None) => (self.at, message),
            (Err(Abort::Message(message)), Some((at, detail))) => (at, format!("{message}: {detail}")),
            (Ok(_) | Err(Abort::Scanner), detail) => detail.unwrap_or((self.at, String::new())),
        };
        Err(ExprError { message, place: self.place_of(at) })
    }

    /// The bytes of a token, without the white space behind.
    fn place_of(&self, at: usize) -> Range<usize> {
        let length = self.text.len();
        let begin = self.places.get(at).copied().unwrap_or(length);
        let end = self.places.get(at + 1).copied().unwrap_or(length);
        let token = self.text.get(begin..end).unwrap_or_default();
        begin..begin + token.trim_end().len()
    }

    /// The current token. Like Apache's scanner, reports a scanner error when the parser reads the token.
    fn peek(&mut self) -> &Token {
        let token = &mut self.tokens[self.at];
        if let Token::Error(message) = token
            && !message.is_empty()
        {
            self.detail = Some((self.at, std::mem::take(message)));
        }
        token
    }

    /// Goes on to the next token; the last one, `End` or `Error`, stays.
    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.advance();
        token
    }

    fn accept(&mut self, wanted: &Token) -> bool {
        let found = self.peek() == wanted;
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, wanted: &Token, expecting: &[&str]) -> Parsed<()> {
        if self.accept(wanted) { Ok(()) } else { Err(self.unexpected(expecting)) }
    }

    /// The message for a token that is not allowed here.
    fn unexpected(&mut self, expecting: &[&str]) -> Abort {
        let mut message = format!("syntax error, unexpected {}", self.peek().name());
        for (index, token) in expecting.iter().enumerate() {
            message += if index == 0 { ", expecting " } else { " or " };
            message += token;
        }
        Abort::Message(message)
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return Err(Abort::Message("memory exhausted".to_owned()));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }
}

/// A single element as it is, several as one node.
fn single<T>(mut nodes: Vec<T>, several: impl FnOnce(Vec<T>) -> T) -> T {
    match (nodes.len(), nodes.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            nodes.extend(last);
            several(nodes)
        }
    }
}
