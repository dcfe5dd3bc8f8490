//! Parses conditions: joined, negated and compared ones.

use super::{Abort, Parsed, Parser, single};
use crate::expr::lex::Token;
use crate::expr::names::{self, UnaryOp};
use crate::expr::tree::{Condition, List, Word};
use crate::ip::Subnet;
use crate::pattern::{Flags, Regex};

impl Parser<'_> {
    /// Conditions joined by `||`.
    pub(super) fn any(&mut self) -> Parsed<Condition> {
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
                let at = self.at;
                self.advance();
                let (right, constant) = self.operand()?;
                self.binary(at, &name, left, right, constant)
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

    /// A word, and whether it is a single quoted text without variables.
    fn operand(&mut self) -> Parsed<(Word, bool)> {
        let quoted = *self.peek() == Token::StringBegin;
        let word = self.word()?;
        let constant = quoted && matches!(word, Word::Text(_));
        Ok((word, constant))
    }

    fn unary(&mut self) -> Parsed<Condition> {
        let at = self.at;
        let Token::Unary(name) = self.next() else {
            return Err(self.unexpected(&[]));
        };
        let (word, constant) = self.operand()?;
        if name == "R" {
            let subnet = self.subnet(at, &name, &word, constant);
            return Ok(subnet.map_or(Condition::Constant(false), Condition::ClientIn));
        }
        let Some(operator) = names::unary(&name) else {
            self.detail = Some((at, format!("Unary operator '-{name}' does not exist")));
            return Ok(Condition::Constant(false));
        };
        if let (UnaryOp::File(_), true) = (operator, self.options.page) {
            self.detail = Some((at, format!("-{name} not available in restricted context")));
        }
        Ok(Condition::Unary(operator, word))
    }

    /// A comparison by the operator `name`, which is the token `at`.
    fn binary(&mut self, at: usize, name: &str, left: Word, right: Word, constant: bool) -> Condition {
        if name.eq_ignore_ascii_case("ipmatch") {
            return match self.subnet(at, name, &right, constant) {
                Some(subnet) => Condition::AddressIn(left, subnet),
                None => Condition::Constant(false),
            };
        }
        match names::wildcard(name) {
            Some(flags) => Condition::Wildcard(left, right, flags),
            None => {
                self.detail = Some((at, format!("Binary operator '-{name}' does not exist")));
                Condition::Constant(false)
            }
        }
    }

    /// The network that `-R` or `-ipmatch`, the token `at`, compares with.
    fn subnet(&mut self, at: usize, name: &str, word: &Word, constant: bool) -> Option<Subnet> {
        let subnet = match word {
            Word::Text(text) if constant => {
                Subnet::parse(text).map_err(|_| "parsing of subnet/netmask failed".to_owned())
            }
            _ => Err(format!("-{name} requires subnet/netmask as constant argument")),
        };
        subnet.map_err(|message| self.detail = Some((at, message))).ok()
    }

    fn regex(&mut self) -> Parsed<Regex> {
        let Token::Regex { pattern, ignore_case } = self.peek().clone() else {
            return Err(self.unexpected(&["T_REGEX", "T_REGEX_I"]));
        };
        let flags = Flags { ignore_case, ..Flags::default() };
        let regex = Regex::new(&pattern, flags);
        let regex = regex.map_err(|_| Abort::Message("Failed to compile regular expression".to_owned()))?;
        self.advance();
        Ok(regex)
    }

    /// The list after `in`.
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
                let at = self.at;
                self.advance();
                let argument = self.parenthesized_word()?;
                if !(self.options.ssl && name.eq_ignore_ascii_case("PeerExtList")) {
                    self.detail = Some((at, format!("List-returning function '{name}' does not exist")));
                }
                Ok(List::PeerExtensions(argument))
            }
            _ => Err(self.unexpected(&["T_ID", "'{'"])),
        }
    }
}
