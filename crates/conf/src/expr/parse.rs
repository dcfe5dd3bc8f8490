//! From tokens to a tree.
//!
//! Apache's messages are those of a table-driven parser: they name the unexpected token and, if there
//! are at most four, the tokens that could have stood there. Where a construct could end, the parser
//! has already gone back to what encloses it, so that only what may follow that is named. The lists
//! here are those of Apache's tables.

use super::lex::{self, Token};
use super::names::{self, Function, VariableKind};
use super::tree::{Condition, Expr, List, Options, StringExpr, Word};
use crate::ip::Subnet;
use crate::pattern::{Flags, Regex};

/// How deep parentheses, functions and variables may nest.
const MAX_DEPTH: usize = 250;

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
        condition(text, options).map(|root| Self { root })
    }
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
fn condition(text: &str, options: Options) -> Result<Condition, String> {
    Parser::new(lex::condition(text), options).finish(|parser| {
        let condition = parser.any()?;
        parser.expect(&Token::End, &["$end"])?;
        Ok(condition)
    })
}

/// Parses a string.
fn string(text: &str, options: Options) -> Result<Word, String> {
    Parser::new(lex::string(text), options)
        .finish(|parser| parser.parts(&Token::End, &["T_ERROR", "T_STRING"], &["$end"]))
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    options: Options,
    depth: usize,
    /// What is wrong apart from the grammar; the latest counts.
    detail: Option<String>,
}

/// Why parsing ends early.
enum Abort {
    /// With a message, to which the detail is added.
    Message(String),
    /// The scanner failed where the grammar allows for it: the detail is the message.
    Scanner,
}

type Parsed<T> = Result<T, Abort>;

impl Parser {
    fn new(tokens: Vec<Token>, options: Options) -> Self {
        Self { tokens, at: 0, options, depth: 0, detail: None }
    }

