//! Scans the inside of strings and variables.

use super::{Lexer, MAX_TEXT, State, Step, Token, UNTERMINATED, is_word, run, second_digit};

impl Lexer<'_> {
    /// Scans text between quotes up to the next variable, back reference or end.
    pub(super) fn string(&mut self, quote: Option<char>) -> Step {
        let text = self.text(|c| Some(c) == quote)?;
        let at_end = self.rest.is_empty();
        if at_end && quote.is_some() {
            return Err(UNTERMINATED.to_owned());
        }
        if at_end || !text.is_empty() {
            self.tokens.push(Token::Text(text));
        }
        match quote {
            None if at_end => {
                self.states.pop();
                Ok(())
            }
            Some(quote) if self.rest.starts_with(quote) => {
                self.take(1);
                self.states.pop();
                self.push(Token::StringEnd)
            }
            _ => self.interpolation(),
        }
    }

    /// Scans the argument in `%{function:argument}`.
    pub(super) fn argument(&mut self) -> Step {
        let text = self.text(|c| c == '}')?;
        if self.rest.is_empty() {
            return Err(UNTERMINATED.to_owned());
        }
        if !text.is_empty() {
            self.tokens.push(Token::Text(text));
        }
        if self.eat("}") {
            self.states.pop();
            return self.push(Token::VariableEnd);
        }
        self.interpolation()
    }

    fn interpolation(&mut self) -> Step {
        if self.eat("%{") {
            self.states.push(State::Variable);
            return self.push(Token::VariableBegin);
        }
        self.back_reference()
    }

    /// Takes plain text up to `%{`, a back reference, the end, or a character that `stop` accepts.
    fn text(&mut self, stop: impl Fn(char) -> bool) -> Result<String, String> {
        let mut text = String::new();
        while let Some(c) = self.rest.chars().next() {
            let special = self.rest.starts_with("%{") || (c == '$' && second_digit(self.rest).is_some());
            if special || stop(c) {
                break;
            }
            self.take(c.len_utf8());
            match c {
                '\n' => return Err(UNTERMINATED.to_owned()),
                '\\' => text.push(self.escape()?),
                c => text.push(c),
            }
            if text.len() >= MAX_TEXT {
                return Err("String too long".to_owned());
            }
        }
        Ok(text)
    }

    /// Takes the escape after a backslash in a string.
    fn escape(&mut self) -> Result<char, String> {
        let digits = run(self.rest, |b| b.is_ascii_digit());
        if digits > 0 {
            let octal = run(self.rest, |b| b.is_ascii_digit() && b < b'8').min(3);
            if octal < digits {
                return Err("Bad escape sequence".to_owned());
            }
            let code = u32::from_str_radix(self.take(octal), 8).unwrap_or(u32::MAX);
            return u8::try_from(code).map(char::from).map_err(|_| "Escape sequence out of bound".to_owned());
        }
        let c = self.rest.chars().next().ok_or(UNTERMINATED)?;
        self.take(c.len_utf8());
        Ok(match c {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\x08',
            'f' => '\x0c',
            c => c,
        })
    }

    /// Scans the name in `%{name}` and the character that ends it.
    pub(super) fn variable(&mut self) -> Step {
        let c = self.rest.chars().next().ok_or(UNTERMINATED)?;
        match c {
            'a'..='z' | 'A'..='Z' => {
                let name = self.take(run(self.rest, is_word)).to_owned();
                self.push(Token::Id(name))
            }
            '}' => {
                self.take(1);
                self.states.pop();
                self.push(Token::VariableEnd)
            }
            ':' => {
                self.take(1);
                self.states.pop();
                self.states.push(State::Argument);
                self.push(Token::Sign(':'))
            }
            '\n' => Err(UNTERMINATED.to_owned()),
            c => Err(format!("Invalid character in variable name '{c}'")),
        }
    }
}
