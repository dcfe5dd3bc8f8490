//! Search filters (RFC 4515).

use super::ber::{OCTETS, SEQUENCE, Writer};

/// The maximum nesting of filters.
const DEPTH_MAX: usize = 32;

const AND: u8 = 0xa0;
const OR: u8 = 0xa1;
const NOT: u8 = 0xa2;
const EQUAL: u8 = 0xa3;
const SUBSTRINGS: u8 = 0xa4;
const GREATER: u8 = 0xa5;
const LESS: u8 = 0xa6;
const PRESENT: u8 = 0x87;
const LIKE: u8 = 0xa8;
const BY_RULE: u8 = 0xa9;

/// The condition that the entries of a search meet (RFC 4511 section 4.5.1.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Present(String),
    /// An attribute and a value, and the kind of comparison.
    Compare(Comparison, String, Vec<u8>),
    /// An attribute and the parts of its value: the first and the last are at its ends and may be empty.
    Parts(String, Vec<Vec<u8>>),
    Rule(Rule),
}

/// The kind of comparison of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Greater,
    Less,
    Like,
}

/// A comparison by a named rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    attribute: String,
    /// Whether the parts of the entry's name also count.
    with_dn: bool,
    name: String,
    value: Vec<u8>,
}

/// Escapes a text for use as a value in a filter.
pub(crate) fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '*' => escaped.push_str("\\2a"),
            '(' => escaped.push_str("\\28"),
            ')' => escaped.push_str("\\29"),
            '\\' => escaped.push_str("\\5c"),
            '\0' => escaped.push_str("\\00"),
            other => escaped.push(other),
        }
    }
    escaped
}

