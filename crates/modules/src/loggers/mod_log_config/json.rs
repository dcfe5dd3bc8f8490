//! Lines of JSON (our own, `escape=json`): whatever a client sends, a line keeps the structure of its format (RFC
//! 8259).

use conf::expr::Options;

use super::escape::{Escape, FieldKind};
use super::format::{Format, Item};

/// The nickname of a predefined format.
pub(super) const NAME: &str = "json";

/// The format of the nickname `json`. The path is decoded; method and query are the client's, even after internal redirects.
pub(super) const READY: &str = r#"{"time":%{rfc3339}t,"client":%a,"user":%u,"vhost":%v,"method":%<m,"path":%U,"query":%<q,"protocol":%H,"status":%>s,"bytes":%B,"duration_us":%D,"referer":%{Referer}i,"user_agent":%{User-Agent}i,"request_id":%{UNIQUE_ID}e}"#;

/// The rules of strings (RFC 8259 section 7). Bytes that are not UTF-8 become U+FFFD.
pub(super) struct Json;

impl Escape for Json {
    const EMPTY_USER: &[u8] = b"";

    fn text(out: &mut Vec<u8>, bytes: &[u8]) {
        for chunk in bytes.utf8_chunks() {
            string(out, chunk.valid());
            if !chunk.invalid().is_empty() {
                out.extend_from_slice("\u{FFFD}".as_bytes());
            }
        }
    }

    fn settle(out: &mut Vec<u8>, start: usize) {
        let plain = |byte: &u8| byte.is_ascii() && !is_special(char::from(*byte));
        if !out[start..].iter().all(plain) {
            let own = out.split_off(start);
            Json::text(out, &own);
        }
    }
}

/// Control characters are forbidden in a string; those beyond ASCII must not reach a terminal either.
fn is_special(c: char) -> bool {
    c.is_control() || c == '"' || c == '\\'
}

fn string(out: &mut Vec<u8>, text: &str) {
    for part in text.split_inclusive(is_special) {
        let mut chars = part.chars();
        match chars.next_back().filter(|last| is_special(*last)) {
            None => out.extend_from_slice(part.as_bytes()),
            Some(special) => {
                out.extend_from_slice(chars.as_str().as_bytes());
                match special {
                    '"' | '\\' => out.extend_from_slice(&[b'\\', special as u8]),
                    control => out.extend_from_slice(format!("\\u{:04x}", u32::from(control)).as_bytes()),
                }
            }
        }
    }
}

/// Appends a whole value: a number, a string with its quotes, `null`.
pub(super) fn value(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> FieldKind) {
    let start = out.len();
    out.push(b'"');
    match write(out) {
        FieldKind::Text => out.push(b'"'),
        FieldKind::Number => _ = out.remove(start),
        FieldKind::Nothing => {
            out.truncate(start);
            out.extend_from_slice(b"null");
        }
    }
}

/// Compiles a format for lines of JSON: an item inside a string is a part of it, any other is a value of its own.
pub(super) fn parse(text: &str, options: Options) -> Result<Format, String> {
    let mut inside = false;
    let Format(mut items) = Format::parse(text, options)?;
    for item in &mut items {
        *item = match std::mem::replace(item, Item::Text(Vec::new())) {
            Item::Text(text) => {
                inside = ends_inside(&text, inside);
                Item::Text(text)
            }
            Item::Field(field) if inside => Item::InString(field),
            Item::Field(field) => Item::Value(field),
            item => item,
        };
    }
    let mut sample = Vec::new();
    for item in &items {
        match item {
            Item::Text(text) => sample.extend_from_slice(text),
            Item::InString(_) => sample.push(b'x'),
            Item::Value(_) => sample.extend_from_slice(b"null"),
            _ => {}
        }
    }
    match serde_json::from_slice::<serde_json::Value>(&sample) {
        Ok(_) => Ok(Format(items)),
        Err(error) => Err(format!("LogFormat with escape=json: its lines would not be JSON: {error}")),
    }
}

/// Whether a string is still open at the end of a text.
fn ends_inside(text: &[u8], mut inside: bool) -> bool {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => inside = !inside,
            b'\\' if inside => _ = bytes.next(),
            _ => {}
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        Json::text(&mut out, bytes);
        String::from_utf8(out).unwrap_or_default()
    }

    #[test]
    fn strings_of_rfc_8259() {
        let table: &[(&[u8], &str)] = &[
            (b"", ""),
            (b"a/b", "a/b"),
            (b"a\"b\\c", r#"a\"b\\c"#),
            (b"\n\x00\x1f\x7f", r"\u000a\u0000\u001f\u007f"),
            ("é\u{9b}日".as_bytes(), "é\\u009b日"),
            (b"a\xffb\xc3", "a\u{FFFD}b\u{FFFD}"),
            (b"\xed\xa0\x80", "\u{FFFD}\u{FFFD}\u{FFFD}"),
        ];
        for (bytes, want) in table {
            assert_eq!(written(bytes), *want, "{bytes:?}");
        }
    }

    #[test]
    fn appended_text_is_escaped() {
        let mut out = b"\"".to_vec();
        out.extend_from_slice(b"x\"\n");
        Json::settle(&mut out, 1);
        assert_eq!(out, b"\"x\\\"\\u000a");
    }

    #[test]
    fn values_are_whole() {
        let mut out = Vec::new();
        for (text, kind) in
            [("12", FieldKind::Number), ("a", FieldKind::Text), ("-", FieldKind::Nothing), ("", FieldKind::Text)]
        {
            value(&mut out, |out| {
                out.extend_from_slice(text.as_bytes());
                kind
            });
            out.push(b' ');
        }
        assert_eq!(out, br#"12 "a" null "" "#);
    }

    #[test]
    fn items_know_where_they_stand() {
        let places = |text: &str| match parse(text, Options::default()) {
            Err(error) => error,
            Ok(Format(items)) => items
                .iter()
                .map(|item| match item {
                    Item::Text(_) => 't',
                    Item::Field(_) => 'f',
                    Item::InString(_) => 's',
                    Item::Value(_) => 'v',
                })
                .collect(),
        };
        assert_eq!(places(r#"{"a":%a,"b":"%b %B"}"#), "tvtstst");
        assert_eq!(places(r#"{"a\"%a":1}"#), "tst");
        assert_eq!(places("%a"), "v");
        assert_eq!(
            places(r#"{"a":"%a}"#),
            "LogFormat with escape=json: its lines would not be JSON: EOF while parsing a string at line 1 column 8"
        );
        assert_eq!(places("%c"), "Unrecognized LogFormat directive %c");
        assert!(places(READY).bytes().all(|place| b"tv".contains(&place)));
    }
}
