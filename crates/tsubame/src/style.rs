//! Text for people: colours if they are wanted, and no other control sequences for the terminal.

use std::fmt::{self, Display};
use std::io::IsTerminal;

/// Whether text is marked up for a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style(pub(crate) bool);

impl Style {
    /// For standard output: a terminal, unless `NO_COLOR` is set to anything (no-color.org).
    pub(crate) fn of_output() -> Style {
        Style::of(&std::io::stdout())
    }

    /// For standard error: a terminal, unless `NO_COLOR` is set.
    pub(crate) fn of_errors() -> Style {
        Style::of(&std::io::stderr())
    }

    fn of(stream: &impl IsTerminal) -> Style {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Style(!refused && stream.is_terminal())
    }

    pub(crate) fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    /// For text that does not count. The text next to it says so too, for output without colours.
    pub(crate) fn struck(self, text: impl Display) -> String {
        self.wrap("2;9", text)
    }

    pub(crate) fn good(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn bad(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        if self.0 { format!("{MARK}[{code}m{text}{MARK}[0m") } else { text.to_string() }
    }
}

/// Stands for the escape character of our own marks until they are on a [`Page`]. No other text contains it:
/// `http::text` keeps bytes in this range, but only those beyond ASCII.
const MARK: char = '\u{10FF1B}';

/// Lines for people, written with `writeln!`. Values may come from anybody's files and requests, so their control
/// characters, including line breaks, are shown as text (`\x1b`).
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    /// Adds a line; the formatted text ends with its line break.
    pub(crate) fn write_fmt(&mut self, line: fmt::Arguments<'_>) {
        let text = line.to_string();
        let line = text.strip_suffix('\n').unwrap_or(&text);
        for c in line.chars() {
            match c {
                MARK => self.0.push('\x1b'),
                '\t' => self.0.push(c),
                _ => self.0.push_str(&shown(c)),
            }
        }
        self.0.push('\n');
    }

    /// The text of the finished page.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// A character in visible form: control characters and bytes that are not UTF-8 are escaped.
pub(crate) fn shown(c: char) -> String {
    let byte = u32::from(c).checked_sub(u32::from(MARK) - 0x1b).filter(|byte| *byte <= 0xff);
    match byte.or_else(|| c.is_control().then_some(c.into())) {
        Some(byte) => format!("\\x{byte:02x}"),
        None => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marks_of_our_own_reach_the_terminal() {
        let mut page = Page::default();
        let name = http::text::from_bytes(b"a\x1b[31m\n\t\x7f\xc2\x9b\xff\xf4\x8f\xbc\x9b.html");
        writeln!(page, "{} é", Style(true).bold(&name));
        writeln!(page);
        let shown = "a\\x1b[31m\\x0a\t\\x7f\\x9b\\xff\\xf4\\x8f\\xbc\\x9b.html";
        assert_eq!(page.finish(), format!("\x1b[1m{shown}\x1b[0m é\n\n"));
    }
}
