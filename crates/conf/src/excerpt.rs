//! The source line of an error, with the faulty part marked.

use std::ops::Range;

use crate::lines::physical_lines;
use crate::source::Origin;
use crate::words::{place_within, places};

/// The most physical lines of one logical line that are shown.
const LINES_MAX: usize = 4;

/// The part of its line that an error is about. Words are counted from 0, the directive's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spot {
    /// The whole line.
    #[default]
    Line,
    /// A word, or the end of the line if it has fewer words.
    Word(usize),
    /// The end of the line, where a word is missing.
    End,
    /// The words from this one to the end.
    From(usize),
    /// A byte in the value of a word: the position of an error in a regular expression.
    Byte(usize, usize),
    /// Some bytes in the value of a word, from the first to the one after the last: a token of an expression.
    Bytes(usize, u32, u32),
}

impl Spot {
    /// The part of a line in which `number` words stand in front of those that this one counts.
    pub(crate) fn behind(self, number: usize) -> Spot {
        match self {
            Spot::Line | Spot::End => self,
            Spot::Word(at) => Spot::Word(at + number),
            Spot::From(at) => Spot::From(at + number),
            Spot::Byte(at, byte) => Spot::Byte(at + number, byte),
            Spot::Bytes(at, begin, end) => Spot::Bytes(at + number, begin, end),
        }
    }
}

/// Physical lines of a configuration, with marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt(pub Vec<Marked>);

/// A physical line of an excerpt, and the part of it that is marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Its number in the file, counted from 1.
    pub number: u32,
    /// Its text, as [`http::text`] maps it, without the backslash that joins it to the next line.
    pub text: String,
    /// The marked bytes of `text`; the range may be empty and at the end.
    pub mark: Option<Range<usize>>,
}

impl Excerpt {
    /// The excerpt at `origin`: the first physical line, which contains the directive's name, and those with a marked
    /// part. `None` if the text is not available.
    pub(crate) fn of(origin: &Origin, spot: Spot) -> Option<Excerpt> {
        let bytes = &origin.source.text[..];
        let pieces = physical_lines(bytes, origin.line).into_iter();
        let pieces: Vec<(u32, String)> =
            pieces.map(|(number, place)| (number, http::text::from_bytes(&bytes[place]).into_owned())).collect();
        let line: String = pieces.iter().map(|(_, text)| text.as_str()).collect();
        let meant = marked_range(&line, spot)?;
        let (mut lines, mut begin) = (Vec::new(), 0);
        for (number, text) in pieces {
            let end = begin + text.len();
            let is_meant = match meant.is_empty() {
                true => (begin..=end).contains(&meant.start),
                false => meant.start < end && begin < meant.end,
            };
            let mark = is_meant.then(|| meant.start.max(begin) - begin..meant.end.min(end) - begin);
            let mark = mark.map(|mark| trimmed(&text, mark)).filter(|mark| meant.is_empty() || !mark.is_empty());
            if lines.is_empty() || mark.is_some() {
                lines.push(Marked { number, text, mark });
            }
            begin = end;
        }
        lines.truncate(LINES_MAX);
        Some(Excerpt(lines))
    }
}

/// The bytes of a logical line to mark; `None` if the line is empty.
fn marked_range(line: &str, spot: Spot) -> Option<Range<usize>> {
    let mut words = places(line);
    let end = words.last()?.end;
    // The closing bracket of a section does not belong to a word.
    if line[words[0].clone()].starts_with('<')
        && let Some(last) = words.last_mut().filter(|last| line[last.start..last.end].ends_with('>'))
    {
        last.end -= 1;
    }
    let last = words.iter().rfind(|word| !word.is_empty()).map_or(end, |word| word.end);
    // A variable may expand to several words, which changes the numbers of those after it.
    let sure = |number: usize| match words.iter().take(number).position(|word| line[word.clone()].contains("${")) {
        Some(variable) => Err(words[variable].start..last),
        None => words.get(number).cloned().ok_or(end..end),
    };
    let place = match spot {
        Spot::Line => Ok(words[0].start..end),
        Spot::End => sure(words.len()),
        Spot::Word(number) => sure(number),
        Spot::From(number) => sure(number).map(|word| word.start..last),
        Spot::Byte(number, at) => sure(number).map(|word| {
            let written = &line[word.clone()];
            if written.contains("${") {
                return word;
            }
            let place = place_within(written, at);
            let (start, len) = (word.start + place, written[place..].chars().next().map_or(0, char::len_utf8));
            start..start + len
        }),
        Spot::Bytes(number, from, to) => sure(number).map(|word| {
            let written = &line[word.clone()];
            if written.contains("${") {
                return word;
            }
            // After the last byte stands the quote that ends the word.
            let (begin, end) = (place_within(written, from as usize), place_within(written, to as usize));
            word.start + begin..word.start + end.max(begin)
        }),
    };
    Some(place.unwrap_or_else(|instead| instead))
}

