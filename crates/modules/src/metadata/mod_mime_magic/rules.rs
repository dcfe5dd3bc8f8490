//! The rules of a file in the format of file(1), in the old version that Apache knows.

/// The most bytes that a rule compares; with fewer bytes no rule holds.
const LENGTH: usize = 64;

/// Rules in order; those with a level above 0 belong to the one before them.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    level: usize,
    offset: i64,
    /// The value's offset is read from the file: the kind of that number, and an addend.
    indirect: Option<(ValueType, i64)>,
    kind: ValueType,
    is_unsigned: bool,
    mask: u64,
    relation: u8,
    value: Value,
    /// The text of the result, and whether a blank goes before it.
    text: String,
    joined: bool,
}

#[derive(Clone, Debug)]
enum Value {
    Number(u64),
    Text(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueType {
    Byte,
    Short,
    Long,
    Text,
    BigShort,
    BigLong,
    LittleShort,
    LittleLong,
}

/// The names of kinds; dates are compared as numbers.
const KINDS: [(&str, ValueType); 11] = [
    ("byte", ValueType::Byte),
    ("short", ValueType::Short),
    ("long", ValueType::Long),
    ("string", ValueType::Text),
    ("date", ValueType::Long),
    ("beshort", ValueType::BigShort),
    ("belong", ValueType::BigLong),
    ("bedate", ValueType::BigLong),
    ("leshort", ValueType::LittleShort),
    ("lelong", ValueType::LittleLong),
    ("ledate", ValueType::LittleLong),
];

impl Rules {
    pub(super) fn parse(bytes: &[u8], complaints: &mut Vec<String>) -> Rules {
        let text = http::text::from_bytes(bytes);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Rules(lines.filter_map(|line| Rule::parse(line, complaints)).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The result of the first rule that holds, with those that belong to it.
    pub(super) fn first(&self, bytes: &[u8]) -> Option<String> {
        let mut rules = self.0.iter().peekable();
        while let Some(rule) = rules.next() {
            let Some(mut out) = rule.result_for(bytes) else {
                while rules.next_if(|next| next.level > 0).is_some() {}
                continue;
            };
            let (mut level, mut said) = (1, !rule.text.is_empty());
            while let Some(next) = rules.next_if(|next| next.level > 0) {
                if level < next.level {
                    continue;
                }
                level = next.level;
                if let Some(text) = next.result_for(bytes) {
                    if said && !next.joined && !next.text.is_empty() {
                        out.push(' ');
                        said = false;
                    }
                    out.push_str(&text);
                    said |= !next.text.is_empty();
                    level += 1;
                }
            }
            return Some(out);
        }
        None
    }
}

impl Rule {
    fn parse(line: &str, complaints: &mut Vec<String>) -> Option<Rule> {
        let mut rest = line.trim_start_matches('>');
        let level = line.len() - rest.len();
        let is_indirect = level > 0 && rest.starts_with('(');
        rest = if is_indirect { &rest[1..] } else { rest };
        let offset = match number(&mut rest) {
            Some(offset) => offset,
            None => {
                complaints.push(format!("AH01521: mod_mime_magic: offset {rest} invalid"));
                0
            }
        };
        let indirect = is_indirect.then(|| indirect(&mut rest, complaints));
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let is_unsigned = rest.starts_with('u');
        rest = if is_unsigned { &rest[1..] } else { rest };
        let Some((name, kind)) = KINDS.iter().find(|(name, _)| rest.starts_with(name)) else {
            complaints.push(format!("AH01524: mod_mime_magic: type {rest} invalid"));
            return None;
        };
        rest = &rest[name.len()..];
        let mut rule = Rule {
            level,
            offset,
            indirect,
            kind: *kind,
            is_unsigned,
            mask: u64::MAX,
            relation: b'=',
            value: Value::Number(0),
            text: String::new(),
            joined: false,
        };
        if let Some(after) = rest.strip_prefix('&') {
            rest = after;
            rule.mask = rule.extended(number(&mut rest).unwrap_or(0) as u64);
        }
        rest = rest.trim_start();
        let first = rest.bytes().next().unwrap_or_default();
        let is_any = first == b'x' && rest[1..].starts_with(|c: char| c.is_ascii_whitespace());
        if is_any || b"><&^=".contains(&first) || first == b'!' && rule.kind != ValueType::Text {
            rule.relation = first;
            rest = &rest[1..];
        }
        rest = rest.trim_start();
        if rule.kind == ValueType::Text && !is_any {
            rule.value = Value::Text(unescaped(&mut rest, complaints));
        } else if !is_any {
            rule.value = Value::Number(rule.extended(number(&mut rest).unwrap_or(0) as u64));
        }
        rest = rest.trim_start();
        for mark in ["\u{8}", "\\b"] {
            if let Some(after) = rest.strip_prefix(mark) {
                (rest, rule.joined) = (after, true);
                break;
            }
        }
        rule.text = rest.to_string();
        Some(rule)
    }

    /// Its result for a file, if it holds.
    fn result_for(&self, bytes: &[u8]) -> Option<String> {
        let mut at = usize::try_from(self.offset).ok()?;
        let mut window = bytes.get(at..)?.get(..LENGTH)?;
        if let Some((kind, more)) = self.indirect {
            // The number is in the byte order of the rule's own kind.
            let there = match kind {
                ValueType::Byte => self.raw(window) & 0xff,
                ValueType::Short => self.raw(window) & 0xffff,
                _ => self.raw(window),
            };
            at = usize::try_from((there as i64).checked_add(more)?).ok()?;
            window = bytes.get(at..)?.get(..LENGTH)?;
        }
        let (have, want) = match &self.value {
            Value::Text(text) => {
                let line = window.iter().position(|byte| *byte == b'\n');
                let have = |index: usize| match (window.get(index), line) {
                    (_, Some(end)) if index == end => 0,
                    (_, _) if index + 1 == LENGTH => 0,
                    (Some(byte), _) => *byte,
                    (None, _) => 0,
                };
                let differs = text.iter().enumerate().find(|(index, byte)| have(*index) != **byte);
                (differs.map_or(0, |(index, byte)| (i64::from(have(index)) - i64::from(*byte)) as u64), 0)
            }
            Value::Number(want) if self.kind == ValueType::Text => (0, *want),
            Value::Number(want) => (self.extended(self.raw(window)), *want),
        };
        let have = have & self.mask;
        let holds = match self.relation {
            b'x' => true,
            b'!' => have != want,
            b'=' => have == want,
            b'>' if self.is_unsigned => have > want,
            b'>' => (have as i64) > want as i64,
            b'<' if self.is_unsigned => have < want,
            b'<' => (have as i64) < want as i64,
            b'&' => have & want == want,
            b'^' => have & want != want,
            _ => false,
        };
        holds.then(|| self.filled(have, window))
    }

    /// The number in the file, with the size of C's type.
    fn raw(&self, window: &[u8]) -> u64 {
        let two = [window[0], window[1]];
        let four = [window[0], window[1], window[2], window[3]];
        match self.kind {
            ValueType::Byte => window[0].into(),
            ValueType::Short => u16::from_ne_bytes(two).into(),
            ValueType::BigShort => u16::from_be_bytes(two).into(),
            ValueType::LittleShort => u16::from_le_bytes(two).into(),
            ValueType::BigLong => i64::from(i32::from_be_bytes(four)) as u64,
            ValueType::LittleLong => i64::from(i32::from_le_bytes(four)) as u64,
            ValueType::Long | ValueType::Text => u64::from_ne_bytes(std::array::from_fn(|index| window[index])),
        }
    }

    /// A number with the sign of its kind.
    fn extended(&self, number: u64) -> u64 {
        match self.kind {
            _ if self.is_unsigned => number,
            ValueType::Byte => number as i8 as u64,
            ValueType::Short | ValueType::BigShort | ValueType::LittleShort => number as i16 as u64,
            _ => number,
        }
    }

    /// Its text, with the value in the place of a `%`.
    fn filled(&self, have: u64, window: &[u8]) -> String {
        let Some((before, rest)) = self.text.split_once('%') else { return self.text.clone() };
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, 'l' | 'h' | '-' | '.' | '#'));
        let mut letters = after.chars();
        let shown = match (letters.next(), &self.value) {
            (Some('s'), Value::Text(text)) if self.relation == b'=' => http::text::from_bytes(text).into_owned(),
            (Some('s'), _) => {
                let end = window.iter().position(|byte| matches!(byte, 0 | b'\n')).unwrap_or(LENGTH - 1);
                http::text::from_bytes(&window[..end]).into_owned()
            }
            (Some('d' | 'i'), _) => (have as i64).to_string(),
            (Some('x'), _) => format!("{have:x}"),
            (Some('o'), _) => format!("{have:o}"),
            (Some('%'), _) => "%".into(),
            _ => have.to_string(),
        };
        format!("{before}{shown}{}", letters.as_str())
    }
}

/// `.l+4)`, after an offset in parentheses.
fn indirect(rest: &mut &str, complaints: &mut Vec<String>) -> (ValueType, i64) {
    let mut kind = ValueType::Long;
    if let Some(after) = rest.strip_prefix('.') {
        kind = match after.chars().next() {
            Some('s') => ValueType::Short,
            Some('b') => ValueType::Byte,
            Some('l') => ValueType::Long,
            other => {
                let other = other.unwrap_or_default();
                complaints.push(format!("AH01522: mod_mime_magic: indirect offset type {other} invalid"));
                ValueType::Long
            }
        };
        let mut letters = after.chars();
        letters.next();
        *rest = letters.as_str();
    }
    let minus = rest.starts_with('-');
    *rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    let begins = rest.starts_with(|c: char| c.is_ascii_digit());
    let more = if begins { number(rest).unwrap_or(0) } else { 0 };
    match rest.strip_prefix(')') {
        Some(after) => *rest = after,
        None => complaints.push("AH01523: mod_mime_magic: missing ')' in indirect offset".into()),
    }
    (kind, if minus { -more } else { more })
}

/// Parses a number like C's `strtol` in any base: decimal, `0x` or `0`. `None`: there is none.
fn number(rest: &mut &str) -> Option<i64> {
    let text = rest.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = digits.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"))
        && digits[2..].starts_with(|c: char| c.is_ascii_hexdigit());
    let (radix, digits) = match () {
        () if hex => (16, &digits[2..]),
        () if digits.starts_with('0') => (8, digits),
        () => (10, digits),
    };
    let count = digits.chars().take_while(|c| c.is_digit(radix)).count();
    if count == 0 {
        return None;
    }
    let add = |value: i64, c: char| {
        value.saturating_mul(radix.into()).saturating_add(c.to_digit(radix).unwrap_or_default().into())
    };
    let value = digits[..count].chars().fold(0, add);
    *rest = &digits[count..];
    Some(if negative { -value } else { value })
}

/// A text up to the next blank, with C's escapes.
fn unescaped(rest: &mut &str, complaints: &mut Vec<String>) -> Vec<u8> {
    let bytes = http::text::to_bytes(rest).into_owned();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let byte = bytes[at];
        at += 1;
        if byte.is_ascii_whitespace() {
            break;
        }
        if out.len() + 1 >= LENGTH {
            complaints.push(format!("AH01526: mod_mime_magic: string too long: {rest}"));
            break;
        }
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(escaped) = bytes.get(at).copied() else { break };
        at += 1;
        let digits = |from: usize, most: usize, is: fn(&u8) -> bool| {
            bytes[from..].iter().take(most).take_while(|byte| is(byte)).count()
        };
        let value = |range: std::ops::Range<usize>, radix: u32| {
            bytes[range]
                .iter()
                .fold(0_u32, |value, byte| value * radix + char::from(*byte).to_digit(radix).unwrap_or_default())
                as u8
        };
        match escaped {
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b't' => out.push(b'\t'),
            b'f' => out.push(12),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let count = digits(at - 1, 3, |byte| (b'0'..=b'7').contains(byte));
                out.push(value(at - 1..at - 1 + count, 8));
                at += count - 1;
            }
            b'x' => {
                let count = digits(at, 3, u8::is_ascii_hexdigit);
                out.push(if count == 0 { b'x' } else { value(at..at + count, 16) });
                at += count;
            }
            other => out.push(other),
        }
    }
    // The rest begins at a character: everything before it was ASCII or whole.
    let used = http::text::from_bytes(&bytes[..at]).len();
    *rest = rest.get(used..).unwrap_or_default();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_what_belongs_to_them() {
        let mut complaints = Vec::new();
        let text = b"# comment\n0 string GIF8 image/gif\n0\tbeshort\t0x1234\n>2\tbyte\t7\tkind/seven\n>2\tbyte\t>7\tkind/more\n\
            >>3 byte x \\b-%d\n0 string \\x89P\\116G image/png  Coded\n0 none 1 x/y\n4 leshort &0x8000 set/bit\n";
        let rules = Rules::parse(text, &mut complaints);
        assert_eq!(complaints, ["AH01524: mod_mime_magic: type none 1 x/y invalid"]);
        let said = |start: &[u8]| {
            let mut bytes = start.to_vec();
            bytes.resize(LENGTH + 8, 0);
            rules.first(&bytes)
        };
        for (start, want) in [
            (&b"GIF89a"[..], Some("image/gif")),
            (b"\x12\x34\x07", Some("kind/seven")),
            (b"\x12\x34\x09\x05", Some("kind/more-5")),
            (b"\x12\x34\x01", Some("")),
            (b"\x89PNG", Some("image/png  Coded")),
            (b"\0\0\0\0\0\x80", Some("set/bit")),
            (b"none", None),
        ] {
            assert_eq!(said(start).as_deref(), want, "{start:?}");
        }
        assert_eq!(rules.first(b"GIF89a"), None, "what is shorter than a value is none");
    }
}
