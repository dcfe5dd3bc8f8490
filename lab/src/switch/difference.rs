//! Compares two answers to the same request.

use std::collections::BTreeSet;

use super::answer::{Answer, BODY_MAX, Fault};
use super::neutral::{Plain, as_text};

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// Whether there is a whole answer.
    Answer,
    Status,
    /// The version of HTTP in the status line.
    Version,
    Reason,
    /// A field, by its name in lower case.
    Field(String),
    /// Whether the length is told, or which one, of an answer without a body to count.
    Length,
    Body,
    /// Whether the connection stays open.
    Persistence,
    /// A line of an access log.
    AccessLog,
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Answer => "answer",
            Self::Status => "status",
            Self::Version => "version",
            Self::Reason => "reason phrase",
            Self::Field(name) => name,
            Self::Length => "length",
            Self::Body => "body",
            Self::Persistence => "connection",
            Self::AccessLog => "access log",
        })
    }
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) what: What,
    /// Apache's, in short.
    pub(crate) apache: String,
    /// Tsubame's, in short.
    pub(crate) tsubame: String,
}

/// An answer in both forms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) answer: Answer,
    pub(crate) plain: Plain,
}

impl Told {
    /// The bytes of both bodies.
    pub(crate) fn size(&self) -> usize {
        self.answer.body.len() + self.plain.body.len()
    }

    /// Forgets all but the beginning of both bodies.
    pub(crate) fn shorten(&mut self, most: usize) {
        for body in [&mut self.answer.body, &mut self.plain.body] {
            body.truncate(most);
            body.shrink_to_fit();
        }
    }
}

/// The most characters of a value that is shown.
const SHOWN_MAX: usize = 200;

/// The differences between Apache's and Tsubame's answer; none if they are the same. A difference in what comes first
/// (whether there is an answer, its status) makes others uninteresting.
pub(crate) fn differences(method: &str, apache: &Told, tsubame: &Told) -> Vec<Difference> {
    let (theirs, ours) = (&apache.answer, &tsubame.answer);
    let mut found = Vec::new();
    let fault = |answer: &Answer| answer.fault.map_or("whole", Fault::told).to_owned();
    match (theirs.fault, ours.fault) {
        (None, None) => {}
        // Nobody knows whether two answers that never came would have been the same.
        (Some(one), Some(other)) if one == other => {
            let both = format!("{}, and neither is Apache's", other.told());
            found.push(Difference { what: What::Answer, apache: fault(theirs), tsubame: both });
            return found;
        }
        _ => {
            found.push(Difference { what: What::Answer, apache: fault(theirs), tsubame: fault(ours) });
            return found;
        }
    }
    if theirs.status != ours.status {
        let (apache, tsubame) = (theirs.status.to_string(), ours.status.to_string());
        found.push(Difference { what: What::Status, apache, tsubame });
        return found;
    }
    if theirs.minor != ours.minor {
        let [apache, tsubame] = [theirs, ours].map(|answer| format!("HTTP/1.{}", answer.minor));
        found.push(Difference { what: What::Version, apache, tsubame });
    }
    if theirs.reason != ours.reason {
        let (apache, tsubame) = (theirs.reason.clone(), ours.reason.clone());
        found.push(Difference { what: What::Reason, apache, tsubame });
    }
    let names: BTreeSet<&String> = apache.plain.fields.keys().chain(tsubame.plain.fields.keys()).collect();
    for name in names {
        let value =
            |told: &Told| told.plain.fields.get(name).map_or_else(|| "absent".to_owned(), |all| all.join(" | "));
        let is_same = apache.plain.fields.get(name) == tsubame.plain.fields.get(name);
        let what = What::Field(name.clone());
        if !is_same && !are_same_moment(name, theirs, ours) {
            found.push(Difference { what, apache: value(apache), tsubame: value(tsubame) });
        } else if is_same && name == "set-cookie" && !live_equally_long(theirs, ours) {
            let [apache, tsubame] = [theirs, ours].map(|answer| answer.all(name).join(" | "));
            found.push(Difference { what, apache, tsubame });
        }
    }
    let has_body = method != "HEAD" && !matches!(theirs.status, 204 | 304);
    if !has_body {
        let length = |answer: &Answer| answer.field("content-length").unwrap_or("not told").to_owned();
        let (apache, tsubame) = (length(theirs), length(ours));
        if apache != tsubame {
            found.push(Difference { what: What::Length, apache, tsubame });
        }
    } else if theirs.length != ours.length && theirs.length.max(ours.length) > BODY_MAX as u64 {
        let (apache, tsubame) = (format!("{} bytes", theirs.length), format!("{} bytes", ours.length));
        found.push(Difference { what: What::Body, apache, tsubame });
    } else if apache.plain.body != tsubame.plain.body {
        let (one, other) = first_difference(&apache.plain.body, &tsubame.plain.body);
        found.push(Difference { what: What::Body, apache: one, tsubame: other });
    }
    let keeps = |answer: &Answer| if answer.keeps { "stays open" } else { "closes" }.to_owned();
    if theirs.keeps != ours.keeps {
        found.push(Difference { what: What::Persistence, apache: keeps(theirs), tsubame: keeps(ours) });
    }
    found
}

