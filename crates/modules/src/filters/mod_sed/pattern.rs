//! The regular expressions of mod_sed, translated for PCRE2.
//!
//! They are the basic ones of System V: only a single character, a class or a reference can be repeated, a star after a
//! group is a literal star, and a backslash has no meaning in a class.

use std::fmt::Write;

use conf::pattern::{Captures, Flags, MatchError, Regex};

/// A regular expression of sed, translated for PCRE2.
#[derive(Debug)]
pub(super) struct Pattern {
    first: Regex,
    /// For the text after a match; `None`: it cannot match there.
    again: Option<Regex>,
    /// How many groups it has.
    pub(super) groups: usize,
}

/// The most groups of an expression, as in Apache.
const GROUPS: usize = 9;
/// Numbers in `\{ \}` are smaller than this.
const TIMES: u32 = 255;

/// A character, set or group, which `*` or `\{ \}` may follow.
struct Element {
    /// In PCRE2's syntax.
    text: String,
    /// Whether it can be repeated.
    repeats: bool,
    times: Times,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    Once,
    Any,
    Between(u32, Option<u32>),
}

impl Pattern {
    /// Parses an expression up to the delimiter, where `rest` then begins. `None`: it is empty.
    ///
    /// # Errors
    /// Apache's text, without the line it is about.
    pub(super) fn read(rest: &mut &[u8], delimiter: u8) -> Result<Option<Pattern>, &'static str> {
        let mut reader = Reader { rest, delimiter, elements: Vec::new(), groups: 0, open: 0 };
        if reader.rest.first() == Some(&delimiter) {
            *rest = &rest[1..];
            return Ok(None);
        }
        let begins = reader.rest.first() == Some(&b'^');
        if begins {
            reader.rest = &reader.rest[1..];
        }
        while reader.element()? {}
        let Reader { rest: behind, elements, groups, open, .. } = reader;
        if open > 0 {
            return Err("\\( \\) imbalance");
        }
        *rest = behind;
        let compile = |pattern: &str| Regex::new(pattern, Flags::default()).map_err(|_| "too much command text");
        let first = compile(&text(&elements, begins, false))?;
        let again = if begins { None } else { Some(compile(&text(&elements, false, true))?) };
        Ok(Some(Pattern { first, again, groups }))
    }

    /// Whether it matches anywhere in a line.
    pub(super) fn is_in(&self, line: &[u8], captures: &mut Captures) -> Result<bool, MatchError> {
        self.first.captures_in(line, 0, captures)
    }

    /// Whether it matches again, after the match that ends at `end`.
    pub(super) fn is_behind(&self, line: &[u8], end: usize, captures: &mut Captures) -> Result<bool, MatchError> {
        self.again.as_ref().map_or(Ok(false), |again| again.captures_in(line, end, captures))
    }
}

/// The expression for PCRE2. The one for the text after a match takes no repetition at its starting point: that keeps
/// Apache's from matching nothing there, though it also keeps `a*b` from matching the second `b` of `bb`.
fn text(elements: &[Element], begins: bool, again: bool) -> String {
    let mut text = String::from(if begins { "\\A" } else { "" });
    for element in elements {
        text += &element.text;
        match element.times {
            Times::Once => continue,
            Times::Any => text.push('*'),
            Times::Between(least, None) => _ = write!(text, "{{{least},}}"),
            Times::Between(least, Some(most)) => _ = write!(text, "{{{least},{most}}}"),
        }
        if again {
            text += "(?!\\G)";
        }
    }
    // Any remaining part that matches nothing would do so endlessly.
    if again && !elements.iter().any(|element| element.repeats && element.times == Times::Once) {
        text += "(?!\\G)";
    }
    text
}

struct Reader<'a> {
    rest: &'a [u8],
    delimiter: u8,
    elements: Vec<Element>,
    groups: usize,
    open: usize,
}

const ENDLESS: &str = "Illegal or missing delimiter";
const GARBLED: &str = "command garbled";

