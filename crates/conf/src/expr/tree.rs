//! The tree of a parsed expression.

use super::names::{Function, UnaryOp, Variable};
use crate::fnmatch;
use crate::ip::Subnet;
use crate::pattern::Regex;

/// The features that an expression may use; they depend on its context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// No `file()` and `filesize()`: `.htaccess` and server-side includes. Tests like `-f` remain in `.htaccess`.
    pub restricted: bool,
    /// Compare as `SSLRequire` does: the longer string is the greater one, and `-eq` is a string
    /// comparison too.
    pub ssl_require: bool,
    /// The expression is in a page with server-side includes, where `v(...)` is a variable of the page, and there
    /// are no tests of files (`-f`): whoever writes the page need not see them.
    pub page: bool,
    /// mod_ssl is loaded, so its `SSL_*` variables and `PeerExtList(...)` exist.
    pub ssl: bool,
    /// mod_proxy_hcheck is loaded, so `hc('body')` is the body of the response that it examines.
    pub health: bool,
}

/// A condition: true or false.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    pub(super) root: Condition,
}

/// A string with variables in it.
#[derive(Debug, Clone, PartialEq)]
pub struct StringExpr {
    pub(super) root: Word,
}

/// A node that is true or false.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
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

/// The list on the right of `in`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum List {
    Words(Vec<Word>),
    /// mod_ssl's `PeerExtList(oid)`.
    PeerExtensions(Word),
}

/// A node whose value is a string.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word {
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
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