/// The first line that differs, of both, or the lengths if it is no text.
fn first_difference(one: &[u8], other: &[u8]) -> (String, String) {
    match (std::str::from_utf8(one), std::str::from_utf8(other)) {
        (Ok(one), Ok(other)) => {
            let at = one.lines().zip(other.lines()).take_while(|(one, other)| one == other).count();
            match (one.lines().nth(at), other.lines().nth(at)) {
                (Some(one), Some(other)) => around_difference(one, other),
                (None, None) => ("another end of a line".to_owned(), "another end of a line".to_owned()),
                (one, other) => {
                    let line = |line: Option<&str>| line.map_or_else(|| "ends".to_owned(), |line| short(line.trim()));
                    (line(one), line(other))
                }
            }
        }
        _ => {
            let at = one.iter().zip(other).take_while(|(one, other)| one == other).count();
            let told = |all: &[u8]| format!("{} bytes, the same up to byte {at}", all.len());
            (told(one), told(other))
        }
    }
}

/// Two lines from a little before the place where they differ.
pub(crate) fn around_difference(one: &str, other: &str) -> (String, String) {
    const BEFORE: usize = 60;
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let from = same.saturating_sub(BEFORE);
    let shown = |line: &str| {
        let rest: String = line.chars().skip(from).collect();
        let rest = short(rest.trim_start());
        if from > 0 { format!("…{rest}") } else { rest }
    };
    (shown(one), shown(other))
}

/// How far two moments may be apart, relative to the moments of their answers, in seconds.
const MOMENTS_MAX: i64 = 3;

/// Whether two values are moments with the same distance from the moments of their answers: a page that expires in a month
/// expires a little later when it is asked a little later.
fn are_same_moment(name: &str, theirs: &Answer, ours: &Answer) -> bool {
    if name != "expires" || [theirs, ours].iter().any(|answer| answer.all(name).len() != 1) {
        return false;
    }
    let distance = |answer: &Answer| Some(moment(answer.field(name)?)? - moment(answer.field("date")?)?);
    distance(theirs).zip(distance(ours)).is_some_and(|(one, other)| (one - other).abs() <= MOMENTS_MAX)
}

/// The seconds since 1970 of a date in a field; a cookie may have it with `-` between day, month and year.
fn moment(text: &str) -> Option<i64> {
    jiff::fmt::rfc2822::parse(&text.replace('-', " ")).ok().map(|zoned| zoned.timestamp().as_second())
}

/// Whether the cookies of two answers, which are the same otherwise, expire at the same moments, or equally long after their
/// answers.
fn live_equally_long(theirs: &Answer, ours: &Answer) -> bool {
    let expires = |cookie: &str| {
        let mut attributes = cookie.split(';').skip(1).filter_map(|attribute| attribute.trim().split_once('='));
        attributes.find(|(name, _)| name.eq_ignore_ascii_case("expires")).map(|(_, value)| value.trim().to_owned())
    };
    let lives = |answer: &Answer, value: Option<&String>| Some(moment(value?)? - moment(answer.field("date")?)?);
    theirs.all("set-cookie").into_iter().zip(ours.all("set-cookie")).all(|(one, other)| {
        let (one, other) = (expires(one), expires(other));
        let both = lives(theirs, one.as_ref()).zip(lives(ours, other.as_ref()));
        one == other || both.is_none_or(|(one, other)| (one - other).abs() <= MOMENTS_MAX)
    })
}

