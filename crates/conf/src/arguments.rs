//! Splits the arguments of a directive into the number of words that its row requires.

use crate::directive::Directive;
use crate::refusal::Refusal;
use crate::words::{next_word, words};

/// The words of a line, whose number must be one of `counts`; the message is Apache's.
pub(crate) fn take(row: &Directive, line: &str, counts: &[usize]) -> Result<Vec<String>, Refusal> {
    let words = words(line);
    let least = counts[0];
    if counts.contains(&words.len()) && words[..least].iter().all(|word| !word.is_empty()) {
        return Ok(words);
    }
    let wanted = match counts {
        [1] => "one argument",
        [2] => "two arguments",
        [3] => "three arguments",
        [1, 2] => "1-2 arguments",
        [2, 3] => "two or three arguments",
        [1, 2, 3] => "one, two or three arguments",
        _ => "one or three arguments",
    };
    let message = format!("{} takes {wanted}{}", row.name, help(row));
    let most = counts[counts.len() - 1];
    Err(if words.len() > most { Refusal::surplus(most + 1, message) } else { Refusal::missing(message) })
}

/// The argument of a section without its `>`.
pub(crate) fn section_argument<'a>(name: &str, line: &'a str) -> Result<&'a str, Refusal> {
    let Some(end) = line.rfind('>') else {
        return Err(Refusal::missing(format!("{name}> directive missing closing '>'")));
    };
    Ok(line[..end].trim())
}

pub(crate) fn help(row: &Directive) -> String {
    if row.help.is_empty() { String::new() } else { format!(", {}", row.help) }
}

/// The words up to the first empty one, where Apache's loops stop.
pub(crate) fn until_empty(line: &str) -> Vec<String> {
    let mut rest = line;
    std::iter::from_fn(|| Some(next_word(&mut rest)).filter(|word| !word.is_empty())).collect()
}
