//! Differences that are meant: what the list of differences from Apache says about them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::answer::decoded;
use super::ask::Ask;
use super::difference::{Difference, Told, What};
use super::explain::Explanation;

/// A kind of difference, and its entry.
struct Meant {
    /// The entry of `docs/differences.md`.
    entry: &'static str,
    is_it: fn(&Case<'_>) -> bool,
}

const fn meant(entry: &'static str, is_it: fn(&Case<'_>) -> bool) -> Meant {
    Meant { entry, is_it }
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

    /// Whether both pages have a text, before anything was left out.
    fn both_have(&self, text: &str) -> bool {
        let has = |told: &Told| {
            let body = decoded(&told.answer).unwrap_or_else(|| told.answer.body.clone());
            memchr::memmem::find(&body, text.as_bytes()).is_some()
        };
        has(self.apache) && has(self.tsubame)
    }

    fn is_made_by(&self, module: &str) -> bool {
        self.explanation.module.as_deref().is_some_and(|own| own.trim_start_matches("mod_") == module)
    }

    fn is(&self, what: &What) -> bool {
        self.difference.what == *what
    }

    fn is_field(&self, name: &str) -> bool {
        matches!(&self.difference.what, What::Field(own) if own == name)
    }

    /// The value of a field of the request.
    fn value(&self, name: &str) -> Option<&[u8]> {
        let mut fields = self.ask.fields.iter();
        fields.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }
}

