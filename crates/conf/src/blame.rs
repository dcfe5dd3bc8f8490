//! Finds the words of a line that a message is about. The functions of directives return Apache's messages without a
//! position; we derive it from the message and the line.

use crate::directive::Directive;
use crate::error::Error;
use crate::excerpt::Spot;
use crate::expr::Expr;
use crate::pattern::{Flags, Regex};
use crate::words::words;

impl Error {
    /// The same error, with the part of its line that the message is about. `line` is the text after the directive's
    /// name.
    pub(crate) fn located(mut self, row: &Directive, line: &str) -> Error {
        let words = words(line);
        if let Some((number, at, reason)) = bad_pattern(row, &words, &self.message) {
            self.reason = Some(reason.into());
            return self.of(Spot::Byte(number, at));
        }
        if let Some(spot) = bad_condition(&words, &self.message) {
            return self.of(spot);
        }
        if self.message.starts_with("Expected </") {
            return self.of(Spot::Line);
        }
        let spot = wrong_count(row, words.len(), &self.message)
            .or_else(|| named(row, &words, &self.message))
            .unwrap_or(if words.is_empty() { Spot::Word(0) } else { Spot::From(1) });
        self.of(spot)
    }
}

/// The first word that is not a valid regular expression, if the message is about one: its number, the byte of the
/// error, and PCRE2's reason.
fn bad_pattern(row: &Directive, words: &[String], message: &str) -> Option<(usize, usize, String)> {
    let message = message.replace(row.name, "").to_ascii_lowercase();
    if !["regex", "regular expression"].iter().any(|word| message.contains(word)) {
        return None;
    }
    words.iter().enumerate().find_map(|(i, word)| {
        let pattern = word.strip_prefix('!').unwrap_or(word);
        let error = Regex::new(pattern, Flags::default()).err()?;
        let before = word.len() - pattern.len();
        Some((i + 1, before + error.offset(), format!("in the regular expression: {error}")))
    })
}

/// The token of a condition that a message is about: the name in quotes at its end, or the one at which parsing fails.
fn bad_condition(words: &[String], message: &str) -> Option<Spot> {
    let (_, why) = message.split_once("Cannot parse condition clause: ")?;
    let text = words.first()?;
    let quoted = why.rsplit('\'').nth(1).filter(|name| !name.is_empty() && why.ends_with("does not exist"));
    let place = match quoted.and_then(|name| Some((text.find(name)?, name.len()))) {
        Some((begin, length)) => begin..begin + length,
        None => Expr::fault(text)?,
    };
    Some(Spot::Bytes(1, u32::try_from(place.start).ok()?, u32::try_from(place.end).ok()?))
}

/// The text of messages about the number of arguments, after the directive's name, with the maximum number.
const COUNTS: [(&str, usize); 11] = [
    ("takes no arguments", 0),
    ("takes one argument", 1),
    ("takes two arguments", 2),
    ("takes 1-2 arguments", 2),
    ("takes two or three arguments", 3),
    ("takes three arguments", 3),
    ("takes one, two or three arguments", 3),
    ("takes one or three arguments", 3),
    ("requires at least ", usize::MAX),
    ("directive requires additional arguments", usize::MAX),
    ("directive missing closing '>'", usize::MAX),
];

/// The surplus words, or the end of a line that has too few.
fn wrong_count(row: &Directive, count: usize, message: &str) -> Option<Spot> {
    let rest = message.strip_prefix(row.name)?.trim_start_matches(['>', ' ']);
    let (_, most) = COUNTS.into_iter().find(|(begin, _)| rest.starts_with(begin))?;
    Some(if count > most { Spot::From(most + 1) } else { Spot::Word(count + 1) })
}

/// The word that the message repeats: in quotes, at its end, or as a separate word long enough not to match by chance.
fn named(row: &Directive, words: &[String], message: &str) -> Option<Spot> {
    const LONG: usize = 4;
    let rest = message.strip_prefix(row.name).unwrap_or(message);
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':'));
    let is_named = |word: &str| {
        rest.match_indices(word).any(|(at, _)| {
            let (before, after) = (rest[..at].chars().next_back(), rest[at + word.len()..].chars().next());
            let quoted = matches!((before, after), (Some('\''), Some('\'')) | (Some('"'), Some('"')));
            let alone = !is_part(before) && !is_part(after);
            quoted || (alone && (after.is_none() || word.len() >= LONG))
        })
    };
    let number = words.iter().position(|word| !word.is_empty() && is_named(word));
    let number = number.or_else(|| (words.len() == 1).then_some(0));
    number.map(|number| Spot::Word(number + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Phase;
    use crate::{Allowed, Args, row};

    #[test]
    fn the_word_that_a_message_is_about() {
        let two = row("X", Allowed::SERVER, Args::Take2(|_, _, _| Ok(())), "", "");
        for (line, message, want) in [
            ("a b c d", "X takes two arguments", Spot::From(3)),
            ("a", "X takes two arguments", Spot::Word(2)),
            ("", "X takes two arguments", Spot::Word(1)),
            ("a b", "unknown word 'b'", Spot::Word(2)),
            ("a b", "unknown word: b", Spot::Word(2)),
            ("a b", "a bad word of b or c", Spot::From(1)),
            ("on value", "the value is not on", Spot::Word(1)),
            ("one", "it is wrong", Spot::Word(1)),
            ("a( b", "Regular expression could not be compiled.", Spot::Byte(1, 2)),
            ("a !b(", "cannot compile regular expression 'b('", Spot::Byte(2, 3)),
            ("a b", "Regular expression could not be compiled.", Spot::From(1)),
            (
                "\"%{REQUEST_URI} =~ foo\">",
                "Cannot parse condition clause: syntax error, unexpected T_ID",
                Spot::Bytes(1, 18, 21),
            ),
            ("\"true && \">", "Cannot parse condition clause: syntax error, unexpected $end", Spot::Bytes(1, 8, 8)),
            (
                "\"foo(%{REQUEST_URI}) == 'x'\">",
                "Cannot parse condition clause: Function 'foo' does not exist",
                Spot::Bytes(1, 0, 3),
            ),
        ] {
            assert_eq!(Error::new(Phase::Apply, message).located(&two, line).spot, want, "{line}: {message}");
        }
        let error = Error::new(Phase::Apply, "Regex could not be compiled").located(&two, "a[ b");
        assert_eq!(
            error.reason.as_deref(),
            Some("in the regular expression: missing terminating ] for character class at offset 2")
        );
    }
}
