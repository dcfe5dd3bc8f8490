//! Texts in the arguments of elements: entities, encodings.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use http::text::{from_bytes, to_bytes};
use http::uri::{escape_html, escape_path, escape_query, unescape_lenient};

/// The entities of HTML 2, each a character of ISO-8859-1. Others stay unchanged.
const ENTITIES: &[(&str, u8)] = &[
    ("lt", b'<'),
    ("gt", b'>'),
    ("amp", b'&'),
    ("quot", b'"'),
    ("ETH", 208),
    ("eth", 240),
    ("Auml", 196),
    ("Euml", 203),
    ("Iuml", 207),
    ("Ouml", 214),
    ("Uuml", 220),
    ("auml", 228),
    ("euml", 235),
    ("iuml", 239),
    ("ouml", 246),
    ("uuml", 252),
    ("yuml", 255),
    ("Acirc", 194),
    ("Aring", 197),
    ("AElig", 198),
    ("Ecirc", 202),
    ("Icirc", 206),
    ("Ocirc", 212),
    ("Ucirc", 219),
    ("THORN", 222),
    ("szlig", 223),
    ("acirc", 226),
    ("aring", 229),
    ("aelig", 230),
    ("ecirc", 234),
    ("icirc", 238),
    ("ocirc", 244),
    ("ucirc", 251),
    ("thorn", 254),
    ("Agrave", 192),
    ("Aacute", 193),
    ("Atilde", 195),
    ("Ccedil", 199),
    ("Egrave", 200),
    ("Eacute", 201),
    ("Igrave", 204),
    ("Iacute", 205),
    ("Ntilde", 209),
    ("Ograve", 210),
    ("Oacute", 211),
    ("Otilde", 213),
    ("Oslash", 216),
    ("Ugrave", 217),
    ("Uacute", 218),
    ("Yacute", 221),
    ("agrave", 224),
    ("aacute", 225),
    ("atilde", 227),
    ("ccedil", 231),
    ("egrave", 232),
    ("eacute", 233),
    ("igrave", 236),
    ("iacute", 237),
    ("ntilde", 241),
    ("ograve", 242),
    ("oacute", 243),
    ("otilde", 245),
    ("oslash", 248),
    ("ugrave", 249),
    ("uacute", 250),
    ("yacute", 253),
];

/// Replaces entities by characters. A number that is no printable character of ISO-8859-1 becomes nothing.
pub(super) fn decode_entities(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let bytes = to_bytes(text);
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = &bytes[..];
    while let Some(at) = memchr::memchr(b'&', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = memchr::memchr(b';', rest) else { break };
        match &rest[1..end] {
            [b'#', digits @ ..] => {
                out.extend(numbered(digits));
                rest = &rest[end + 1..];
            }
            name => match ENTITIES.iter().find(|(known, _)| known.as_bytes() == name) {
                Some((_, byte)) => {
                    out.push(*byte);
                    rest = &rest[end + 1..];
                }
                None => {
                    out.push(b'&');
                    rest = &rest[1..];
                }
            },
        }
    }
    out.extend_from_slice(rest);
    Cow::Owned(from_bytes(&out).into_owned())
}

fn numbered(digits: &[u8]) -> Option<u8> {
    let number: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let byte = u8::try_from(number).ok()?;
    (!matches!(byte, 0..=8 | 11..=31 | 127..=160)).then_some(byte)
}

/// The values of `encoding` and `decoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    None,
    Url,
    UrlEncoded,
    Entity,
    Base64,
}

impl Coding {
    /// The codings of a list. `Err`: an unknown one, after those before it.
    pub(super) fn list(names: &str) -> impl Iterator<Item = Result<Coding, &str>> {
        const NAMES: [(&str, Coding); 5] = [
            ("none", Coding::None),
            ("url", Coding::Url),
            ("urlencoded", Coding::UrlEncoded),
            ("entity", Coding::Entity),
            ("base64", Coding::Base64),
        ];
        let named = |name| conf::values::one_of(name, &NAMES).ok_or(name);
        names.split([',', ' ', '\t']).filter(|name| !name.is_empty()).map(named)
    }

    pub(super) fn encode(self, text: &str) -> String {
        match self {
            Coding::None => text.to_string(),
            Coding::Url => escape_path(text).into_owned(),
            Coding::UrlEncoded => escape_query(text).into_owned(),
            Coding::Entity => escape_html(text).into_owned(),
            Coding::Base64 => STANDARD.encode(to_bytes(text)),
        }
    }