impl Filter {
    /// Parses a filter, with or without its outermost parentheses. `None`: it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Filter> {
        let bytes = http::text::to_bytes(text);
        let mut reader = Reader { rest: bytes.trim_ascii() };
        let filter = match reader.rest.first() {
            Some(b'(') => reader.filter(0)?,
            // As in OpenLDAP.
            _ => reader.inner(0)?,
        };
        reader.rest.is_empty().then_some(filter)
    }

    pub(super) fn write(&self, out: &mut Writer) {
        let list = |out: &mut Writer, tag, filters: &[Filter]| {
            out.nest(tag, |out| filters.iter().for_each(|filter| filter.write(out)));
        };
        match self {
            Filter::And(filters) => list(out, AND, filters),
            Filter::Or(filters) => list(out, OR, filters),
            Filter::Not(filter) => out.nest(NOT, |out| filter.write(out)),
            Filter::Present(attribute) => out.bytes(PRESENT, attribute.as_bytes()),
            Filter::Compare(how, attribute, value) => {
                let tag = match how {
                    Comparison::Equal => EQUAL,
                    Comparison::Greater => GREATER,
                    Comparison::Less => LESS,
                    Comparison::Like => LIKE,
                };
                out.nest(tag, |out| {
                    out.bytes(OCTETS, attribute.as_bytes());
                    out.bytes(OCTETS, value);
                });
            }
            Filter::Parts(attribute, parts) => out.nest(SUBSTRINGS, |out| {
                out.bytes(OCTETS, attribute.as_bytes());
                out.nest(SEQUENCE, |out| {
                    let last = parts.len() - 1;
                    for (at, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
                        let tag = if at == 0 {
                            0x80
                        } else if at == last {
                            0x82
                        } else {
                            0x81
                        };
                        out.bytes(tag, part);
                    }
                });
            }),
            Filter::Rule(rule) => out.nest(BY_RULE, |out| {
                let some = |out: &mut Writer, tag, text: &str| {
                    if !text.is_empty() {
                        out.bytes(tag, text.as_bytes());
                    }
                };
                some(out, 0x81, &rule.name);
                some(out, 0x82, &rule.attribute);
                out.bytes(0x83, &rule.value);
                if rule.with_dn {
                    out.bytes(0x84, &[0xff]);
                }
            }),
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn skip(&mut self, byte: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// A filter in parentheses.
    fn filter(&mut self, depth: usize) -> Option<Filter> {
        self.skip(b'(')?;
        self.skip_blanks();
        let filter = match self.rest.first()? {
            b'(' => self.deeper(depth)?,
            _ => self.inner(depth)?,
        };
        self.skip_blanks();
        self.skip(b')')?;
        Some(filter)
    }

    fn deeper(&mut self, depth: usize) -> Option<Filter> {
        if depth < DEPTH_MAX { self.filter(depth + 1) } else { None }
    }

    /// The content of parentheses.
    fn inner(&mut self, depth: usize) -> Option<Filter> {
        match self.rest.first()? {
            b'&' => self.list(depth).map(Filter::And),
            b'|' => self.list(depth).map(Filter::Or),
            b'!' => {
                self.skip(b'!')?;
                self.skip_blanks();
                let inner = self.deeper(depth)?;
                self.skip_blanks();
                Some(Filter::Not(Box::new(inner)))
            }
            _ => self.item(),
        }
    }

    /// The filters after `&` or `|`, possibly none (RFC 4526).
    fn list(&mut self, depth: usize) -> Option<Vec<Filter>> {
        self.rest = &self.rest[1..];
        let mut filters = Vec::new();
        loop {
            self.skip_blanks();
            if self.rest.first() != Some(&b'(') {
                return Some(filters);
            }
            filters.push(self.deeper(depth)?);
        }
    }

    /// `attribute=value` and the like.
    fn item(&mut self) -> Option<Filter> {
        // The item ends at the first unescaped parenthesis.
        let mut end = 0;
        while self.rest.get(end).is_some_and(|byte| !matches!(byte, b'(' | b')')) {
            end += if self.rest[end] == b'\\' { 2 } else { 1 };
        }
        let (item, rest) = self.rest.split_at_checked(end)?;
        let equals = item.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&item[..equals], &item[equals + 1..]);
        self.rest = rest;
        let (name, how) = match name.split_last()? {
            (b'>', name) => (name, Some(Comparison::Greater)),
            (b'<', name) => (name, Some(Comparison::Less)),
            (b'~', name) => (name, Some(Comparison::Like)),
            (b':', name) => return rule(name, value),
            _ => (name, None),
        };
        let name = attribute(name).filter(|name| !name.is_empty())?;
        match how {
            Some(how) => Some(Filter::Compare(how, name, unescape(value, false)?.concat())),
            None if value == b"*" => Some(Filter::Present(name)),
            None => {
                let mut parts = unescape(value, true)?;
                if parts.len() > 1 {
                    // Two stars in a row count as one; a value of only stars has no parts at all.
                    let is_empty = parts.iter().all(Vec::is_empty);
                    return if is_empty { None } else { Some(Filter::Parts(name, parts)) };
                }
                Some(Filter::Compare(Comparison::Equal, name, parts.pop()?))
            }
        }
    }
}

/// `attribute:dn:rule`, each of which may be missing.
fn rule(name: &[u8], value: &[u8]) -> Option<Filter> {
    let text = std::str::from_utf8(name).ok()?;
    let mut parts = text.split(':');
    let attribute = attribute(parts.next()?.as_bytes())?;
    let (mut with_dn, mut name) = (false, String::new());
    for part in parts {
        if part.eq_ignore_ascii_case("dn") && !with_dn && name.is_empty() {
            with_dn = true;
        } else if name.is_empty() && !part.is_empty() {
            name = self::attribute(part.as_bytes())?;
        } else {
            return None;
        }
    }
    if attribute.is_empty() && name.is_empty() {
        return None;
    }
    let value = unescape(value, false)?.concat();
    Some(Filter::Rule(Rule { attribute, with_dn, name, value }))
}

/// The name of an attribute: a word or a number, followed by options.
fn attribute(name: &[u8]) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b';' | b'_');
    let name = name.trim_ascii();
    if name.iter().all(is_plain) { String::from_utf8(name.to_vec()).ok() } else { None }
}

