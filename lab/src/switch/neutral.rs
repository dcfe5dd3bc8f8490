//! Answers without what belongs to the place and the moment: two servers that answer alike give the same text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::answer::{Answer, decoded};

/// Fields that tell when, where or by whom an answer was made, or how its body was framed.
const LEFT_OUT: [&str; 6] = ["date", "server", "transfer-encoding", "content-length", "connection", "keep-alive"];

/// What stands in the answers of a server for other things.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neutral {
    /// Texts and what they are replaced by, in turn.
    pairs: Vec<(String, String)>,
}

/// The answer without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plain {
    /// Names in lower case, with all values.
    pub(crate) fields: BTreeMap<String, Vec<String>>,
    /// The body without its coding.
    pub(crate) body: Vec<u8>,
}

impl Neutral {
    /// Replaces these texts; an empty one stands for nothing.
    pub(crate) fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut pairs: Vec<(String, String)> = pairs.into_iter().filter(|(from, _)| !from.is_empty()).collect();
        // An address may be the beginning of another one.
        pairs.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        Self { pairs }
    }

    /// The answer in neutral words.
    pub(crate) fn plain(&self, answer: &Answer) -> Plain {
        let boundary = answer.field("content-type").and_then(|value| value.split_once("boundary="));
        let boundary = boundary.map(|(_, boundary)| boundary.trim_matches('"').to_owned());
        // A server signs its pages with what it says in `Server`.
        let signature = answer.field("server").unwrap_or_default();
        let clean = |text: &str| {
            let text = self.text(text);
            let text = match signature {
                "" => text,
                // A name alone may be a word of the page.
                name if !name.contains('/') => text.replace(&format!("{name} Server at"), "SERVER Server at").into(),
                name => text.replace(name, "SERVER").into(),
            };
            match &boundary {
                Some(boundary) if !boundary.is_empty() => text.replace(boundary.as_str(), "BOUNDARY"),
                _ => text.into_owned(),
            }
        };
        let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in &answer.fields {
            let name = name.to_ascii_lowercase();
            if LEFT_OUT.contains(&name.as_str()) {
                continue;
            }
            let value = match name.as_str() {
                // The order of methods depends on a hash.
                "allow" => sorted(value),
                "set-cookie" => cookie(value),
                _ => clean(value),
            };
            fields.entry(name).or_default().push(value);
        }
        let body = decoded(answer).map_or(Cow::Borrowed(&answer.body[..]), Cow::Owned);
        let body = match (std::str::from_utf8(&body), as_text(&body)) {
            (Ok(text), _) => clean(text).into_bytes(),
            (_, Some(text)) => clean(&text).chars().map(|char| u8::try_from(char).unwrap_or(b'?')).collect(),
            _ => match &boundary {
                Some(boundary) if !boundary.is_empty() => replaced(&body, boundary.as_bytes(), b"BOUNDARY"),
                _ => body.into_owned(),
            },
        };
        Plain { fields, body }
    }

    /// A text in neutral words.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut out = Cow::Borrowed(text);
        for (from, to) in &self.pairs {
            if out.contains(from.as_str()) {
                out = out.replace(from.as_str(), to).into();
            }
        }
        out
    }
}

/// A body as text: in UTF-8, or else in ISO 8859-1; none if it has bytes that no text has.
pub(crate) fn as_text(bytes: &[u8]) -> Option<Cow<'_, str>> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Some(text.into());
    }
    let is_of_text = |byte: &u8| *byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c);
    bytes.iter().all(is_of_text).then(|| bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into())
}

/// Bytes with each `from` replaced.
fn replaced(mut bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    while let Some(at) = memchr::memmem::find(bytes, from) {
        out.extend(&bytes[..at]);
        out.extend(to);
        bytes = &bytes[at + from.len()..];
    }
    out.extend(bytes);
    out
}

fn sorted(list: &str) -> String {
    let mut words: Vec<&str> = list.split(',').map(str::trim).collect();
    words.sort_unstable();
    words.join(",")
}

/// A cookie with its attributes in order, and without the moment at which it expires.
fn cookie(value: &str) -> String {
    let mut parts = value.split(';').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let attribute = |part: &str| match part.split_once('=') {
        Some((name, _)) if name.eq_ignore_ascii_case("expires") => "expires".to_owned(),
        Some((name, value)) => format!("{}={value}", name.to_ascii_lowercase()),
        None => part.to_ascii_lowercase(),
    };
    let mut attributes: Vec<String> = parts.map(attribute).collect();
    attributes.sort_unstable();
    format!("{first}; {}", attributes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_other_encodings_are_text() {
        let answer = Answer { body: b"caf\xe9 at 127.83.0.1".to_vec(), ..Answer::default() };
        let neutral = Neutral::new([("127.83.0.1".to_owned(), "ADDRESS".to_owned())]);
        assert_eq!(neutral.plain(&answer).body, b"caf\xe9 at ADDRESS");
        assert_eq!(as_text(b"\xe9\0"), None);
    }

    #[test]
    fn what_belongs_to_a_place_is_replaced() {
        let fields = [
            ("Location", "http://127.83.0.1:4080/a"),
            ("Server", "Apache/2"),
            ("Allow", "POST,GET , HEAD"),
            ("Set-Cookie", "id=4711; Path=/; Expires=Thu, 01 Jan 2026; HttpOnly"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let answer =
            Answer { fields, body: b"Apache/2 Server, port 4080 at 127.83.0.1:4080".to_vec(), ..Answer::default() };
        let pairs = [("127.83.0.1", "ADDRESS"), (":4080", ""), ("4080", "80"), ("", "x")];
        let neutral = Neutral::new(pairs.map(|(from, to)| (from.to_owned(), to.to_owned())));
        let plain = neutral.plain(&answer);
        assert_eq!(plain.fields["location"], ["http://ADDRESS/a"]);
        assert_eq!(plain.fields["allow"], ["GET,HEAD,POST"]);
        assert_eq!(plain.fields["set-cookie"], ["id=4711; expires; httponly; path=/"]);
        assert_eq!(plain.fields.len(), 3);
        assert_eq!(plain.body, b"SERVER Server, port 80 at ADDRESS");
    }
}
