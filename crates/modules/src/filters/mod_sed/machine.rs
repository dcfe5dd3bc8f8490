//! Runs scripts of mod_sed.

use bytes::Bytes;
use conf::pattern::Captures;
use runtime::CoopBudget;
use server::Writer;

use super::pattern::Pattern;
use super::script::{Action, Address, Part, Script, Substitution, Which};

/// The most bytes in the pattern space, in the hold space, or in the text after a line, as in Apache.
const SPACE: usize = 8 * 1024 * 1024;
/// The most commands for one line: scripts can loop.
const COMMANDS: u32 = 1_000_000;
/// The size of a write, in bytes.
const AT_ONCE: usize = 8 * 1024;
/// The length at which `l` breaks a line, in bytes.
const LIST: usize = 71;

/// A script on its way through a body.
pub(super) struct Machine<'a> {
    script: &'a Script,
    out: &'a Writer,
    made: Vec<u8>,
    /// The pattern space.
    line: Vec<u8>,
    /// The hold space.
    held: Vec<u8>,
    /// The texts of `a`, to be written after the line.
    behind: Vec<Bytes>,
    /// The number of lines so far.
    number: u64,
    is_last: bool,
    /// For each command, whether its first address was found and the second not yet.
    within: Vec<bool>,
    /// Whether there was a substitution since the line was read, or since the last `t`.
    has_substituted: bool,
    /// The first command for the next line: `n` and `N` continue where they were.
    begin: usize,
    has_quit: bool,
    budget: CoopBudget,
}

/// The step after a command.
enum Then {
    GoOn,
    /// Continue with this command.
    Jump(usize),
    /// The line is over, and printed unless the script prints itself.
    End,
    /// The line is over, and not printed.
    Deleted,
    /// Continue here when the next line is available.
    Wait(usize),
    Quit,
}

