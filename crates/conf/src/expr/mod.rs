//! Expressions: the conditions of `<If>`, `Require expr`, `Header ... expr=` and the strings of
//! `ErrorDocument`, `SetHandler` or `Header set X "expr=..."`.
//!
//! An expression is parsed once, when the configuration is read; names of variables and functions,
//! networks and regular expressions are resolved then. At request time it is walked with an
//! [`Eval`], asking a [`Subject`] for what only the server knows.
//!
//! Source: Apache manual, "Expressions in Apache HTTP Server" (expr); doubtful cases and all error
//! texts measured on 2.4.71.

mod eval;
mod lex;
mod names;
mod parse;
mod text;

pub use self::eval::{Eval, EvalError, FileError, MAX_FILE_SIZE, Subject};
pub use self::names::{Access, FileTest, Variable};

use self::names::{Function, UnaryOp};
use crate::fnmatch;
use crate::ip::Subnet;
use crate::pattern::Regex;

/// What an expression may use, which depends on where it stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// No `file()` and `filesize()`: `.htaccess` and server-side includes. Tests like `-f` remain.
    pub restricted: bool,
    /// Compare as `SSLRequire` does: the longer string is the greater one, and `-eq` is a string
    /// comparison too.
    pub ssl_require: bool,
    /// mod_ssl is there: its `SSL_*` variables and `PeerExtList(...)` exist.
    pub ssl: bool,
}

/// A condition: true or false.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    root: Condition,
}

impl Expr {
    /// Parses a condition.
    ///
    /// # Errors
    /// Apache's own message, without the directive's words in front.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_with(text, Options::default())
    }

    /// Parses a condition for a place that allows more or less than usual.
    ///
    /// # Errors
    /// Apache's own message, without the directive's words in front.
    pub fn parse_with(text: &str, options: Options) -> Result<Self, String> {
        parse::condition(text, options).map(|root| Self { root })
    }
}

/// A string with variables in it.
#[derive(Debug, Clone, PartialEq)]
pub struct StringExpr {
    root: Word,
}

impl StringExpr {
    /// Parses a string.
    ///
    /// # Errors
    /// Apache's own message, without the directive's words in front.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_with(text, Options::default())
    }

    /// Parses a string for a place that allows more or less than usual.
    ///
    /// # Errors
    /// Apache's own message, without the directive's words in front.
    pub fn parse_with(text: &str, options: Options) -> Result<Self, String> {
        parse::string(text, options).map(|root| Self { root })
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

/// A node that is true or false.
#[derive(Debug, Clone, PartialEq)]
enum Condition {
    Constant(bool),
    Not(Box<Condition>),
    Any(Vec<Condition>),
    All(Vec<Condition>),
    /// `==`, `<` and so on: byte by byte.
    CompareText(Comparison, Word, Word),
    /// `-eq`, `-lt` and so on: as integers.
    CompareNumbers(Comparison, Word, Word),
    /// Any comparison of `SSLRequire`: by length, then byte by byte.
    CompareBySize(Comparison, Word, Word),
    Regex {
        subject: Word,
        regex: Box<Regex>,
        negated: bool,
    },
    In(Word, List),
    Unary(UnaryOp, Word),
    /// `-R`: the client's address.
    ClientIn(Subnet),
    /// `-ipmatch`.
    AddressIn(Word, Subnet),
    /// `-strmatch`, `-strcmatch`, `-fnmatch`: text, then pattern.
    Wildcard(Word, Word, fnmatch::Flags),
}

/// What `in` looks through.
#[derive(Debug, Clone, PartialEq)]
enum List {
    Words(Vec<Word>),
    /// mod_ssl's `PeerExtList(oid)`.
    PeerExtensions(Word),
}

/// A node that has a string as its value.
#[derive(Debug, Clone, PartialEq)]
enum Word {
    Text(Box<str>),
    Variable(Variable),
    /// `%{HTTP_USER_AGENT}` and the like: a header of the request, by its name.
    RequestHeader(&'static str),
    /// `%{SSL_...}`, by its name.
    Ssl(Box<str>),
    BackReference(u8),
    Call(Function, Box<Word>),
    Concat(Vec<Word>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[cfg(test)]
mod tests;