/// A text of bounded length.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Takes out of `compared` what two answers of the same server to the same request have differently: what is left of the
/// differences is not the work of time, chance or a counter. The names of what was taken out are returned.
///
/// `again` is the second answer of the server that gave `first`.
pub(crate) fn leave_out_what_varies(first: &mut Told, again: &Told, compared: &mut Told) -> Vec<What> {
    let mut varying = Vec::new();
    if first.answer.status != again.answer.status || first.answer.fault != again.answer.fault {
        varying.push(What::Status);
        // Either of the two is Apache's answer; any other one is not.
        let is_again =
            |told: &Told| told.answer.status == again.answer.status && told.answer.fault == again.answer.fault;
        if is_again(compared) {
            *first = again.clone();
        }
        return varying;
    }
    let names: Vec<String> = first.plain.fields.keys().chain(again.plain.fields.keys()).cloned().collect();
    for name in names {
        if first.plain.fields.get(&name) == again.plain.fields.get(&name) {
            continue;
        }
        leave_out_of_field(&name, first, again, compared);
        if !varying.contains(&What::Field(name.clone())) {
            varying.push(What::Field(name));
        }
    }
    if first.plain.body != again.plain.body {
        varying.push(What::Body);
        match masked(&first.plain.body, &again.plain.body, &compared.plain.body) {
            Some(both) => (first.plain.body, compared.plain.body) = both,
            // Nothing can be said about pictures, say, but that there is one.
            None if first.plain.body.is_empty() == compared.plain.body.is_empty() => {
                (first.plain.body, compared.plain.body) = Default::default();
            }
            None => {}
        }
    }
    let length = |told: &Told| told.answer.field("content-length").map(str::to_owned);
    let (is_same_length, live_alike) =
        (length(first) == length(again), live_equally_long(&first.answer, &again.answer));
    let mut forget = |varying: &[&str]| {
        for told in [&mut *first, &mut *compared] {
            told.answer.fields.retain(|(name, _)| !varying.iter().any(|own| name.eq_ignore_ascii_case(own)));
        }
    };
    if !is_same_length {
        forget(&["content-length"]);
        varying.push(What::Length);
    }
    if !live_alike {
        forget(&["set-cookie"]);
    }
    varying
}

/// Takes out of a field what two answers of the same server have differently there: of a cookie its value, of others the words
/// that vary, and the whole field if it comes and goes.
fn leave_out_of_field(name: &str, first: &mut Told, again: &Told, compared: &mut Told) {
    let own = |told: &Told| told.plain.fields.get(name).cloned();
    let (Some(ones), Some(others)) = (own(first), own(again).filter(|others| !others.is_empty())) else {
        for told in [first, compared] {
            told.plain.fields.remove(name);
        }
        return;
    };
    let Some(ours) = own(compared).filter(|ours| ours.len() == ones.len() && ours.len() == others.len()) else {
        return;
    };
    let mask = |((one, other), ours): ((&String, &String), &String)| match name {
        "set-cookie" => (shape(one), shape(ours)),
        _ if one == other => (one.clone(), ours.clone()),
        _ => masked_line(one, other, ours),
    };
    let (ones, ours) = ones.iter().zip(&others).zip(&ours).map(mask).unzip();
    first.plain.fields.insert(name.to_owned(), ones);
    compared.plain.fields.insert(name.to_owned(), ours);
}

/// A cookie without its value.
pub(crate) fn shape(cookie: &str) -> String {
    let (first, attributes) = cookie.split_once(';').unwrap_or((cookie, ""));
    format!("{}=…;{attributes}", first.split('=').next().unwrap_or_default())
}

/// The first and the third text without what is not the same in the first and the second; none if one is no text.
fn masked(first: &[u8], again: &[u8], compared: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let lines = |text: &[u8]| as_text(text).map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let (mut first, mut again, mut compared) = (lines(first)?, lines(again)?, lines(compared)?);
    if first.len() != again.len() {
        // Lines come and go: those that both Apaches have, in whatever order, have to be there.
        let common: BTreeSet<&String> =
            first.iter().collect::<BTreeSet<_>>().intersection(&again.iter().collect()).copied().collect();
        let kept = |lines: &[String]| {
            let own: BTreeSet<&String> = lines.iter().filter(|line| common.contains(line)).collect();
            own.into_iter().map(String::as_str).collect::<Vec<_>>().join("\n").into_bytes()
        };
        return Some((kept(&first), kept(&compared)));
    }
    // The same lines in another order: a table whose order is the work of chance.
    if sorted(&first) == sorted(&again) {
        [&mut first, &mut again, &mut compared].into_iter().for_each(|lines| lines.sort_unstable());
    }
    for (at, (one, other)) in first.iter_mut().zip(&again).enumerate().filter(|(_, (one, other))| one != other) {
        let Some(ours) = compared.get_mut(at) else { continue };
        (*one, *ours) = masked_line(one, other, ours);
    }
    Some((first.join("\n").into_bytes(), compared.join("\n").into_bytes()))
}

