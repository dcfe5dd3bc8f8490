//! Shows the lines around an error, with carets below the part that is wrong.

use conf::{Excerpt, Marked};
use unicode_width::UnicodeWidthStr as _;

use crate::style::{Page, Style, shown};

/// The maximum length of a line, in columns. A longer line is cut around the marked part.
const COLUMNS_MAX: usize = 100;

/// The number of columns before the marked part of a line that was cut.
const COLUMNS_BEFORE: usize = 30;

const TAB: &str = "    ";

/// Writes an excerpt: the lines with their numbers, and carets below the marked part.
pub(crate) fn marked(page: &mut Page, indent: &str, excerpt: &Excerpt, style: Style) {
    let gutter = |text: &str| style.dim(format!("{indent}{text:>5} |"));
    let mut next = None;
    for line in &excerpt.0 {
        if next.is_some_and(|next| next != line.number) {
            writeln!(page, "{}", gutter("..."));
        }
        next = Some(line.number + 1);
        let Window { text, carets } = Window::of(line);
        writeln!(page, "{} {text}", gutter(&line.number.to_string()));
        if let Some((blanks, count)) = carets {
            writeln!(page, "{} {}{}", gutter(""), " ".repeat(blanks), style.bad("^".repeat(count)));
        }
    }
}

/// The visible part of a line.
struct Window {
    text: String,
    /// The number of columns before the carets, and the number of carets.
    carets: Option<(usize, usize)>,
}

impl Window {
    /// The whole line if it fits; otherwise the text around the marked part.
    fn of(line: &Marked) -> Window {
        let mark = line.mark.clone().unwrap_or_default();
        let (before, rest) = line.text.split_at(mark.start);
        let (meant, after) = rest.split_at(mark.len());
        let is_long = fitting(line.text.chars(), COLUMNS_MAX).1;
        let (mut front, is_cut) = fitting(before.chars().rev(), if is_long { COLUMNS_BEFORE } else { COLUMNS_MAX });
        front.reverse();
        let front = format!("{}{}", if is_cut { "…" } else { "" }, front.concat());
        let room = COLUMNS_MAX.saturating_sub(front.width());
        let (middle, is_cut) = fitting(meant.chars(), room);
        let middle = middle.concat();
        let (behind, is_cut) = match is_cut {
            true => (Vec::new(), true),
            false => fitting(after.chars(), room - middle.width()),
        };
        let text = format!("{front}{middle}{}{}", behind.concat(), if is_cut { "…" } else { "" });
        let carets = line.mark.is_some().then(|| (front.width(), middle.width().max(1)));
        Window { text: text.trim_end().to_string(), carets }
    }
}

/// Characters as they are shown, as many as fit into `columns`; and whether there are more.
fn fitting(chars: impl Iterator<Item = char>, columns: usize) -> (Vec<String>, bool) {
    let (mut fitting, mut used) = (Vec::new(), 0);
    for c in chars {
        let cell = if c == '\t' { TAB.into() } else { shown(c) };
        used += cell.width();
        if used > columns {
            return (fitting, true);
        }
        fitting.push(cell);
    }
    (fitting, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line, with the carets below it.
    fn shown_with(text: &str, part: &str) -> String {
        let start = text.find(part).expect("the part");
        let line = Marked { number: 7, text: text.into(), mark: Some(start..start + part.len()) };
        let mut page = Page::default();
        marked(&mut page, "", &Excerpt(vec![line]), Style(false));
        page.finish()
    }

    #[test]
    fn carets_mark_the_wrong_word() {
        let cases = [
            ("Listen x", "x", "    7 | Listen x\n      |        ^\n"),
            ("\tListen\tx", "x", "    7 |     Listen    x\n      |               ^\n"),
            ("ServerName 日本 語", "語", "    7 | ServerName 日本 語\n      |                 ^^\n"),
            ("A \u{7}bc", "bc", "    7 | A \\x07bc\n      |       ^^\n"),
        ];
        for (text, part, want) in cases {
            assert_eq!(shown_with(text, part), want);
        }
    }

    #[test]
    fn long_lines_are_cut() {
        let text = format!("Alias {} needle {}", "a".repeat(500), "b".repeat(500));
        let shown = shown_with(&text, "needle");
        let [line, carets] = shown.lines().collect::<Vec<_>>()[..] else { panic!("{shown}") };
        assert!(line.starts_with("    7 | …aaa") && line.ends_with("b…"), "{shown}");
        assert_eq!(line.chars().position(|c| c == 'n'), carets.chars().position(|c| c == '^'), "{shown}");
        assert_eq!(carets.matches('^').count(), "needle".len());
        let shown = shown_with(&text, &"b".repeat(500));
        assert!(shown.lines().all(|line| line.chars().count() < 120), "{shown}");
    }
}
