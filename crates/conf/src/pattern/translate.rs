//! From the spelling of PCRE2 to that of `fancy-regex`.
//!
//! Differences that matter: PCRE2 without UTF mode has ASCII classes, knows `\h` as horizontal
//! blank, `\<` as a plain character, octal escapes, `\Q...\E`, a `{` that is no quantifier, and
//! brackets inside brackets without meaning.

mod class;
mod escapes;

use super::flags::{Flags, PatternError};

/// Rewrites `pattern` with its options in front.
pub(super) fn translate(pattern: &str, flags: Flags) -> Result<String, PatternError> {
    let mut translator = Translator {
        rest: pattern,
        out: inline_flags(flags),
        groups: count_groups(pattern),
        scopes: vec![Vec::new()],
        loose_dollar: !flags.dollar_end_only && !flags.multi_line,
        extended: flags.extended,
    };
    for verb in ["(*UTF8)", "(*UTF)", "(*UCP)"] {
        translator.eat(verb);
    }
    translator.run()?;
    Ok(translator.out)
}

fn inline_flags(flags: Flags) -> String {
    let letters: String =
        [(flags.ignore_case, 'i'), (flags.multi_line, 'm'), (flags.dot_all, 's'), (flags.extended, 'x')]
            .into_iter()
            .filter_map(|(set, letter)| set.then_some(letter))
            .collect();
    if letters.is_empty() { letters } else { format!("(?{letters})") }
}

/// The number of capturing groups, which decides whether `\12` is a reference or octal.
fn count_groups(pattern: &str) -> usize {
    let mut groups = 0;
    let mut in_class = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let rest = chars.as_str();
        match c {
            '\\' => {
                chars.next();
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let named = rest.starts_with("?P<")
                    || rest.starts_with("?'")
                    || (rest.starts_with("?<") && !rest.starts_with("?<=") && !rest.starts_with("?<!"));
                groups += usize::from(named || !rest.starts_with(['?', '*']));
            }
            _ => {}
        }
    }
    groups
}

struct Translator<'p> {
    rest: &'p str,
    out: String,
    groups: usize,
    /// For each open group, and the pattern itself, the options set inside of it by `(?i)`. They are
    /// spelled `(?i:`, which must be closed where the group or the alternative ends.
    scopes: Vec<Vec<&'p str>>,
    loose_dollar: bool,
    extended: bool,
}