/// The entries, each with what makes a difference one of its kind. The first that fits counts.
const MEANT: &[Meant] = &[
    meant("The length of a 412 for HEAD", |case| case.is(&What::Length) && case.statuses() == (412, 412)),
    meant("The length of a short CGI answer", |case| {
        case.is(&What::Length) && case.explanation.runs && case.difference.apache == "not told"
    }),
    meant("Files that are sent as they are", |case| {
        case.is(&What::Length) && case.is_made_by("asis") && case.difference.apache == "not told"
    }),
    meant("Compressed bytes", |case| {
        let is_compressed = case.tsubame.answer.field("content-encoding").is_some();
        is_compressed && (case.is(&What::Length) || case.is_field("content-range"))
    }),
    meant("The length of an error page for HEAD", |case| {
        let is_made = case.apache.answer.status >= 300 || case.is_made_by("status") || case.is_made_by("info");
        case.is(&What::Length) && case.ask.method == "HEAD" && is_made && case.difference.apache == "not told"
    }),
    meant("416 says how long the file is", |case| case.is_field("content-range") && case.statuses() == (416, 416)),
    meant("TRACE answers with the request as it came", |case| case.ask.method == "TRACE" && case.is(&What::Body)),
    meant("405 for a TRACE that is not allowed", |case| case.ask.method == "TRACE" && case.is_field("allow")),
    meant("The methods that AllowMethods allows", |case| {
        let is_refused = case.statuses() == (405, 405) && case.is_made_by("allowmethods");
        let is_shorter = || is_part(&case.difference.tsubame, &case.difference.apache);
        case.is_field("allow") && (is_refused || case.ask.method == "OPTIONS" && is_shorter())
    }),
    meant("417 says that the connection closes", |case| case.is(&What::Persistence) && case.statuses() == (417, 417)),
    meant("An expectation without a body", |case| {
        case.is(&What::Persistence) && case.ask.body.is_empty() && case.value("expect").is_some()
    }),
    meant("Preconditions hold for every page", |case| {
        let is_conditional =
            ["if-none-match", "if-match", "if-modified-since"].iter().any(|name| case.value(name).is_some());
        let is_made = ["status", "info", "autoindex", "ldap", "balancer"].iter().any(|module| case.is_made_by(module));
        case.is(&What::Status)
            && is_conditional
            && is_made
            && case.statuses().0 == 200
            && matches!(case.statuses().1, 304 | 412)
    }),
    meant("Blanks in a list of ranges", |case| {
        let has_gap =
            |value: &[u8]| value.contains(&b' ') || value.windows(2).any(|two| two == b",,") || value.ends_with(b",");
        case.is(&What::Status) && case.statuses() == (200, 206) && case.value("range").is_some_and(has_gap)
    }),
    meant("Two `Host` fields", |case| {
        let hosts = case.ask.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host")).count();
        case.is(&What::Status) && hosts + usize::from(case.ask.host.is_some()) > 1 && case.statuses().1 == 400
    }),
    meant("The closing quote of a negotiated ETag", |case| {
        case.is_field("etag") && case.difference.tsubame == format!("{}\"", case.difference.apache)
    }),
    meant("A very short answer of a script", |case| {
        let is_coding = ["content-encoding", "vary", "etag"].iter().any(|name| case.is_field(name));
        is_coding && case.explanation.runs && case.tsubame.answer.length < VERY_SHORT
    }),
    meant("The status page", |case| case.is(&What::Body) && case.is_made_by("status") && case.both_have("Scoreboard")),
    meant("The info page", |case| {
        case.is(&What::Body) && case.is_made_by("info") && case.both_have("Server Information")
    }),
    meant("A client's name that decides nothing", |case| {
        let is_address = |word: &str| word.parse::<IpAddr>().is_ok();
        case.logged().is_some_and(|(theirs, ours)| is_address(ours) && !is_address(theirs))
    }),
    meant("The path of a refused %2F", |case| {
        let is_escaped = |word: &str| ["%2f", "%00"].iter().any(|byte| word.to_ascii_lowercase().contains(byte));
        case.logged().is_some_and(|(theirs, ours)| is_escaped(ours) && !is_escaped(theirs))
    }),
    meant("ProxyPassInherit Off", |case| case.is(&What::Status) && case.explanation.leaves_out),
    meant("Limits of the main server", |case| {
        let limits =
            ["more header fields than LimitRequestFields", "is longer than LimitRequestLine", "LimitRequestFieldSize"];
        let is_limited = |text: &&str| case.explanation.verdict.contains(*text);
        let (theirs, ours) = case.statuses();
        let is_refusal = |status| matches!(status, 400 | 414);
        case.is(&What::Status) && is_refusal(ours) && !is_refusal(theirs) && limits.iter().any(is_limited)
    }),
    meant("mod_proxy_express", |case| {
        case.is(&What::Status) && case.statuses().1 == 500 && case.is_made_by("proxy_express")
    }),
    meant("A session in a cookie that is hidden", |case| {
        let (theirs, ours) = (&case.difference.apache, &case.difference.tsubame);
        case.is_field("cache-control") && theirs.split(" | ").all(|one| one == ours)
    }),
    meant("The items of a refused request", |case| {
        let status = case.difference.tsubame.split(' ').find(|word| word.len() == 3 && word.starts_with(['4', '5']));
        case.is(&What::AccessLog)
            && status.is_some_and(|status| matches!(status, "400" | "414" | "417" | "501" | "505"))
    }),
];

/// What compression adds to an answer, in bytes: a shorter one is not worth compressing.
const VERY_SHORT: u64 = 128;

/// Whether a list has only elements of a longer one.
fn is_part(list: &str, longer: &str) -> bool {
    let elements = |list: &str| list.split(',').map(|element| element.trim().to_owned()).collect::<BTreeSet<_>>();
    elements(list).is_subset(&elements(longer)) && list != longer
}

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
    fn a_list_is_part_of_another() {
        for (list, longer, is) in
            [("GET,HEAD", "GET,HEAD,POST", true), ("GET, PUT", "GET,POST", false), ("GET", "GET", false)]
        {
            assert_eq!(is_part(list, longer), is, "{list} {longer}");
        }
    }

    #[test]
    fn every_entry_is_documented() {
        let text = include_str!("../../../docs/differences.md");
        for meant in MEANT {
            assert!(text.contains(&format!("**{}", meant.entry)), "docs/differences.md has no entry {:?}", meant.entry);
        }
    }
}