impl<'a> Machine<'a> {
    pub(super) fn new(script: &'a Script, out: &'a Writer) -> Machine<'a> {
        Machine {
            script,
            out,
            made: Vec::new(),
            line: Vec::new(),
            held: Vec::new(),
            behind: Vec::new(),
            number: 0,
            is_last: false,
            within: vec![false; script.commands.len()],
            has_substituted: false,
            begin: 0,
            has_quit: false,
            budget: CoopBudget::new(),
        }
    }

    /// Whether the script wants no more lines.
    pub(super) fn has_quit(&self) -> bool {
        self.has_quit
    }

    /// Whether there is anything of a line.
    pub(super) fn has_text(&self) -> bool {
        !self.line.is_empty()
    }

    /// Takes a part of a line.
    pub(super) fn take(&mut self, text: &[u8]) -> Result<(), String> {
        append(&mut self.line, text)
    }

    /// Writes the output so far.
    pub(super) async fn flush(&mut self) {
        self.out.write(&self.made).await;
        self.made.clear();
    }

    /// Runs the script on the current line.
    ///
    /// # Errors
    /// Why it cannot continue, for the log.
    pub(super) async fn run(&mut self, is_last: bool) -> Result<(), String> {
        self.number += 1;
        self.is_last = is_last;
        self.has_substituted = false;
        let script = self.script;
        let mut at = std::mem::take(&mut self.begin);
        let mut count = 0;
        loop {
            self.budget.step().await;
            if self.made.len() >= AT_ONCE {
                self.flush().await;
            }
            count += 1;
            if count > COMMANDS {
                return Err(format!("line {} takes more than {COMMANDS} commands", self.number));
            }
            let then = match script.commands.get(at) {
                None => Then::End,
                Some(command) => {
                    let is_for = self.selects(at, &command.first, &command.second)? != command.is_negated;
                    match &command.action {
                        Action::Block(end) if !is_for => Then::Jump(*end),
                        action if is_for => self.act(at, action).await?,
                        _ => Then::GoOn,
                    }
                }
            };
            match then {
                Then::GoOn => at += 1,
                Then::Jump(to) => at = to,
                Then::Wait(at) => {
                    self.begin = at;
                    return Ok(());
                }
                Then::End | Then::Deleted | Then::Quit => {
                    if !matches!(then, Then::Deleted) && !script.is_quiet {
                        self.print(self.line.len());
                    }
                    self.write_behind();
                    self.line.clear();
                    self.has_quit = matches!(then, Then::Quit);
                    return Ok(());
                }
            }
        }
    }

    /// Whether a command applies to the line, by its addresses.
    fn selects(&mut self, at: usize, first: &Option<Address>, second: &Option<Address>) -> Result<bool, String> {
        let Some(first) = first else { return Ok(true) };
        match second {
            Some(end) if self.within[at] => match end {
                Address::Number(number) => {
                    self.within[at] = self.number < *number;
                    Ok(self.number <= *number)
                }
                end => {
                    // The last line ends every range.
                    self.within[at] = matches!(end, Address::Last) || !self.is_at(end)?;
                    Ok(true)
                }
            },
            _ => {
                let is_at = self.is_at(first)?;
                self.within[at] = is_at && second.is_some() && !matches!(first, Address::Last);
                Ok(is_at)
            }
        }
    }

    fn is_at(&self, address: &Address) -> Result<bool, String> {
        match address {
            Address::Last => Ok(self.is_last),
            Address::Number(number) => Ok(self.number == *number),
            Address::Match(pattern) => self.matches(pattern),
        }
    }

    fn matches(&self, pattern: &Pattern) -> Result<bool, String> {
        pattern.is_in(&self.line, &mut Captures::default()).map_err(|error| error.to_string())
    }

    async fn act(&mut self, at: usize, action: &Action) -> Result<Then, String> {
        match action {
            Action::Block(_) => {}
            Action::Append(text) => {
                if self.behind.iter().map(Bytes::len).sum::<usize>() + text.len() > SPACE {
                    return Err(full());
                }
                self.behind.push(text.clone());
            }
            Action::Branch(label) => return Ok(self.branch(*label)),
            Action::BranchIf(label) => {
                if std::mem::take(&mut self.has_substituted) {
                    return Ok(self.branch(*label));
                }
            }
            Action::Change(text) => {
                if !self.within[at] || self.is_last {
                    self.write(text);
                }
                return Ok(Then::Deleted);
            }
            Action::Delete => return Ok(Then::Deleted),
            Action::DeleteFirst => {
                let end = self.first();
                if end == self.line.len() {
                    return Ok(Then::Deleted);
                }
                self.line.drain(..=end);
                return Ok(Then::Jump(0));
            }
            Action::Get => self.line.clone_from(&self.held),
            Action::GetBehind => {
                append(&mut self.line, b"\n")?;
                append(&mut self.line, &self.held)?;
            }
            Action::Hold => self.held.clone_from(&self.line),
            Action::HoldBehind => {
                append(&mut self.held, b"\n")?;
                append(&mut self.held, &self.line)?;
            }
            Action::Insert(text) => self.write(text),
            Action::List => self.list().await,
            Action::Next => {
                if !self.script.is_quiet {
                    self.print(self.line.len());
                }
                self.write_behind();
                self.line.clear();
                return Ok(Then::Wait(at + 1));
            }
            Action::NextBehind => {
                self.write_behind();
                append(&mut self.line, b"\n")?;
                return Ok(Then::Wait(at + 1));
            }
            Action::Number => self.write(self.number.to_string().as_bytes()),
            Action::Print => self.print(self.line.len()),
            Action::PrintFirst => self.print(self.first()),
            Action::Quit => return Ok(Then::Quit),
            Action::Substitute(substitution) => {
                if self.substitute(substitution).await? && self.script.is_quiet {
                    match substitution.prints {
                        Some(Action::PrintFirst) => self.print(self.first()),
                        Some(_) => self.print(self.line.len()),
                        None => {}
                    }
                }
            }
            Action::Exchange => std::mem::swap(&mut self.line, &mut self.held),
            Action::Translate(table) => self.line.iter_mut().for_each(|byte| *byte = table[usize::from(*byte)]),
        }
        Ok(Then::GoOn)
    }

    fn branch(&self, label: Option<usize>) -> Then {
        match label.and_then(|label| self.script.labels[label].at) {
            Some(at) => Then::Jump(at),
            None => Then::End,
        }
    }

    /// The end of the pattern space's first line.
    fn first(&self) -> usize {
        memchr::memchr(b'\n', &self.line).unwrap_or(self.line.len())
    }

    fn write(&mut self, text: &[u8]) {
        self.made.extend_from_slice(text);
        self.made.push(b'\n');
    }

    /// Writes the beginning of the pattern space.
    fn print(&mut self, end: usize) {
        self.made.extend_from_slice(&self.line[..end]);
        self.made.push(b'\n');
    }

    fn write_behind(&mut self) {
        for text in std::mem::take(&mut self.behind) {
            self.write(&text);
        }
    }

    /// Substitutes. Returns whether anything was replaced, now or earlier in the line.
    async fn substitute(&mut self, how: &Substitution) -> Result<bool, String> {
        let mut captures = Captures::default();
        let mut found = how.pattern.is_in(&self.line, &mut captures).map_err(|error| error.to_string())?;
        if !found {
            return Ok(false);
        }
        self.has_substituted = false;
        let (mut made, mut copied, mut count) = (Vec::new(), 0, 0);
        while found {
            self.budget.step().await;
            let Some(span) = captures.span(0) else { break };
            count += 1;
            if matches!(how.which, Which::First | Which::All) || how.which == Which::Nth(count) {
                self.has_substituted = true;
                append(&mut made, &self.line[copied..span.start])?;
                for part in &how.replacement {
                    match part {
                        Part::Text(text) => append(&mut made, text)?,
                        Part::Group(group) => {
                            append(&mut made, &self.line[captures.span(*group).unwrap_or_default()])?;
                        }
                    }
                }
                copied = span.end;
            }
            found = how.which != Which::First
                && how.which != Which::Nth(count)
                && span.end < self.line.len()
                && how.pattern.is_behind(&self.line, span.end, &mut captures).map_err(|error| error.to_string())?;
        }
        append(&mut made, &self.line[copied..])?;
        self.line = made;
        Ok(self.has_substituted)
    }

    /// Prints the pattern space with escapes, in lines of a bounded length.
    async fn list(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut width = 0;
        for byte in &line {
            let escaped = match byte {
                b'\n' | b' '..=b'~' => vec![*byte],
                0x01..=0x1f => format!("\\{byte:02o}").into_bytes(),
                _ => format!("\\{byte:03o}").into_bytes(),
            };
            for byte in escaped {
                self.made.push(byte);
                width += 1;
                if width == LIST {
                    width = 0;
                    self.made.extend_from_slice(b"\\\n");
                    self.budget.step().await;
                }
            }
            if self.made.len() >= AT_ONCE {
                self.flush().await;
            }
        }
        self.made.push(b'\n');
        self.line = line;
    }
}

/// Appends to the pattern space or the hold space, up to their limit.
fn append(space: &mut Vec<u8>, text: &[u8]) -> Result<(), String> {
    if space.len() + text.len() > SPACE {
        return Err(full());
    }
    space.extend_from_slice(text);
    Ok(())
}

fn full() -> String {
    format!("a line has become longer than {SPACE} bytes")
}