    /// Parses the whole text and puts the message together.
    fn finish<T>(mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Result<T, String> {
        match (parse(&mut self), self.detail) {
            (Ok(tree), None) => Ok(tree),
            (Err(Abort::Message(message)), None) => Err(message),
            (Err(Abort::Message(message)), Some(detail)) => Err(format!("{message}: {detail}")),
            (Ok(_) | Err(Abort::Scanner), detail) => Err(detail.unwrap_or_default()),
        }
    }

    /// The current token. Apache's scanner reports its error when the token is asked for.
    fn peek(&mut self) -> &Token {
        let token = &mut self.tokens[self.at];
        if let Token::Error(message) = token
            && !message.is_empty()
        {
            self.detail = Some(std::mem::take(message));
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

    /// The message for a token that cannot stand here.
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

    /// Conditions joined by `||`.
    fn any(&mut self) -> Parsed<Condition> {
        let mut conditions = vec![self.all()?];
        while self.accept(&Token::Or) {
            conditions.push(self.all()?);
        }
        Ok(single(conditions, Condition::Any))
    }

    /// Conditions joined by `&&`.
    fn all(&mut self) -> Parsed<Condition> {
        let mut conditions = vec![self.negation()?];
        while self.accept(&Token::And) {
            conditions.push(self.negation()?);
        }
        Ok(single(conditions, Condition::All))
    }

    fn negation(&mut self) -> Parsed<Condition> {
        let mut negated = false;
        while self.accept(&Token::Not) {
            negated = !negated;
        }
        let condition = self.condition()?;
        Ok(if negated { Condition::Not(Box::new(condition)) } else { condition })
    }

    fn condition(&mut self) -> Parsed<Condition> {
        match self.peek() {
            Token::True | Token::False => Ok(Condition::Constant(self.next() == Token::True)),
            Token::Error(_) => Err(Abort::Scanner),
            Token::Unary(_) => self.unary(),
            Token::Sign('(') => {
                self.advance();
                let condition = self.nested(Self::any)?;
                let close = Token::Sign(')');
                self.expect(&close, &["T_OP_OR", "T_OP_AND", "')'"])?;
                Ok(condition)
            }
            _ => self.comparison(),
        }
    }

    /// A condition that begins with a word.
    fn comparison(&mut self) -> Parsed<Condition> {
        let left = self.word()?;
        Ok(match self.peek().clone() {
            Token::Binary(name) => {
                self.advance();
                let (right, constant) = self.operand()?;
                self.binary(&name, left, right, constant)
            }
            Token::Numeric(comparison) | Token::Textual(comparison) if self.options.ssl_require => {
                self.advance();
                Condition::CompareBySize(comparison, left, self.word()?)
            }
            Token::Numeric(comparison) => {
                self.advance();
                Condition::CompareNumbers(comparison, left, self.word()?)
            }
            Token::Textual(comparison) => {
                self.advance();
                Condition::CompareText(comparison, left, self.word()?)
            }
            operator @ (Token::Match | Token::NoMatch) => {
                self.advance();
                Condition::Regex { subject: left, regex: Box::new(self.regex()?), negated: operator == Token::NoMatch }
            }
            Token::In => {
                self.advance();
                Condition::In(left, self.list()?)
            }
            _ => return Err(self.unexpected(&[])),
        })
    }

    /// A word, and whether it is one quoted text without anything variable.
    fn operand(&mut self) -> Parsed<(Word, bool)> {
        let quoted = *self.peek() == Token::StringBegin;
        let word = self.word()?;
        let constant = quoted && matches!(word, Word::Text(_));
        Ok((word, constant))
    }

    fn unary(&mut self) -> Parsed<Condition> {
        let Token::Unary(name) = self.next() else {
            return Err(self.unexpected(&[]));
        };
        let (word, constant) = self.operand()?;
        if name == "R" {
            let subnet = self.subnet(&name, &word, constant);
            return Ok(subnet.map_or(Condition::Constant(false), Condition::ClientIn));
        }
        let Some(operator) = names::unary(&name) else {
            self.detail = Some(format!("Unary operator '-{name}' does not exist"));
            return Ok(Condition::Constant(false));
        };
        Ok(Condition::Unary(operator, word))
    }

    fn binary(&mut self, name: &str, left: Word, right: Word, constant: bool) -> Condition {
        if name.eq_ignore_ascii_case("ipmatch") {
            return match self.subnet(name, &right, constant) {
                Some(subnet) => Condition::AddressIn(left, subnet),
                None => Condition::Constant(false),
            };
        }
        match names::wildcard(name) {
            Some(flags) => Condition::Wildcard(left, right, flags),
            None => {
                self.detail = Some(format!("Binary operator '-{name}' does not exist"));
                Condition::Constant(false)
            }
        }
    }

    /// The network that `-R` and `-ipmatch` compare with.
    fn subnet(&mut self, name: &str, word: &Word, constant: bool) -> Option<Subnet> {
        let Word::Text(text) = word else {
            self.detail = Some(not_constant(name));
            return None;
        };
        if !constant {
            self.detail = Some(not_constant(name));
            return None;
        }
        let subnet = Subnet::parse(text).ok();
        if subnet.is_none() {
            self.detail = Some("parsing of subnet/netmask failed".to_owned());
        }
        subnet
    }

    fn regex(&mut self) -> Parsed<Regex> {
        let Token::Regex { pattern, ignore_case } = self.peek().clone() else {
            return Err(self.unexpected(&["T_REGEX", "T_REGEX_I"]));
        };
        self.advance();
        let flags = Flags { ignore_case, ..Flags::default() };
        Regex::new(&pattern, flags).map_err(|_| Abort::Message("Failed to compile regular expression".to_owned()))
    }

    /// What follows `in`.
    fn list(&mut self) -> Parsed<List> {
        match self.peek().clone() {
            Token::Sign('{') => {
                self.advance();
                let mut words = vec![self.word()?];
                while self.accept(&Token::Sign(',')) {
                    words.push(self.word()?);
                }
                self.expect(&Token::Sign('}'), &["'}'", "','"])?;
                Ok(List::Words(words))
            }
            Token::Id(name) => {
                self.advance();
                let argument = self.parenthesized_word()?;
                if !(self.options.ssl && name.eq_ignore_ascii_case("PeerExtList")) {
                    self.detail = Some(format!("List-returning function '{name}' does not exist"));
                }
                Ok(List::PeerExtensions(argument))
            }
            _ => Err(self.unexpected(&["T_ID", "'{'"])),
        }
    }

    /// Parts joined by the `.` operator.
    fn word(&mut self) -> Parsed<Word> {
        let mut parts = vec![self.part()?];
        while self.accept(&Token::Concat) {
            parts.push(self.part()?);
        }
        Ok(single(parts, Word::Concat))
    }

    fn part(&mut self) -> Parsed<Word> {
        match self.peek().clone() {
            Token::Digit(number) => {
                self.advance();
                Ok(Word::Text(number.into()))
            }
            Token::BackReference(group) => {
                self.advance();
                Ok(Word::BackReference(group))
            }
            Token::StringBegin => {
                self.advance();
                if self.accept(&Token::StringEnd) {
                    return Ok(Word::Text("".into()));
                }
                let more = ["T_STRING", "T_REGEX_BACKREF", "T_STR_END", "T_VAR_BEGIN"];
                self.parts(&Token::StringEnd, &[], &more)
            }
            Token::VariableBegin => {
                self.advance();
                self.nested(Self::variable)
            }
            Token::Id(name) => {
                self.advance();
                let argument = self.parenthesized_word()?;
                Ok(self.call(&name, argument))
            }
            _ => Err(self.unexpected(&[])),
        }
    }

    /// The argument of a function.
    fn parenthesized_word(&mut self) -> Parsed<Word> {
        self.expect(&Token::Sign('('), &["'('"])?;
        let word = self.nested(Self::word)?;
        self.expect(&Token::Sign(')'), &["T_OP_CONCAT", "')'"])?;
        Ok(word)
    }

    /// The inside of a string up to `end`; `none` and `more` are what is expected before and after
    /// the first part of it.
    fn parts(&mut self, end: &Token, none: &[&str], more: &[&str]) -> Parsed<Word> {
        let mut parts = Vec::new();
        loop {
            let part = match self.peek().clone() {
                Token::Text(text) => {
                    self.advance();
                    Word::Text(text.into())
                }
                Token::BackReference(group) => {
                    self.advance();
                    Word::BackReference(group)
                }
                Token::VariableBegin => {
                    self.advance();
                    self.nested(Self::variable)?
                }
                Token::Error(_) if parts.is_empty() => return Err(Abort::Scanner),
                _ if parts.is_empty() => return Err(self.unexpected(none)),
                token if token == *end => {
                    self.advance();
                    break;
                }
                _ => return Err(self.unexpected(more)),
            };
            parts.push(part);
        }
        if parts.len() > 1 {
            parts.retain(|part| !matches!(part, Word::Text(text) if text.is_empty()));
        }
        Ok(single(parts, Word::Concat))
    }

    /// What follows `%{`.
    fn variable(&mut self) -> Parsed<Word> {
        let Token::Id(name) = self.peek().clone() else {
            return Err(self.unexpected(&["T_ID"]));
        };
        self.advance();
        match self.peek() {
            Token::VariableEnd => {
                self.advance();
                Ok(self.variable_named(&name))
            }
            Token::Sign(':') => {
                self.advance();
                let none = ["T_ERROR", "T_STRING", "T_REGEX_BACKREF", "T_VAR_BEGIN"];
                let more = ["T_STRING", "T_REGEX_BACKREF", "T_VAR_BEGIN", "T_VAR_END"];
                let argument = self.parts(&Token::VariableEnd, &none, &more)?;
                Ok(self.call(&name, argument))
            }
            _ => Err(self.unexpected(&["T_VAR_END", "':'"])),
        }
    }

    fn variable_named(&mut self, name: &str) -> Word {
        match names::variable(name) {
            Some(VariableKind::Known(variable)) => Word::Variable(variable),
            Some(VariableKind::RequestHeader(header)) => Word::RequestHeader(header),
            None if self.options.ssl && names::is_ssl(name) => Word::Ssl(name.into()),
            None => {
                self.detail = Some(format!("Variable '{name}' does not exist"));
                Word::Concat(Vec::new())
            }
        }
    }

    fn call(&mut self, name: &str, argument: Word) -> Word {
        let Some(function) = names::function(name) else {
            self.detail = Some(format!("Function '{name}' does not exist"));
            return argument;
        };
        let restricted = match function {
            Function::File => Some("file"),
            Function::FileSize => Some("filesize"),
            _ => None,
        };
        if let Some(name) = restricted.filter(|_| self.options.restricted) {
            self.detail = Some(format!("{name} not available in restricted context"));
        }
        Word::Call(function, Box::new(argument))
    }
}

/// The only element as it is, several as one node.
fn single<T>(mut nodes: Vec<T>, several: impl FnOnce(Vec<T>) -> T) -> T {
    match (nodes.len(), nodes.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            nodes.extend(last);
            several(nodes)
        }
    }
}

fn not_constant(operator: &str) -> String {
    format!("-{operator} requires subnet/netmask as constant argument")
}
