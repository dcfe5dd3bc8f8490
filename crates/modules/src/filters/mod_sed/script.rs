//! Scripts of mod_sed, compiled.

use std::sync::Arc;

use bytes::Bytes;
use http::text::from_bytes;

use super::pattern::Pattern;

/// A script, of as many lines as were added.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Command>,
    /// `#n`: print only with commands.
    pub(super) is_quiet: bool,
    pub(super) labels: Vec<Label>,
    /// The last pattern: an empty one repeats it.
    last: Option<Arc<Pattern>>,
    /// The unclosed blocks, by their commands.
    open: Vec<usize>,
}

/// The target of branches.
#[derive(Clone, Debug)]
pub(super) struct Label {
    name: Vec<u8>,
    /// The command after it; `None`: it was only referenced so far.
    pub(super) at: Option<usize>,
}

/// A command, and the lines it applies to.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) first: Option<Address>,
    pub(super) second: Option<Address>,
    /// `!`: applies to all other lines.
    pub(super) is_negated: bool,
    pub(super) action: Action,
}

/// The line at which a command's range begins or ends.
#[derive(Clone, Debug)]
pub(super) enum Address {
    /// The last one.
    Last,
    Number(u64),
    Match(Arc<Pattern>),
}

/// A command's action. The pattern space is the line being edited, which may have become several.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// `a`: writes a text after the line.
    Append(Bytes),
    /// `b`: to a label, by its number, or to the end.
    Branch(Option<usize>),
    /// `t`: the same after a substitution.
    BranchIf(Option<usize>),
    /// `{`: the commands up to this one apply to the same lines.
    Block(usize),
    /// `c`
    Change(Bytes),
    /// `d`
    Delete,
    /// `D`
    DeleteFirst,
    /// `g`
    Get,
    /// `G`
    GetBehind,
    /// `h`
    Hold,
    /// `H`
    HoldBehind,
    /// `i`
    Insert(Bytes),
    /// `l`: prints the line with escapes.
    List,
    /// `n`
    Next,
    /// `N`
    NextBehind,
    /// `=`
    Number,
    /// `p`
    Print,
    /// `P`
    PrintFirst,
    /// `q`
    Quit,
    /// `s`
    Substitute(Arc<Substitution>),
    /// `x`
    Exchange,
    /// `y`
    Translate(Arc<[u8; 256]>),
}

/// `s/pattern/replacement/flags`
#[derive(Debug)]
pub(super) struct Substitution {
    pub(super) pattern: Arc<Pattern>,
    pub(super) replacement: Vec<Part>,
    pub(super) which: Which,
    /// The printing action if only commands print.
    pub(super) prints: Option<Action>,
}

/// The matches to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    First,
    All,
    Nth(u32),
}

/// A piece of the replacement of `s`: bytes, or a group of the match.
#[derive(Debug)]
pub(super) enum Part {
    Text(Vec<u8>),
    /// Group 0 is the whole match.
    Group(usize),
}

/// The longest line of a script, in bytes; the longest name of a label; the greatest number of a match. As in Apache.
const LINE: usize = 1000;
const LABEL: usize = 7;
const NTH: u32 = 512;

const GARBLED: &str = "command garbled";
const UNOPENED: &str = "too many }'s";
const NO_PATTERN: &str = "first RE may not be null";
const NO_FILES: &str = "a filter reads and writes no files: the commands r and w are not supported";

impl Script {
    /// Adds lines.
    ///
    /// # Errors
    /// Apache's text.
    pub(super) fn add(&mut self, text: &[u8]) -> Result<(), String> {
        let mut rest = text;
        let mut is_first = true;
        while !rest.is_empty() {
            let line = take_line(&mut rest);
            if line.len() > LINE {
                return Err("command line too long".into());
            }
            self.is_quiet |= is_first && line.starts_with(b"#n");
            is_first = false;
            // Apache appends the line to its error text, except for these.
            Parser { script: self, rest: line }.line().map_err(|why| match why {
                UNOPENED | NO_PATTERN => why.into(),
                _ => format!("{why}: {}", from_bytes(line)),
            })?;
        }
        Ok(())
    }

    /// Whether it can be run: later lines may close open blocks.
    ///
    /// # Errors
    /// Apache's text.
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.open.is_empty() {
            return Err("too many {'s".into());
        }
        match self.labels.iter().find(|label| label.at.is_none()) {
            Some(label) => Err(format!("undefined label: {}", from_bytes(&label.name))),
            None => Ok(()),
        }
    }

    /// The index of a label, which may be defined later in the script.
    fn label(&mut self, name: &[u8]) -> usize {
        let known = self.labels.iter().position(|label| label.name == name);
        known.unwrap_or_else(|| {
            self.labels.push(Label { name: name.into(), at: None });
            self.labels.len() - 1
        })
    }
}

