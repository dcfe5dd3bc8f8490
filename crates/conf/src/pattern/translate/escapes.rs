//! What follows a backslash: characters, sets, references, quotations.

use super::{Translator, character, code_point, count_groups, unknown_escape};
use crate::pattern::flags::PatternError;

/// What an escape inside or outside a class stands for.
pub(super) enum Escape {
    /// One character.
    Char(char),
    /// A set, spelled for use inside and outside brackets alike.
    Set(String),
    /// Something that has a meaning outside of classes only.
    Other(char),
}

impl Translator<'_> {
    /// What follows a backslash outside of a class.
    pub(super) fn escape(&mut self) -> Result<(), PatternError> {
        if self.peek().is_some_and(|c| ('1'..='9').contains(&c)) {
            return self.number();
        }
        match self.escaped()? {
            Escape::Char(c) => self.literal(c),
            Escape::Set(set) => self.out.push_str(&set),
            Escape::Other(c) => match c {
                'Q' => {
                    let quoted = match self.rest.split_once(r"\E") {
                        Some((quoted, rest)) => {
                            self.rest = rest;
                            quoted
                        }
                        None => std::mem::take(&mut self.rest),
                    };
                    quoted.chars().for_each(|c| self.literal(c));
                }
                'E' => {}
                'Z' => self.out.push_str(r"(?=\n?\z)"),
                'R' => self.out.push_str(r"(?>\r\n|[\n-\r])"),
                'N' => self.out.push_str(r"[^\n]"),
                'A' | 'z' | 'b' | 'B' | 'G' | 'K' => self.out.extend(['\\', c]),
                'g' | 'k' => self.reference(c)?,
                c => return Err(unknown_escape(c)),
            },
        }
        Ok(())
    }

    /// `\1` is a reference, `\12` too if there are twelve groups, else it is octal.
    fn number(&mut self) -> Result<(), PatternError> {
        let before = self.rest;
        let digits = self.digits(10, 9);
        let number: usize = digits.parse().unwrap_or(usize::MAX);
        if number < 10 || number <= self.groups {
            return self.group_reference(number);
        }
        self.rest = before;
        let octal = self.digits(8, 3);
        let code = u32::from_str_radix(octal, 8).map_err(|_| unknown_escape('8'))?;
        self.literal(character(code)?);
        Ok(())
    }

    fn group_reference(&mut self, number: usize) -> Result<(), PatternError> {
        if number == 0 || number > self.groups {
            return Err(PatternError::new("reference to non-existent subpattern"));
        }
        self.out.push_str(&format!(r"(?:\{number})"));
        Ok(())
    }

    /// `\g{-1}`, `\g2`, `\k<name>` and their variants.
    fn reference(&mut self, kind: char) -> Result<(), PatternError> {
        let target = if self.eat("{") {
            self.until("}", r"\g{")?
        } else if kind == 'k' && self.eat("<") {
            self.until(">", r"\k<")?
        } else if kind == 'k' && self.eat("'") {
            self.until("'", r"\k'")?
        } else if kind == 'g' {
            self.take_while(|c| c.is_ascii_digit() || c == '-')
        } else {
            ""
        };
        match target.parse::<isize>() {
            Ok(number) if number > 0 => self.group_reference(number.unsigned_abs()),
            Ok(number) => {
                let opened = count_groups(&self.out);
                let back = number.unsigned_abs();
                self.group_reference((opened + 1).saturating_sub(back))
            }
            Err(_) if target.is_empty() => {
                Err(PatternError::new(format!(r"\{kind} without the name of a group is not supported")))
            }
            Err(_) => {
                self.out.push_str(&format!(r"(?:\k<{target}>)"));
                Ok(())
            }
        }
    }

    /// The escapes that mean the same inside and outside of a class.
    pub(super) fn escaped(&mut self) -> Result<Escape, PatternError> {
        let c = self.next().ok_or_else(|| PatternError::new(r"\ at end of pattern"))?;
        Ok(match c {
            'd' => Escape::Set("[0-9]".into()),
            'D' => Escape::Set("[^0-9]".into()),
            'w' => Escape::Set("[0-9A-Za-z_]".into()),
            'W' => Escape::Set("[^0-9A-Za-z_]".into()),
            's' => Escape::Set(r"[\t-\r ]".into()),
            'S' => Escape::Set(r"[^\t-\r ]".into()),
            'h' => Escape::Set(r"[\t ]".into()),
            'H' => Escape::Set(r"[^\t ]".into()),
            'v' => Escape::Set(r"[\n-\r]".into()),
            'V' => Escape::Set(r"[^\n-\r]".into()),
            'p' | 'P' => {
                let name = if self.eat("{") { self.until("}", r"\p{")? } else { self.digits(36, 1) };
                Escape::Set(format!(r"\{c}{{{name}}}"))
            }
            'a' => Escape::Char('\x07'),
            'e' => Escape::Char('\x1b'),
            'f' => Escape::Char('\x0c'),
            'n' => Escape::Char('\n'),
            'r' => Escape::Char('\r'),
            't' => Escape::Char('\t'),
            'x' => {
                let digits = if self.eat("{") { self.until("}", r"\x{")? } else { self.digits(16, 2) };
                Escape::Char(code_point(digits, 16)?)
            }
            'o' if self.eat("{") => Escape::Char(code_point(self.until("}", r"\o{")?, 8)?),
            '0' => Escape::Char(code_point(self.digits(8, 2), 8)?),
            'c' => {
                let control = self.next().filter(char::is_ascii_graphic);
                let control = control.ok_or_else(|| unknown_escape('c'))?;
                Escape::Char(char::from(control.to_ascii_uppercase() as u8 ^ 0x40))
            }
            c if c.is_ascii_alphanumeric() => Escape::Other(c),
            c => Escape::Char(c),
        })
    }
}