    pub(super) fn decode(self, text: &str) -> String {
        let unescape = |text: &str| from_bytes(&unescape_lenient(&to_bytes(text))).into_owned();
        match self {
            Coding::None => text.to_string(),
            Coding::Url => unescape(text),
            Coding::UrlEncoded => unescape(&text.replace('+', " ")),
            Coding::Entity => decode_entities(text).into_owned(),
            Coding::Base64 => {
                const LENIENT: GeneralPurpose = GeneralPurpose::new(
                    &base64::alphabet::STANDARD,
                    GeneralPurposeConfig::new()
                        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
                        .with_decode_allow_trailing_bits(true),
                );
                // As in Apache, everything after the first character outside the alphabet is ignored.
                let is_of_it = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
                let bytes = to_bytes(text);
                let used = bytes.iter().take_while(|byte| is_of_it(byte)).count();
                from_bytes(&LENIENT.decode(&bytes[..used]).unwrap_or_default()).into_owned()
            }
        }
    }
}

/// A piece of a text with variables in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    /// Its name, and the text shown if it has no value.
    Variable(&'a str, &'a str),
    /// `${` without an end: this and the rest is lost.
    Open(&'a str),
}

/// The pieces of a text: `$name`, `${name}`, and `\$` for a dollar.
pub(super) fn pieces(text: &str) -> Vec<Part<'_>> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'$', b'\\', rest.as_bytes()) {
        if at > 0 {
            all.push(Part::Text(&rest[..at]));
        }
        rest = &rest[at..];
        if rest.starts_with('\\') {
            let dollar = usize::from(rest[1..].starts_with('$'));
            all.push(Part::Text(&rest[dollar..=dollar]));
            rest = &rest[1 + dollar..];
            continue;
        }
        let (name, end) = match rest.strip_prefix("${") {
            Some(named) => match named.find('}') {
                Some(end) => (&named[..end], end + 3),
                None => {
                    all.push(Part::Open(named));
                    return all;
                }
            },
            None => {
                let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let length = rest.as_bytes()[1..].iter().take_while(|byte| is_of_name(byte)).count();
                (&rest[1..=length], length + 1)
            }
        };
        if name.is_empty() {
            all.push(Part::Text("$"));
            rest = &rest[1..];
            continue;
        }
        let shown = rest[..end].strip_suffix('}').unwrap_or(&rest[..end]);
        all.push(Part::Variable(name, shown));
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        all.push(Part::Text(rest));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities() {
        let cases = [
            ("a &lt;b&gt; &amp;amp; &quot;", "a <b> &amp; \""),
            ("&nosuch; &toolongaword; & &lt", "&nosuch; &toolongaword; & &lt"),
            ("&#65;&#0;&#31;&#200000;&#x41;-", "A-"),
        ];
        for (text, want) in cases {
            assert_eq!(decode_entities(text), want, "{text}");
        }
        assert_eq!(*to_bytes(&decode_entities("&auml;&#228;")), [228, 228]);
    }

    #[test]
    fn codings() {
        let text = "a b<&\"+%/é";
        for coding in [Coding::None, Coding::Url, Coding::UrlEncoded, Coding::Base64] {
            assert_eq!(coding.decode(&coding.encode(text)), text, "{coding:?}");
        }
        assert_eq!(Coding::Entity.encode(text), "a b&lt;&amp;&quot;+%/é");
        assert_eq!(Coding::Base64.decode("YWI"), "ab");
        let list: Vec<_> = Coding::list("url, entity\tx").collect();
        assert_eq!(list, [Ok(Coding::Url), Ok(Coding::Entity), Err("x")]);
    }

    #[test]
    fn variables_in_texts() {
        use Part::{Open, Text, Variable};
        let cases: &[(&str, &[Part<'_>])] = &[
            ("", &[]),
            ("plain", &[Text("plain")]),
            ("a$b c", &[Text("a"), Variable("b", "$b"), Text(" c")]),
            ("${a b}c", &[Variable("a b", "${a b"), Text("c")]),
            ("\\$a\\n$", &[Text("$"), Text("a"), Text("\\"), Text("n"), Text("$")]),
            ("${}x", &[Text("$"), Text("{}x")]),
            ("a${b", &[Text("a"), Open("b")]),
        ];
        for (text, want) in cases {
            assert_eq!(pieces(text), *want, "{text}");
        }
    }
}