/// A value without its backslashes, split at its stars if `divide`.
fn unescape(value: &[u8], divide: bool) -> Option<Vec<Vec<u8>>> {
    let mut parts = vec![Vec::new()];
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let byte = match byte {
            b'*' if divide => {
                parts.push(Vec::new());
                continue;
            }
            b'\\' => {
                let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
                match digit(0).zip(digit(1)) {
                    Some((high, low)) => {
                        rest = &after[2..];
                        (high << 4 | low) as u8
                    }
                    // LDAP version 2's form, which OpenLDAP accepts.
                    None if matches!(after.first(), Some(b'*' | b'(' | b')' | b'\\')) => {
                        rest = &after[1..];
                        after[0]
                    }
                    None => return None,
                }
            }
            b'(' | b')' => return None,
            byte => byte,
        };
        parts.last_mut()?.push(byte);
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Option<Vec<u8>> {
        let mut out = Writer::default();
        Filter::parse(text)?.write(&mut out);
        Some(out.finish())
    }

    fn equal(name: &str, value: &[u8]) -> Filter {
        Filter::Compare(Comparison::Equal, name.into(), value.into())
    }

    #[test]
    fn filters() {
        for (text, filter) in [
            ("(uid=joe)", equal("uid", b"joe")),
            ("uid=joe", equal("uid", b"joe")),
            (" ( uid=joe) ", equal("uid", b"joe")),
            ("((uid=joe))", equal("uid", b"joe")),
            ("(cn= a b )", equal("cn", b" a b ")),
            ("(cn=)", equal("cn", b"")),
            (r"(cn=\2a\28\29\5c\00\c3\a9)", equal("cn", b"*()\\\0\xc3\xa9")),
            (r"(cn=\*\(\)\\)", equal("cn", b"*()\\")),
            ("(cn=é)", equal("cn", "é".as_bytes())),
            ("(cn;lang-de=x)", equal("cn;lang-de", b"x")),
            ("(2.5.4.3=x)", equal("2.5.4.3", b"x")),
            ("objectClass=*", Filter::Present("objectClass".into())),
            ("(&)", Filter::And(vec![])),
            (
                "(&(a=1)(|(b=2)(!(c=3))))",
                Filter::And(vec![
                    equal("a", b"1"),
                    Filter::Or(vec![equal("b", b"2"), Filter::Not(Box::new(equal("c", b"3")))]),
                ]),
            ),
            ("&(a=1)(b=2)", Filter::And(vec![equal("a", b"1"), equal("b", b"2")])),
            ("(a>=1)", Filter::Compare(Comparison::Greater, "a".into(), b"1".into())),
            ("(a<=1)", Filter::Compare(Comparison::Less, "a".into(), b"1".into())),
            ("(a~=1)", Filter::Compare(Comparison::Like, "a".into(), b"1".into())),
            ("(a=x*y*z)", Filter::Parts("a".into(), vec![b"x".into(), b"y".into(), b"z".into()])),
            ("(a=*\\2a)", Filter::Parts("a".into(), vec![b"".into(), b"*".into()])),
        ] {
            assert_eq!(Filter::parse(text).as_ref(), Some(&filter), "{text}");
        }
        for text in [
            "",
            "(",
            "()",
            "(a)",
            "(=x)",
            "(a=x",
            "a=x)",
            "(a=x)(b=y)",
            "(a=x)y",
            "(!a=x)",
            "(&(a=x)b)",
            "(a b=x)",
            r"(a=\zz)",
            r"(a=\)",
            "(a=**)",
            "(a:=x",
            "(:=x)",
            "(:dn:=x)",
            "(a:b:c:=x)",
            "(é=x)",
        ] {
            assert_eq!(Filter::parse(text), None, "{text}");
        }
        let deep = |depth: usize| format!("{}(a=b){}", "(!".repeat(depth), ")".repeat(depth));
        assert!(Filter::parse(&deep(DEPTH_MAX)).is_some() && Filter::parse(&deep(100_000)).is_none());
    }

    #[test]
    fn as_they_are_sent() {
        assert_eq!(bytes("(a=*)"), Some(vec![0x87, 1, b'a']));
        assert_eq!(bytes("(a=b)"), Some(vec![0xa3, 6, 4, 1, b'a', 4, 1, b'b']));
        assert_eq!(
            bytes("(a=x*y*z)"),
            Some(vec![0xa4, 14, 4, 1, b'a', 0x30, 9, 0x80, 1, b'x', 0x81, 1, b'y', 0x82, 1, b'z'])
        );
        assert_eq!(bytes("(a=x*)"), Some(vec![0xa4, 8, 4, 1, b'a', 0x30, 3, 0x80, 1, b'x']));
        assert_eq!(bytes("(a:dn:=v)"), Some(vec![0xa9, 9, 0x82, 1, b'a', 0x83, 1, b'v', 0x84, 1, 0xff]));
        assert_eq!(bytes("(:r:=v)"), Some(vec![0xa9, 6, 0x81, 1, b'r', 0x83, 1, b'v']));
    }

    /// Whatever users call themselves, it is a value and nothing else.
    #[test]
    fn a_value_stays_a_value() {
        for name in [
            "*",
            "joe*",
            "joe)(uid=*",
            "joe)(|(uid=*",
            "*)(&",
            "\\",
            "\\2a",
            "a\0b",
            "(",
            ")",
            "joe\\",
            "é*",
            "=",
            "&",
            "\u{e000}",
            "joe)(!(&(1=0",
            "joe)) (|(a=b",
        ] {
            let filter = Filter::parse(&format!("(&(objectClass=*)(uid={}))", escape(name)));
            let all =
                Filter::And(vec![Filter::Present("objectClass".into()), equal("uid", &http::text::to_bytes(name))]);
            assert_eq!(filter, Some(all), "{name:?}");
        }
    }
}