impl Reader<'_> {
    fn next(&mut self) -> Result<u8, &'static str> {
        let (first, rest) = self.rest.split_first().ok_or(ENDLESS)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Parses an element. `false`: that was the end.
    fn element(&mut self) -> Result<bool, &'static str> {
        let byte = self.next()?;
        if byte == self.delimiter {
            return Ok(false);
        }
        match byte {
            b'.' => self.add(".".into(), true),
            b'\n' => return Err(ENDLESS),
            b'*' => match self.elements.last_mut() {
                Some(last) if last.repeats => {
                    // An earlier number stays in effect.
                    if last.times == Times::Once {
                        last.times = Times::Any;
                    }
                }
                _ => self.character(byte),
            },
            b'$' if self.rest.first() == Some(&self.delimiter) => self.add("\\z".into(), false),
            b'[' => self.class()?,
            b'\\' => self.escaped()?,
            _ => self.character(byte),
        }
        Ok(true)
    }

    fn add(&mut self, text: String, repeats: bool) {
        self.elements.push(Element { text, repeats, times: Times::Once });
    }

    fn character(&mut self, byte: u8) {
        self.add(escape(byte), true);
    }

    fn escaped(&mut self) -> Result<(), &'static str> {
        match self.next()? {
            b'(' if self.groups == GROUPS => return Err("Too many \\("),
            b'(' => {
                self.groups += 1;
                self.open += 1;
                self.add("(".into(), false);
            }
            b')' => {
                self.open = self.open.checked_sub(1).ok_or("\\( \\) imbalance")?;
                self.add(")".into(), false);
            }
            b'{' if self.elements.is_empty() => self.character(b'{'),
            b'{' => {
                let times = self.times()?;
                match self.elements.last_mut() {
                    Some(last) if last.repeats && !matches!(last.times, Times::Between(..)) => last.times = times,
                    // Apache overruns its own tables here.
                    _ => return Err(GARBLED),
                }
            }
            b'n' => self.character(b'\n'),
            b'\n' => return Err(ENDLESS),
            digit @ b'1'..=b'9' if usize::from(digit - b'0') > self.groups - self.open => {
                return Err("``\\digit'' out of range");
            }
            digit @ b'1'..=b'9' => self.add(format!("\\g{{{}}}", digit - b'0'), true),
            byte => self.character(byte),
        }
        Ok(())
    }

    /// The part after `\{`.
    fn times(&mut self) -> Result<Times, &'static str> {
        let (least, end) = self.number()?;
        let most = match end {
            b',' if self.rest.first() == Some(&b'\\') => {
                self.rest = &self.rest[1..];
                None
            }
            b',' => {
                let (most, end) = self.number()?;
                if end == b',' {
                    return Err("More than 2 numbers given in \\{ \\}");
                }
                Some(most)
            }
            _ => Some(least),
        };
        if self.next()? != b'}' {
            return Err("} expected after \\");
        }
        if most.is_some_and(|most| most < least) {
            return Err("First number exceeds second in \\{ \\}");
        }
        Ok(Times::Between(least, most))
    }

    /// A number, and the comma or backslash after it.
    fn number(&mut self) -> Result<(u32, u8), &'static str> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number =
            self.rest[..digits].iter().fold(0u32, |sum, digit| sum.saturating_mul(10) + u32::from(digit - b'0'));
        self.rest = &self.rest[digits..];
        match self.rest.split_first() {
            Some((end @ (b',' | b'\\'), behind)) if digits > 0 => {
                self.rest = behind;
                if number < TIMES { Ok((number, *end)) } else { Err("Range endpoint too large") }
            }
            _ => Err("Bad number"),
        }
    }

    /// The part after `[`. The first character always belongs to the class.
    fn class(&mut self) -> Result<(), &'static str> {
        const OPEN: &str = "[ ] imbalance";
        let mut member = [false; 256];
        let mut next = || match self.next() {
            Ok(b'\n') | Err(_) => Err(OPEN),
            Ok(byte) => Ok(byte),
        };
        let mut byte = next()?;
        let negated = byte == b'^';
        if negated {
            byte = next()?;
        }
        let mut before = None;
        loop {
            let mut low = byte;
            if byte == b'-'
                && let Some(before) = before
            {
                byte = next()?;
                if byte == b']' {
                    member[usize::from(b'-')] = true;
                    break;
                }
                low = byte.min(before);
                // A reversed range is not a range.
                if before > byte {
                    low = byte;
                }
            }
            member[usize::from(low)..=usize::from(byte)].fill(true);
            before = Some(byte);
            byte = next()?;
            if byte == b']' {
                break;
            }
        }
        let mut text = String::from("[");
        let mut from = 0;
        while let Some(start) = (from..256).find(|at| member[*at] != negated) {
            let end = (start..256).find(|at| member[*at] == negated).unwrap_or(256);
            // There are no more than 256 of them.
            _ = write!(text, "\\x{start:02x}-\\x{:02x}", end - 1);
            from = end;
        }
        self.add(text + "]", true);
        Ok(())
    }
}

/// A byte as a literal in PCRE2's syntax.
fn escape(byte: u8) -> String {
    match byte.is_ascii_alphanumeric() {
        true => char::from(byte).into(),
        false => format!("\\x{byte:02x}"),
    }
}
