//! The frame of a page for a browser: its head, its reasons to doubt, its lists, its end.

use std::ffi::OsStr;

use crate::machine::host::Host;
use crate::screen::table::escape;
use crate::screen::text::counted;

/// The style sheet of every page.
pub(crate) const STYLE: &str = include_str!("page.css");

/// More reasons to doubt than this are collapsed.
const DOUBTS_OPEN: usize = 3;

/// The page up to its verdict, and to the line that gives the time and place of the measurement.
pub(crate) fn begin(title: &str, verdict: &str, when: &str, host: &Host) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{0}</title>\n\
         <style>\n{STYLE}</style></head>\n<body><h1>{0}</h1>\n\
         <p class=\"verdict\">{1}</p>\n<p class=\"soft\">{2}, on {3} ({4} cores, {5} MiB of memory, {6}, Linux {7})</p>\n",
        escape(title),
        escape(verdict),
        escape(when),
        escape(&host.cpu),
        host.cores,
        host.memory_mib,
        escape(&host.system),
        escape(&host.kernel)
    )
}

/// A verdict that says in the same sentence how many reasons there are to doubt it.
pub(crate) fn doubted(verdict: &str, doubts: usize) -> String {
    let sentence = verdict.trim_end_matches('.');
    match doubts {
        0 => verdict.to_owned(),
        1 => format!("{sentence}, but there is one reason to doubt that."),
        many => format!("{sentence}, but there are {many} reasons to doubt that."),
    }
}

/// The end of a page that one command has made: that command.
pub(crate) fn end() -> String {
    format!("<h2>Command</h2>\n<pre>{}</pre>\n</body></html>\n", escape(&command()))
}

/// The command line of this program, for a shell.
fn command() -> String {
    std::env::args_os().map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// A word for a shell; in quotation marks if it has other characters than those that mean only themselves.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,@%+".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Reasons to doubt the figures below: collapsed if there are many.
pub(crate) fn reasons(items: &[String]) -> String {
    let list: String = items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
    match items.len() {
        0 => String::new(),
        few if few <= DOUBTS_OPEN && list.len() < 800 => {
            format!("<div class=\"doubt\"><strong>Reasons to doubt</strong><ul>{list}</ul></div>\n")
        }
        many => format!(
            "<details class=\"doubt\"><summary><strong>{} to doubt</strong></summary><ul>{list}</ul></details>\n",
            counted(many as u64, "reason")
        ),
    }
}

/// A heading and a list; nothing without items.
pub(crate) fn list(heading: &str, items: &[String]) -> String {
    let list = unordered("list", items);
    if list.is_empty() { list } else { format!("<h2>{heading}</h2>\n{list}") }
}

/// A list of a class; nothing without items.
pub(crate) fn unordered(class: &str, items: &[String]) -> String {
    let list: String = items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
    if list.is_empty() { list } else { format!("<ul class=\"{class}\">{list}</ul>\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["-c", "p99 > 50ms", "it's", "", "http://a/?b=c&d"].map(|word| quoted(OsStr::new(word)));
        assert_eq!(words, ["-c", "'p99 > 50ms'", "'it'\\''s'", "''", "'http://a/?b=c&d'"]);
    }

    #[test]
    fn doubts_belong_to_the_verdict() {
        let told = [0, 1, 2].map(|doubts| doubted("It is so.", doubts));
        assert_eq!(told[0], "It is so.");
        assert_eq!(told[1], "It is so, but there is one reason to doubt that.");
        assert_eq!(told[2], "It is so, but there are 2 reasons to doubt that.");
    }
}
