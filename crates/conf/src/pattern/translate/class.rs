//! Character classes: `[...]`.
//!
//! To PCRE2 a bracket, `&&` or `--` inside a class is a plain character; to the engine they nest,
//! intersect and subtract, so such characters are written in a class of their own.

use super::escapes::Escape;
use super::{Translator, code_point, hex, unknown_escape};
use crate::pattern::PatternError;

const POSIX_CLASSES: [&str; 14] = [
    "alpha", "lower", "upper", "alnum", "ascii", "blank", "cntrl", "digit", "graph", "print", "punct", "space", "word",
    "xdigit",
];

impl<'p> Translator<'p> {
    /// What follows an opening bracket.
    pub(super) fn class(&mut self) -> Result<(), PatternError> {
        if self.posix_name().is_some() {
            return Err(PatternError::new("POSIX named classes are supported only within a class"));
        }
        self.out.push('[');
        if self.eat("^") {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            if !first && self.eat("]") {
                break;
            }
            first = false;
            let low = self.class_item()?;
            let range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            if range {
                self.rest = &self.rest[1..];
            }
            match (low, if range { Some(self.class_item()?) } else { None }) {
                (Escape::Char(low), None) => self.class_range(low, low),
                (Escape::Char(low), Some(Escape::Char(high))) if low <= high => {
                    self.class_range(low, high);
                }
                (_, None) => {}
                (_, Some(_)) => {
                    return Err(PatternError::new("invalid range in character class"));
                }
            }
        }
        self.out.push(']');
        Ok(())
    }

    /// The next member of a class; a set is already written out.
    fn class_item(&mut self) -> Result<Escape, PatternError> {
        let missing = || PatternError::new("missing terminating ] for character class");
        let item = match self.next().ok_or_else(missing)? {
            '[' if self.posix_name().is_some() => {
                let class = self.until("]", "[:")?;
                let name = class.trim_matches(':').trim_start_matches('^');
                if !POSIX_CLASSES.contains(&name) {
                    return Err(PatternError::new("unknown POSIX class name"));
                }
                Escape::Set(format!("[{class}]"))
            }
            '[' if self.collating_element() => {
                return Err(PatternError::new("POSIX collating elements are not supported"));
            }
            '\\' if self.peek().is_some_and(|c| c.is_digit(8)) => Escape::Char(code_point(self.digits(8, 3), 8)?),
            '\\' => match self.escaped()? {
                Escape::Other('b') => Escape::Char('\x08'),
                Escape::Other(c) => return Err(unknown_escape(c)),
                item => item,
            },
            c => Escape::Char(c),
        };
        if let Escape::Set(set) = &item {
            self.out.push_str(set);
        }
        Ok(item)
    }

    /// The name in `:alpha:]` if that is what follows.
    fn posix_name(&self) -> Option<&'p str> {
        let (name, _) = self.rest.strip_prefix(':')?.split_once(":]")?;
        let letters = name.strip_prefix('^').unwrap_or(name);
        letters.bytes().all(|b| b.is_ascii_lowercase()).then_some(name)
    }

    /// Whether `.a.]` or `=a=]` follows.
    fn collating_element(&self) -> bool {
        [".", "="].iter().any(|mark| {
            let inner = self.rest.strip_prefix(mark);
            inner.is_some_and(|inner| inner.contains(&format!("{mark}]")))
        })
    }

    /// Writes a range of characters so that none of them is taken for syntax.
    ///
    /// A range up to `\xff` means "any byte beyond ASCII" to Apache, hence any such character here.
    fn class_range(&mut self, low: char, high: char) {
        let high = if high == '\u{ff}' { char::MAX } else { high };
        if low == high && matches!(low, '-' | '&' | '~') {
            self.out.extend(['[', low, ']']);
        } else if low == high {
            self.class_char(low);
        } else if low == '-' {
            self.out.push_str("[-]");
            self.class_range('.', high);
        } else if high == '-' {
            self.class_range(low, ',');
            self.out.push_str("[-]");
        } else {
            self.class_char(low);
            self.out.push('-');
            self.class_char(high);
        }
    }

    fn class_char(&mut self, c: char) {
        match c {
            '[' | ']' | '^' | '\\' => self.out.extend(['\\', c]),
            c if c.is_ascii_graphic() && c != '#' => self.out.push(c),
            c => self.out.push_str(&hex(c)),
        }
    }
}
