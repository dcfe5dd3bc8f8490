//! Parses words: texts, variables, functions, and combinations of them.

use super::{Abort, Parsed, Parser, single};
use crate::expr::lex::Token;
use crate::expr::names::{self, Function, VariableKind};
use crate::expr::tree::Word;

impl Parser<'_> {
    /// Parts joined by the `.` operator.
    pub(super) fn word(&mut self) -> Parsed<Word> {
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
                let at = self.at;
                self.advance();
                let argument = self.parenthesized_word()?;
                Ok(self.call(at, &name, argument))
            }
            _ => Err(self.unexpected(&[])),
        }
    }

    /// The argument of a function.
    pub(super) fn parenthesized_word(&mut self) -> Parsed<Word> {
        self.expect(&Token::Sign('('), &["'('"])?;
        let word = self.nested(Self::word)?;
        self.expect(&Token::Sign(')'), &["T_OP_CONCAT", "')'"])?;
        Ok(word)
    }

    /// The inside of a string up to `end`; `none` and `more` are the tokens expected before and after its first part.
    pub(super) fn parts(&mut self, end: &Token, none: &[&str], more: &[&str]) -> Parsed<Word> {
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

    /// The variable or function after `%{`.
    fn variable(&mut self) -> Parsed<Word> {
        let Token::Id(name) = self.peek().clone() else {
            return Err(self.unexpected(&["T_ID"]));
        };
        let at = self.at;
        self.advance();
        match self.peek() {
            Token::VariableEnd => {
                self.advance();
                Ok(self.variable_named(at, &name))
            }
            Token::Sign(':') => {
                self.advance();
                let none = ["T_ERROR", "T_STRING", "T_REGEX_BACKREF", "T_VAR_BEGIN"];
                let more = ["T_STRING", "T_REGEX_BACKREF", "T_VAR_BEGIN", "T_VAR_END"];
                let argument = self.parts(&Token::VariableEnd, &none, &more)?;
                Ok(self.call(at, &name, argument))
            }
            _ => Err(self.unexpected(&["T_VAR_END", "':'"])),
        }
    }

    /// The variable `name`, which is the token `at`.
    fn variable_named(&mut self, at: usize, name: &str) -> Word {
        match names::variable(name) {
            Some(VariableKind::Known(variable)) => Word::Variable(variable),
            Some(VariableKind::RequestHeader(header)) => Word::RequestHeader(header),
            None if self.options.ssl && names::is_ssl(name) => Word::Ssl(name.into()),
            None => {
                self.detail = Some((at, format!("Variable '{name}' does not exist")));
                Word::Concat(Vec::new())
            }
        }
    }

    /// A call of the function `name`, which is the token `at`.
    fn call(&mut self, at: usize, name: &str, argument: Word) -> Word {
        let of_page = self.options.page && name.eq_ignore_ascii_case("v");
        let of_health = self.options.health && name.eq_ignore_ascii_case("hc");
        let known = names::function(name).or(of_page.then_some(Function::ReqEnv));
        let Some(function) = known.or(of_health.then_some(Function::Note)) else {
            self.detail = Some((at, format!("Function '{name}' does not exist")));
            return argument;
        };
        let restricted = match function {
            Function::File => Some("file"),
            Function::FileSize => Some("filesize"),
            _ => None,
        };
        if let Some(name) = restricted.filter(|_| self.options.restricted) {
            self.detail = Some((at, format!("{name} not available in restricted context")));
        }
        Word::Call(function, Box::new(argument))
    }
}