impl<'p> Translator<'p> {
    fn run(&mut self) -> Result<(), PatternError> {
        while let Some(c) = self.next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => {
                    self.close_options();
                    if self.scopes.len() == 1 {
                        return Err(PatternError::new("unmatched closing parenthesis"));
                    }
                    self.scopes.pop();
                    self.out.push(')');
                }
                '|' => {
                    self.close_options();
                    self.out.push('|');
                    self.reopen_options();
                }
                '{' => self.brace()?,
                '}' | ']' => self.literal(c),
                '$' if self.loose_dollar => self.out.push_str(r"(?=\n?\z)"),
                '#' if self.extended => {
                    self.take_while(|c| c != '\n');
                }
                c if self.extended && c.is_ascii_whitespace() => {}
                c => self.out.push(c),
            }
        }
        self.close_options();
        Ok(())
    }

    fn close_options(&mut self) {
        let open = self.scopes.last().map_or(0, Vec::len);
        self.out.extend(std::iter::repeat_n(')', open));
    }

    fn reopen_options(&mut self) {
        for options in self.scopes.last().into_iter().flatten() {
            self.out.push_str(&format!("(?{options}:"));
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'p str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// At most `limit` digits of the given base.
    fn digits(&mut self, base: u32, limit: usize) -> &'p str {
        let end = self
            .rest
            .char_indices()
            .take(limit)
            .take_while(|(_, c)| c.is_digit(base))
            .last()
            .map_or(0, |(at, _)| at + 1);
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// The text up to `end`, which is consumed too.
    fn until(&mut self, end: &str, what: &str) -> Result<&'p str, PatternError> {
        let (taken, rest) =
            self.rest.split_once(end).ok_or_else(|| PatternError::new(format!("missing {end} after {what}")))?;
        self.rest = rest;
        Ok(taken)
    }

    fn literal(&mut self, c: char) {
        match c {
            '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => {
                self.out.extend(['\\', c]);
            }
            c if c.is_ascii_graphic() && c != '#' || !c.is_ascii() => self.out.push(c),
            c => self.out.push_str(&hex(c)),
        }
    }

    /// `{2,3}` is a quantifier, any other brace is a character.
    fn brace(&mut self) -> Result<(), PatternError> {
        let Some(inner) = quantifier(self.rest) else {
            self.literal('{');
            return Ok(());
        };
        self.rest = &self.rest[inner.len() + 1..];
        let too_large = |bound: &str| bound.parse().map_or(!bound.is_empty(), |n: u32| n > 65_535);
        if inner.split(',').any(too_large) {
            return Err(PatternError::new("number too big in {} quantifier"));
        }
        let repeated = self.rest.strip_prefix('{').and_then(quantifier).is_some();
        if repeated {
            return Err(PatternError::new("a quantifier after {} is not supported"));
        }
        self.out.push_str(&format!("{{{inner}}}"));
        Ok(())
    }

    /// What follows an opening parenthesis.
    fn group(&mut self) -> Result<(), PatternError> {
        if self.eat("?#") {
            self.until(")", "(?# comment")?;
            return Ok(());
        }
        if self.eat("?'") {
            let name = self.until("'", "group name")?;
            self.scopes.push(Vec::new());
            self.out.push_str(&format!("(?<{name}>"));
            return Ok(());
        }
        if self.eat("?P=") {
            let name = self.until(")", "(?P=")?;
            self.out.push_str(&format!(r"(?:\k<{name}>)"));
            return Ok(());
        }
        if let Some(construct) = unsupported_group(self.rest) {
            return Err(PatternError::new(format!("({construct} is not supported")));
        }
        if self.eat("?") {
            return self.special_group();
        }
        self.scopes.push(Vec::new());
        self.out.push('(');
        Ok(())
    }

    /// What follows `(?`: options, or a group with a meaning of its own.
    fn special_group(&mut self) -> Result<(), PatternError> {
        let options = self.take_while(|c| c.is_ascii_alphabetic() || c == '-');
        let (on, _) = options.split_once('-').unwrap_or((options, ""));
        let sets_options = self.rest.starts_with([':', ')']);
        self.extended |= sets_options && on.contains('x');
        if !options.is_empty() && self.eat(")") {
            if let Some(scope) = self.scopes.last_mut() {
                scope.push(options);
            }
            self.out.push_str(&format!("(?{options}:"));
            return Ok(());
        }
        self.scopes.push(Vec::new());
        self.out.push_str(&format!("(?{options}"));
        if self.eat("<") {
            self.out.push('<');
            if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(PatternError::new("subpattern name must not start with a digit"));
            }
        } else if self.rest.starts_with([':', '=', '!', '>']) {
            let opener = self.next();
            self.out.extend(opener);
        }
        Ok(())
    }
}

/// The inside of the quantifier that `rest`, after its brace, begins with.
fn quantifier(rest: &str) -> Option<&str> {
    let (inner, _) = rest.split_once('}')?;
    let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let is_quantifier = match inner.split_once(',') {
        Some((low, high)) => is_number(low) && (high.is_empty() || is_number(high)),
        None => is_number(inner),
    };
    is_quantifier.then_some(inner)
}

/// The constructs after `(` that have no counterpart.
fn unsupported_group(rest: &str) -> Option<&str> {
    const PREFIXES: [&str; 8] = ["*", "?|", "?R", "?&", "?P>", "?C", "?+", "?^"];
    let by_number = |rest: &str| {
        let digits = rest.strip_prefix('?')?;
        let digits = digits.strip_prefix('-').unwrap_or(digits);
        digits.starts_with(|c: char| c.is_ascii_digit()).then_some(())
    };
    let known = PREFIXES.iter().find(|prefix| rest.starts_with(**prefix));
    match known {
        Some(prefix) => Some(prefix),
        None => by_number(rest).map(|()| "?n)"),
    }
}

fn hex(c: char) -> String {
    format!(r"\x{{{:x}}}", u32::from(c))
}

fn code_point(digits: &str, base: u32) -> Result<char, PatternError> {
    if digits.is_empty() {
        return Ok('\0');
    }
    character(u32::from_str_radix(digits, base).map_err(|e| PatternError::new(e.to_string()))?)
}

fn character(code: u32) -> Result<char, PatternError> {
    char::from_u32(code).ok_or_else(|| PatternError::new("character code point value is too large"))
}

fn unknown_escape(c: char) -> PatternError {
    PatternError::new(format!(r"unrecognized character follows \: {c}"))
}