/// The first and the third line without the words that are not the same in the first and the second; nothing of a line whose
/// number of words varies.
fn masked_line(first: &str, again: &str, compared: &str) -> (String, String) {
    let [first, again, compared] = [first, again, compared].map(words);
    if first.len() != again.len() || first.len() != compared.len() {
        // What comes before and behind the part that varies has to be there.
        let before = first.iter().zip(&again).take_while(|(one, other)| one == other).count();
        let rest = first.len().min(again.len()) - before;
        let behind =
            first.iter().rev().zip(again.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
        let ends = |line: &[&str]| {
            let before = before.min(line.len());
            let behind = behind.min(line.len() - before);
            format!("{}…{}", line[..before].concat(), line[line.len() - behind..].concat())
        };
        return (ends(&first), ends(&compared));
    }
    if sorted(&first) == sorted(&again) {
        return (sorted(&first).concat(), sorted(&compared).concat());
    }
    let without = |line: &[&str]| -> String {
        let kept = line.iter().enumerate().map(|(at, word)| if first[at] == again[at] { *word } else { "…" });
        kept.collect()
    };
    (without(&first), without(&compared))
}

fn sorted<Text: Ord + Clone>(all: &[Text]) -> Vec<Text> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    sorted
}

/// Words, and the characters between them, each by itself: an object of JSON has the same ones in any order.
fn words(text: &str) -> Vec<&str> {
    let parts = text.split_inclusive(|char: char| !char.is_ascii_alphanumeric());
    let divided = parts.flat_map(|part| {
        let end = part.char_indices().next_back().filter(|(_, char)| !char.is_ascii_alphanumeric());
        let (word, between) = part.split_at(end.map_or(part.len(), |(at, _)| at));
        [word, between]
    });
    divided.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: u16, fields: &[(&str, &str)], body: &str) -> Told {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let answer = Answer { status, fields, body: body.into(), keeps: true, ..Answer::default() };
        Told { plain: crate::switch::neutral::Neutral::default().plain(&answer), answer }
    }

    fn found(method: &str, apache: &Told, tsubame: &Told) -> Vec<String> {
        let all = differences(method, apache, tsubame);
        all.iter().map(|one| format!("{}: {} / {}", one.what, one.apache, one.tsubame)).collect()
    }

    #[test]
    fn answers_are_compared() {
        let one = told(200, &[("A", "1"), ("Date", "x"), ("Content-Length", "3")], "a\nb");
        assert!(found("GET", &one, &one).is_empty());
        let other = told(200, &[("B", "2"), ("Date", "y")], "a\nc");
        assert_eq!(found("GET", &one, &other), ["a: 1 / absent", "b: absent / 2", "body: b / c"]);
        assert_eq!(found("HEAD", &one, &told(200, &[("A", "1")], "")), ["length: 3 / not told"]);
        assert_eq!(found("GET", &one, &told(404, &[], "")), ["status: 200 / 404"], "the status says it all");
        let late = Told { answer: Answer { fault: Some(Fault::Late), ..Answer::default() }, ..one.clone() };
        assert_eq!(found("GET", &one, &late), ["answer: whole / no answer in time"]);
    }

    #[test]
    fn versions_and_lives_of_cookies_are_compared() {
        let one = told(200, &[], "");
        let old = Told { answer: Answer { minor: 1, ..one.answer.clone() }, ..one.clone() };
        assert_eq!(found("GET", &old, &one), ["version: HTTP/1.1 / HTTP/1.0"]);
        let cookie = |asked: &str, cookie: &str| told(200, &[("Date", asked), ("Set-Cookie", cookie)], "");
        let [noon, later] = ["12:00:00", "12:00:09"].map(|time| format!("Mon, 30 Nov 2026 {time} GMT"));
        let hour = cookie(&noon, "a=b; Expires=Mon, 30-Nov-2026 13:00:00 GMT");
        for (asked, other, expected) in [
            (&later, "a=b; expires=Mon, 30 Nov 2026 13:00:10 GMT", 0),
            (&later, "a=b; Expires=Mon, 30-Nov-2026 13:00:00 GMT", 0),
            (&noon, "a=b; Expires=Tue, 01-Dec-2026 12:00:00 GMT", 1),
            (&noon, "a=b", 1),
        ] {
            assert_eq!(found("GET", &hour, &cookie(asked, other)).len(), expected, "{other}");
        }
    }

    #[test]
    fn what_does_not_vary_in_a_field_or_a_page_has_to_be_there() {
        let policy = |value: &str| told(200, &[("Content-Security-Policy", value)], "");
        for (ours, expected) in [("default-src 'none' nonce-c", 0), ("default-src 'self' nonce-c", 1), ("", 1)] {
            let mut first = policy("default-src 'none' nonce-a");
            let mut ours = if ours.is_empty() { told(200, &[], "") } else { policy(ours) };
            leave_out_what_varies(&mut first, &policy("default-src 'none' nonce-b"), &mut ours);
            assert_eq!(found("GET", &first, &ours).len(), expected);
        }
        let latin = |body: &[u8]| {
            let answer = Answer { status: 200, body: body.to_vec(), ..Answer::default() };
            Told { plain: crate::switch::neutral::Neutral::default().plain(&answer), answer }
        };
        for (ours, expected) in [(&b"caf\xe9 3 o'clock"[..], 0), (b"caf\xe9 3", 1), (b"", 1)] {
            let mut first = latin(b"caf\xe9 1 o'clock");
            let mut ours = latin(ours);
            leave_out_what_varies(&mut first, &latin(b"caf\xe9 2 o'clock"), &mut ours);
            assert_eq!(found("GET", &first, &ours).len(), expected);
        }
        let (mut first, again, mut ours) = (latin(b"\xff\0\x01"), latin(b"\xff\0\x02"), latin(b""));
        leave_out_what_varies(&mut first, &again, &mut ours);
        assert_eq!(found("GET", &first, &ours).len(), 1, "there is a picture");
    }

    #[test]
    fn what_varies_by_itself_is_left_out() {
        let mut first = told(200, &[("X-Id", "1"), ("A", "b")], "it is 10:00 now, 5 visitors");
        let again = told(200, &[("X-Id", "2"), ("A", "b")], "it is 10:01 now, 6 visitors");
        let mut ours = told(200, &[("X-Id", "3"), ("A", "b")], "it is 10:02 now, 7 visitors");
        let varying = leave_out_what_varies(&mut first, &again, &mut ours);
        assert_eq!(varying, [What::Field("x-id".to_owned()), What::Body]);
        assert!(found("GET", &first, &ours).is_empty());
        let [mut first, again, mut ours] = [200, 503, 503].map(|status| told(status, &[], ""));
        assert_eq!(leave_out_what_varies(&mut first, &again, &mut ours), [What::Status]);
        assert!(found("GET", &first, &ours).is_empty(), "Apache has both statuses");
        let [mut first, again, mut ours] = [200, 503, 404].map(|status| told(status, &[], ""));
        leave_out_what_varies(&mut first, &again, &mut ours);
        assert_eq!(found("GET", &first, &ours), ["status: 200 / 404"], "but not this one");
        let [mut first, again, mut ours] =
            ["id 12 price 10 EUR", "id 7 x price 10 EUR", "ERROR"].map(|body| told(200, &[], body));
        leave_out_what_varies(&mut first, &again, &mut ours);
        assert_eq!(found("GET", &first, &ours).len(), 1, "what does not vary has to be there");
        let [mut first, again, mut ours] = ["a\nb\nc", "a\nc", "a"].map(|body| told(200, &[], body));
        leave_out_what_varies(&mut first, &again, &mut ours);
        assert_eq!(found("GET", &first, &ours).len(), 1, "lines that stay have to be there");
        let again = told(200, &[("X-Id", "2"), ("A", "b")], "it is 10:01 now, 6 visitors");
        let mut ours = told(200, &[("X-Id", "3"), ("A", "c")], "it was 10:02 now, 7 visitors");
        let mut first = told(200, &[("X-Id", "1"), ("A", "b")], "it is 10:00 now, 5 visitors");
        leave_out_what_varies(&mut first, &again, &mut ours);
        assert_eq!(found("GET", &first, &ours).len(), 2);
        for bodies in [
            ["{a, b,}\nx", "{b, a,}\nx", "{a, b,}\nx"],
            ["{\"a\":\"1\",\"b\":2,\"c\":3}", "{\"b\":2,\"a\":\"1\",\"c\":3}", "{\"c\":3,\"b\":2,\"a\":\"1\"}"],
        ] {
            let [mut first, again, mut ours] = bodies.map(|body| told(200, &[], body));
            leave_out_what_varies(&mut first, &again, &mut ours);
            assert!(found("GET", &first, &ours).is_empty(), "the order is the work of chance: {bodies:?}");
        }
    }
}
