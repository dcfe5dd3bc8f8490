//! Differences that are meant: what the list of differences from Apache says about them.

use std::net::IpAddr;

use super::answer::Answer;
use super::ask::Ask;
use super::difference::{Difference, Told, What};
use super::explain::Explanation;

/// A kind of difference, and its entry.
struct Meant {
    /// The entry of `docs/differences.md`.
    entry: &'static str,
    is_it: fn(&Case<'_>) -> bool,
}

/// A difference with its request and its answers.
pub(crate) struct Case<'c> {
    pub(crate) ask: &'c Ask,
    pub(crate) difference: &'c Difference,
    pub(crate) apache: &'c Told,
    pub(crate) tsubame: &'c Told,
    pub(crate) explanation: &'c Explanation,
}

impl Case<'_> {
    fn statuses(&self) -> (u16, u16) {
        (self.apache.answer.status, self.tsubame.answer.status)
    }

    /// The first words of both log lines that differ.
    fn logged(&self) -> Option<(&str, &str)> {
        let Difference { what, apache, tsubame } = self.difference;
        let mut words = apache.split(' ').zip(tsubame.split(' '));
        words.find(|(one, other)| one != other).filter(|_| *what == What::AccessLog)
    }

    fn is_made_by(&self, module: &str) -> bool {
        self.explanation.module.as_deref().is_some_and(|own| own.trim_start_matches("mod_") == module)
    }

    fn has(&self, name: &str) -> bool {
        self.ask.fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
    }
}

const MEANT: &[Meant] = &[
    Meant {
        entry: "The length of an error page for HEAD",
        is_it: |case| {
            case.difference.what == What::Length
                && case.ask.method == "HEAD"
                && case.apache.answer.status >= 400
                && case.difference.apache == "not told"
        },
    },
    Meant {
        entry: "The length of a 412 for HEAD",
        is_it: |case| {
            case.difference.what == What::Length && case.ask.method == "HEAD" && case.statuses() == (412, 412)
        },
    },
    Meant {
        entry: "416 says how long the file is",
        is_it: |case| case.difference.what == What::Field("content-range".to_owned()) && case.statuses() == (416, 416),
    },
    Meant {
        entry: "TRACE answers with the request as it came",
        is_it: |case| case.ask.method == "TRACE" && case.difference.what == What::Body,
    },
    Meant {
        entry: "405 for a TRACE that is not allowed",
        is_it: |case| case.ask.method == "TRACE" && case.difference.what == What::Field("allow".to_owned()),
    },
    Meant {
        entry: "A client's name that decides nothing",
        is_it: |case| {
            let is_address = |word: &str| word.parse::<IpAddr>().is_ok();
            case.logged().is_some_and(|(theirs, ours)| is_address(ours) && !is_address(theirs))
        },
    },
    Meant { entry: "The status page", is_it: |case| case.difference.what == What::Body && case.is_made_by("status") },
    Meant {
        entry: "The length of a short CGI answer",
        is_it: |case| {
            case.difference.what == What::Length && case.explanation.runs && case.difference.apache == "not told"
        },
    },
    Meant {
        entry: "A very short answer of a script",
        is_it: |case| {
            let is_coding = |name: &str| matches!(name, "content-encoding" | "vary" | "etag");
            let Answer { length, body, .. } = &case.tsubame.answer;
            let is_short = *length < VERY_SHORT && body.len() as u64 == *length;
            is_short && case.explanation.runs && matches!(&case.difference.what, What::Field(name) if is_coding(name))
        },
    },
    Meant {
        entry: "Blanks in a list of ranges",
        is_it: |case| case.difference.what == What::Status && case.statuses() == (200, 206) && case.has("range"),
    },
];

/// What compression adds to an answer, in bytes: a shorter one is not worth compressing.
const VERY_SHORT: u64 = 128;

/// The entry of a difference that is meant.
pub(crate) fn entry(case: &Case<'_>) -> Option<&'static str> {
    MEANT.iter().find(|meant| (meant.is_it)(case)).map(|meant| meant.entry)
}

/// Where to look for the reason of a difference that no entry explains.
pub(crate) fn hint(explanation: &Explanation) -> Option<&'static str> {
    let is_php = explanation.module.as_deref().is_some_and(|module| module.ends_with("php"));
    is_php.then_some(
        "PHP runs as php-cgi under Tsubame, and some applications ask which program they are in (PHP_SAPI): docs/php.md",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_documented() {
        let text = include_str!("../../../docs/differences.md");
        for meant in MEANT {
            assert!(text.contains(&format!("**{}", meant.entry)), "docs/differences.md has no entry {:?}", meant.entry);
        }
    }
}
