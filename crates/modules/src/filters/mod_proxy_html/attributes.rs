//! The attributes of a tag, and the character references in their values.

use std::ops::Range;

/// An attribute: where its name and its value stand in the tag.
#[derive(Debug, PartialEq)]
pub(super) struct Attribute {
    pub(super) name: Range<usize>,
    /// The value, without its quotes.
    pub(super) value: Range<usize>,
    /// The same with its quotes.
    pub(super) quoted: Range<usize>,
}

/// The attributes with values of a tag, from after its name on.
pub(super) fn attributes(tag: &[u8], mut at: usize) -> Vec<Attribute> {
    let mut all = Vec::new();
    let skip = |mut at: usize, is_one: fn(u8) -> bool| {
        while tag.get(at).is_some_and(|byte| is_one(*byte)) {
            at += 1;
        }
        at
    };
    let is_space = |byte: u8| byte.is_ascii_whitespace();
    loop {
        let start = skip(at, |byte| byte.is_ascii_whitespace() || byte == b'/');
        // A name may even begin with an equals sign.
        let first = start + usize::from(tag.get(start) == Some(&b'='));
        let end = skip(first, |byte| !byte.is_ascii_whitespace() && !b"/>=".contains(&byte));
        if end == start {
            return all;
        }
        at = skip(end, is_space);
        if tag.get(at) != Some(&b'=') {
            continue;
        }
        at = skip(at + 1, is_space);
        let (value, quoted) = match tag.get(at) {
            Some(quote @ (b'"' | b'\'')) => {
                let length = memchr::memchr(*quote, &tag[at + 1..]).unwrap_or(tag.len() - at - 1);
                (at + 1..at + 1 + length, at..(at + length + 2).min(tag.len()))
            }
            _ => {
                let end = skip(at, |byte| !byte.is_ascii_whitespace() && byte != b'>');
                (at..end, at..end)
            }
        };
        at = quoted.end;
        all.push(Attribute { name: start..end, value, quoted });
    }
}

/// Where a tag ends, after its `>`. `None`: it goes on.
pub(super) fn tag_end(tag: &[u8]) -> Option<usize> {
    let (mut quote, mut after_equals) = (None, false);
    for (at, byte) in tag.iter().enumerate() {
        match (quote, byte) {
            (Some(one), byte) => {
                if one == *byte {
                    quote = None;
                }
            }
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') if after_equals => quote = Some(*byte),
            (None, _) => {}
        }
        after_equals = *byte == b'=' || after_equals && byte.is_ascii_whitespace();
    }
    None
}

/// The byte that stands for the ampersand of a reference that is left as it is.
const KEPT: u8 = 1;
/// The references to characters that mean something in HTML itself.
const NAMED: [(&[u8], char); 5] = [(b"amp", '&'), (b"lt", '<'), (b"gt", '>'), (b"quot", '"'), (b"apos", '\'')];

/// The text of a value. References to other characters by their names are left as they are: [`encoded`] knows them again. `None`: there
/// is a byte in it that cannot be in a page.
pub(super) fn decoded(value: &[u8]) -> Option<Vec<u8>> {
    if memchr::memchr(KEPT, value).is_some() {
        return None;
    }
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = memchr::memchr(b'&', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'#').count();
        let (name, is_closed) = (&rest[..length], rest.get(length) == Some(&b';'));
        match character(name).filter(|_| is_closed) {
            Some(character) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[length + 1..];
            }
            None if is_closed && length > 0 => out.push(KEPT),
            None => out.push(b'&'),
        }
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// The character of a reference.
fn character(name: &[u8]) -> Option<char> {
    if let Some((_, character)) = NAMED.iter().find(|(known, _)| *known == name) {
        return Some(*character);
    }
    let digits = std::str::from_utf8(name.strip_prefix(b"#")?).ok()?;
    let number = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    char::from_u32(number.ok()?).filter(|character| !character.is_control())
}

/// Appends a text as a value in double quotes.
pub(super) fn encoded(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            &KEPT => out.push(b'&'),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_tags() {
        let table: &[(&str, &[(&str, &str)])] = &[
            ("<a href=\"x y\" b='c\"d'>", &[("href", "x y"), ("b", "c\"d")]),
            ("<a href=x>", &[("href", "x")]),
            ("<a href = x/y disabled c=d/>", &[("href", "x/y"), ("c", "d/")]),
            ("<a\n\thref=\n'x'/>", &[("href", "x")]),
            ("<a =b=c>", &[("=b", "c")]),
            ("<a href=>", &[("href", "")]),
            ("<a href=\"x>", &[("href", "x>")]),
            ("<a b \"c\">", &[]),
            ("<a", &[]),
        ];
        for (tag, want) in table {
            let found = attributes(tag.as_bytes(), 2);
            let found: Vec<_> = found.iter().map(|one| (&tag[one.name.clone()], &tag[one.value.clone()])).collect();
            assert_eq!(found, *want, "{tag}");
        }
    }

    #[test]
    fn ends_of_tags() {
        let table =
            [("<a>b", Some(3)), ("<a b='>'>", Some(9)), ("<a b=\">", None), ("<a b'>", Some(6)), ("<a b = '>'", None)];
        for (text, want) in table {
            assert_eq!(tag_end(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn values() {
        let table = [
            ("a&amp;b&lt;&quot;", "a&b<\"", "\"a&amp;b&lt;&quot;\""),
            ("&#228;&#xE4;'", "ää'", "\"ää'\""),
            ("?a=1&b=2&", "?a=1&b=2&", "\"?a=1&amp;b=2&amp;\""),
            ("&eacute;&amp;eacute;", "\u{1}eacute;&eacute;", "\"&eacute;&amp;eacute;\""),
            ("&#0;&#xffffffff;&;", "\u{1}#0;\u{1}#xffffffff;&;", "\"&#0;&#xffffffff;&amp;;\""),
        ];
        for (value, text, again) in table {
            let decoded = decoded(value.as_bytes()).expect("a value");
            let mut out = Vec::new();
            encoded(&decoded, &mut out);
            assert_eq!((String::from_utf8_lossy(&decoded), String::from_utf8_lossy(&out)), (text.into(), again.into()));
        }
        assert_eq!(decoded(b"\x01"), None);
    }
}