/// The next line of a script. A newline after a backslash does not end it.
fn take_line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let mut at = 0;
    while at < rest.len() && rest[at] != b'\n' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    let (line, behind) = rest.split_at(at.min(rest.len()));
    *rest = behind.get(1..).unwrap_or_default();
    line
}

struct Parser<'s, 'l> {
    script: &'s mut Script,
    /// What is left of the line.
    rest: &'l [u8],
}

impl<'l> Parser<'_, 'l> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip(&mut self, any_of: &[u8]) {
        while self.peek().is_some_and(|byte| any_of.contains(&byte)) {
            self.rest = &self.rest[1..];
        }
    }

    /// Takes a byte if it comes next.
    fn has(&mut self, byte: u8) -> bool {
        let has = self.peek() == Some(byte);
        if has {
            self.rest = &self.rest[1..];
        }
        has
    }

    /// Parses the commands of a line of the script.
    fn line(&mut self) -> Result<(), &'static str> {
        loop {
            self.skip(b" \t;");
            if matches!(self.peek(), None | Some(b'#')) {
                return Ok(());
            }
            let first = self.address()?;
            let mut second = None;
            if first.is_some() && (self.has(b',') || self.has(b';')) {
                second = Some(self.address().ok().flatten().ok_or(GARBLED)?);
            }
            self.skip(b" \t");
            let mut is_negated = false;
            while self.has(b'!') {
                is_negated = true;
            }
            let name = self.next().ok_or("unrecognized command")?;
            let at = self.script.commands.len();
            match name {
                b'}' | b':' if first.is_some() => return Err("no addresses allowed"),
                b'a' | b'i' | b'r' | b'q' | b'=' if second.is_some() => return Err("only one address allowed"),
                // The rest of its line is ignored.
                b'}' => {
                    let begun = self.script.open.pop().ok_or(UNOPENED)?;
                    self.script.commands[begun].action = Action::Block(at);
                    return Ok(());
                }
                b':' => {
                    let label = self.label()?.ok_or("duplicate labels")?;
                    return match self.script.labels[label].at.replace(at) {
                        Some(_) => Err("duplicate labels"),
                        None => Ok(()),
                    };
                }
                _ => {}
            }
            let action = self.action(name)?;
            let is_block = matches!(action, Action::Block(_));
            self.script.commands.push(Command { first, second, is_negated, action });
            if is_block {
                self.script.open.push(at);
            } else if !self.rest.is_empty() && !self.has(b';') {
                return Err(GARBLED);
            }
        }
    }

    fn action(&mut self, name: u8) -> Result<Action, &'static str> {
        Ok(match name {
            b'{' => Action::Block(0),
            b'a' => Action::Append(self.text()?),
            b'b' => Action::Branch(self.label()?),
            b'c' => Action::Change(self.text()?),
            b'd' => Action::Delete,
            b'D' => Action::DeleteFirst,
            b'g' => Action::Get,
            b'G' => Action::GetBehind,
            b'h' => Action::Hold,
            b'H' => Action::HoldBehind,
            b'i' => Action::Insert(self.text()?),
            b'l' => Action::List,
            b'n' => Action::Next,
            b'N' => Action::NextBehind,
            b'=' => Action::Number,
            b'p' => Action::Print,
            b'P' => Action::PrintFirst,
            b'q' => Action::Quit,
            b's' => self.substitution()?,
            b't' => Action::BranchIf(self.label()?),
            b'x' => Action::Exchange,
            b'y' => self.translation()?,
            b'r' | b'w' => return Err(NO_FILES),
            _ => return Err("unrecognized command"),
        })
    }

    fn address(&mut self) -> Result<Option<Address>, &'static str> {
        Ok(match self.peek() {
            Some(b'$') => {
                self.next();
                Some(Address::Last)
            }
            Some(b'/') => Some(Address::Match(self.pattern()?.1)),
            Some(b'\\') => {
                self.next();
                Some(Address::Match(self.pattern()?.1))
            }
            Some(b'0'..=b'9') => {
                let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (number, rest) = self.rest.split_at(digits);
                self.rest = rest;
                let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
                Some(Address::Number(number.iter().fold(0, add)))
            }
            _ => None,
        })
    }

    /// A delimiter, and the pattern up to the next one.
    fn pattern(&mut self) -> Result<(u8, Arc<Pattern>), &'static str> {
        let delimiter = self.next().ok_or(NO_PATTERN)?;
        if let Some(pattern) = Pattern::read(&mut self.rest, delimiter)? {
            self.script.last = Some(Arc::new(pattern));
        }
        let last = self.script.last.clone().ok_or(NO_PATTERN)?;
        Ok((delimiter, last))
    }

    /// The text after `a`, `c` and `i`: the rest of the line, without the blanks at the beginning of its lines.
    fn text(&mut self) -> Result<Bytes, &'static str> {
        self.has(b'\\');
        if !self.has(b'\n') {
            return Err(GARBLED);
        }
        let mut text = Vec::new();
        self.skip(b" \t");
        while let Some(mut byte) = self.next() {
            if byte == b'\\' {
                let Some(escaped) = self.next() else { break };
                byte = escaped;
            }
            text.push(byte);
            if byte == b'\n' {
                self.skip(b" \t");
            }
        }
        Ok(text.into())
    }

    /// The label after `:`, `b` and `t`: the rest of the line. `None`: there is none.
    fn label(&mut self) -> Result<Option<usize>, &'static str> {
        self.skip(b" ");
        let name = std::mem::take(&mut self.rest);
        match name.len() {
            0 => Ok(None),
            1..=LABEL => Ok(Some(self.script.label(name))),
            _ => Err("label too long"),
        }
    }

    fn substitution(&mut self) -> Result<Action, &'static str> {
        let (delimiter, pattern) = self.pattern()?;
        let replacement = self.replacement(delimiter, pattern.groups)?;
        let mut which = if self.has(b'g') { Which::All } else { Which::First };
        if let Some(b'1'..=b'9') = self.peek() {
            let mut number = 0;
            while let Some(digit @ b'0'..=b'9') = self.peek() {
                number = number * 10 + u32::from(digit - b'0');
                if number > NTH {
                    return Err("suffix too large");
                }
                self.next();
            }
            which = Which::Nth(number);
        }
        let mut prints = self.has(b'p').then_some(Action::Print);
        if self.has(b'P') {
            prints = Some(Action::PrintFirst);
        }
        if self.has(b'w') {
            return Err(NO_FILES);
        }
        Ok(Action::Substitute(Arc::new(Substitution { pattern, replacement, which, prints })))
    }

    fn replacement(&mut self, delimiter: u8, groups: usize) -> Result<Vec<Part>, &'static str> {
        const ENDLESS: &str = "ending delimiter missing on substitution";
        let mut parts = Vec::new();
        let mut text = Vec::new();
        loop {
            let group = match self.next().ok_or(ENDLESS)? {
                b'\\' => match self.next().ok_or(ENDLESS)? {
                    digit @ b'1'..=b'9' if usize::from(digit - b'0') > groups => {
                        return Err("``\\digit'' out of range");
                    }
                    digit @ b'1'..=b'9' => usize::from(digit - b'0'),
                    byte => {
                        text.push(byte);
                        continue;
                    }
                },
                byte if byte == delimiter => break,
                b'&' => 0,
                byte => {
                    text.push(byte);
                    continue;
                }
            };
            parts.extend([Part::Text(std::mem::take(&mut text)), Part::Group(group)]);
        }
        parts.push(Part::Text(text));
        Ok(parts)
    }

    /// `y/abc/xyz/`. A backslash is literal except before `n`, and does not hide a delimiter.
    fn translation(&mut self) -> Result<Action, &'static str> {
        const ENDLESS: &str = "ending delimiter missing on string";
        const UNEQUAL: &str = "transform strings not the same size";
        let delimiter = self.next().ok_or(GARBLED)?;
        let from = self.characters(delimiter).ok_or(ENDLESS)?;
        let to = self.characters(delimiter).ok_or(ENDLESS)?;
        if from.len() != to.len() {
            return Err(if to.len() < from.len() && self.rest.is_empty() { ENDLESS } else { UNEQUAL });
        }
        let mut table: [u8; 256] = std::array::from_fn(|byte| byte as u8);
        for (from, to) in from.into_iter().zip(to) {
            table[usize::from(from)] = to;
        }
        Ok(Action::Translate(Arc::new(table)))
    }

    fn characters(&mut self, delimiter: u8) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            match self.next()? {
                byte if byte == delimiter => return Some(all),
                b'\\' if self.has(b'n') => all.push(b'\n'),
                b'\n' => return None,
                byte => all.push(byte),
            }
        }
    }
}
