//! Texts with placeholders: `$1`, `%1`, `%{VARIABLE}`, `${map:key|default}`.

use super::variables::Variable;

/// A text parsed once, together with its line.
#[derive(Debug, Default)]
pub(super) struct Template {
    parts: Vec<Part>,
}

/// A literal text, or a reference to what takes its place.
#[derive(Debug)]
pub(super) enum Part {
    /// Literal text.
    Text(String),
    /// `$N`: a group of the rule's pattern.
    Rule(usize),
    /// `%N`: a group of the last condition that matched.
    Condition(usize),
    /// `%{NAME}`
    Variable(Variable),
    /// `${map:key|default}`
    Map(Box<MapCall>),
}

/// The look-up of a key in a map.
#[derive(Debug)]
pub(super) struct MapCall {
    pub(super) map: String,
    pub(super) key: Template,
    /// The text for a key that the map does not have.
    pub(super) default: Option<Template>,
}

impl Template {
    /// Parses a text. There are no errors: anything that is not a reference is literal.
    pub(super) fn parse(text: &str) -> Template {
        let mut template = Template::default();
        let mut rest = text;
        while let Some(at) = rest.find(['\\', '$', '%']) {
            template.push_text(&rest[..at]);
            let (marker, behind) = (&rest[at..=at], &rest[at + 1..]);
            rest = match behind.chars().next() {
                None => {
                    template.push_text(marker);
                    behind
                }
                Some(next) if marker == "\\" => {
                    let (escaped, behind) = behind.split_at(next.len_utf8());
                    template.push_text(escaped);
                    behind
                }
                Some('{') => template.braces(marker, &behind[1..]),
                Some(digit @ '0'..='9') => {
                    let group = digit as usize - '0' as usize;
                    template.parts.push(if marker == "$" { Part::Rule(group) } else { Part::Condition(group) });
                    &behind[1..]
                }
                Some(_) => {
                    template.push_text(marker);
                    behind
                }
            };
        }
        template.push_text(rest);
        template
    }

    /// Parses the part after `%{` or `${`; returns the rest.
    fn braces<'a>(&mut self, marker: &str, behind: &'a str) -> &'a str {
        let inner = find_outside(behind, '}').map(|end| (&behind[..end], &behind[end + 1..]));
        let part = inner.and_then(|(inner, _)| match marker {
            "%" => Some(Part::Variable(Variable::parse(inner))),
            _ => MapCall::parse(inner).map(|call| Part::Map(Box::new(call))),
        });
        match (part, inner) {
            (Some(part), Some((_, rest))) => {
                self.parts.push(part);
                rest
            }
            _ => {
                self.push_text(marker);
                self.push_text("{");
                behind
            }
        }
    }

    fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(before)) => before.push_str(text),
            _ => self.parts.push(Part::Text(text.to_string())),
        }
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether any part of it, or of an inner text, satisfies `is_such`.
    pub(super) fn any(&self, is_such: &impl Fn(&Part) -> bool) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Map(call) => {
                is_such(part) || call.key.any(is_such) || call.default.as_ref().is_some_and(|text| text.any(is_such))
            }
            _ => is_such(part),
        })
    }
}

impl MapCall {
    fn parse(inner: &str) -> Option<MapCall> {
        let colon = find_outside(inner, ':')?;
        let (key, default) = match find_outside(&inner[colon + 1..], '|') {
            Some(bar) => (&inner[colon + 1..][..bar], &inner[colon + 1..][bar + 1..]),
            None => (&inner[colon + 1..], ""),
        };
        let default = (!default.is_empty()).then(|| Template::parse(default));
        Some(MapCall { map: inner[..colon].to_string(), key: Template::parse(key), default })
    }
}

/// The position of a character outside inner braces.
fn find_outside(text: &str, wanted: char) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            c if c == wanted && depth == 0 => return Some(at),
            '}' => depth = depth.checked_sub(1)?,
            '{' => depth += 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(template: &Template) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => format!("'{text}'"),
            Part::Rule(group) => format!("${group}"),
            Part::Condition(group) => format!("%{group}"),
            Part::Variable(variable) => format!("{variable:?}"),
            Part::Map(call) => {
                let default = call.default.as_ref().map(|text| format!("|{}", shown(text))).unwrap_or_default();
                format!("{}:{}{default}", call.map, shown(&call.key))
            }
        };
        template.parts.iter().map(part).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn texts_as_apache_reads_them() {
        let table = [
            ("", ""),
            ("/a.html", "'/a.html'"),
            ("/$1/%2", "'/' $1 '/' %2"),
            (r"a\$1\\b\", r"'a$1\b\'"),
            ("100%", "'100%'"),
            ("$", "'$'"),
            ("a%zb", "'a%zb'"),
            ("%{", "'%{'"),
            ("${x}", "'${x}'"),
            ("${m:$1}", "m:$1"),
            ("${m:$1|}", "m:$1"),
            ("${m:a|b}c", "m:'a'|'b' 'c'"),
            ("${m:${n:$1|x}|$2}", "m:n:$1|'x'|$2"),
            ("${m:a", "'${m:a'"),
            ("%{ENV:a}", "Env(\"a\")"),
        ];
        for (text, want) in table {
            assert_eq!(shown(&Template::parse(text)), want, "{text}");
        }
    }
}