/// A range of a text without the white space at its ends.
fn trimmed(text: &str, part: Range<usize>) -> Range<usize> {
    let inside = &text[part.clone()];
    let start = part.start + inside.len() - inside.trim_start().len();
    start..(start + inside.trim().len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::source::Source;

    /// Each line of the excerpt, with the marked part in brackets.
    fn shown(text: &str, line: u32, spot: Spot) -> Vec<String> {
        let source = Source { text: Arc::new(text.into()), ..Source::new("f") };
        let excerpt = Excerpt::of(&Origin { source: Arc::new(source), line }, spot);
        let lines = excerpt.map_or_else(Vec::new, |excerpt| excerpt.0);
        let brackets = |Marked { number, text, mark }: Marked| match mark {
            Some(mark) => format!("{number}:{}[{}]{}", &text[..mark.start], &text[mark.clone()], &text[mark.end..]),
            None => format!("{number}:{text}"),
        };
        lines.into_iter().map(brackets).collect()
    }

    #[test]
    fn the_part_that_is_meant() {
        for (line, spot, want) in [
            ("\tListen  80 x", Spot::Word(0), "1:\t[Listen]  80 x"),
            ("Listen 80 x y", Spot::From(2), "1:Listen 80 [x y]"),
            ("Alias \"/a b\" 'c'  ", Spot::Word(2), "1:Alias \"/a b\" ['c']  "),
            ("Alias /a", Spot::Word(2), "1:Alias /a[]"),
            ("<Directory \"/x\">", Spot::Word(1), "1:<Directory [\"/x\"]>"),
            ("<Directory /x>", Spot::From(1), "1:<Directory [/x]>"),
            ("<Directory>", Spot::Word(0), "1:[<Directory]>"),
            ("</Directory>", Spot::Line, "1:[</Directory>]"),
            ("RewriteRule \"a\\\"(b\" -", Spot::Byte(1, 2), "1:RewriteRule \"a\\\"[(]b\" -"),
            ("RewriteRule a( -", Spot::Byte(1, 2), "1:RewriteRule a([] -"),
            ("<If \"a == b\">", Spot::Bytes(1, 2, 4), "1:<If \"a [==] b\">"),
            ("Listen ${A} b c", Spot::Word(3), "1:Listen [${A} b c]"),
            ("Listen ${A} b c", Spot::Word(1), "1:Listen [${A}] b c"),
            ("Listen ${A(} b", Spot::Byte(1, 1), "1:Listen [${A(}] b"),
            ("ServerName 日本 語", Spot::Word(2), "1:ServerName 日本 [語]"),
        ] {
            assert_eq!(shown(line, 1, spot), [want], "{line}");
        }
        assert_eq!(shown("\n\n", 1, Spot::Line), [""; 0]);
        assert_eq!(shown("a", 2, Spot::Line), [""; 0]);
    }

    #[test]
    fn a_line_that_goes_on() {
        let text = "# c\nAlias \\\n  /a \\\n\t/b c\nX\n";
        assert_eq!(shown(text, 4, Spot::Word(0)), ["2:[Alias] "]);
        assert_eq!(shown(text, 4, Spot::Word(3)), ["2:Alias ", "4:\t/b [c]"]);
        assert_eq!(shown(text, 4, Spot::From(1)), ["2:Alias ", "3:  [/a] ", "4:\t[/b c]"]);
        assert_eq!(shown(text, 4, Spot::Word(4)), ["2:Alias ", "4:\t/b c[]"]);
        // A word may continue on the next line, too.
        assert_eq!(shown("Li\\\nsten x", 2, Spot::Word(0)), ["1:[Li]", "2:[sten] x"]);
    }
}
