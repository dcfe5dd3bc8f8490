//! Text with values in it: `/basket/${id}`. Pure.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Text in which values are filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Piece {
    Text(String),
    /// A value, by its place among a user's.
    Value(usize),
    /// The same as a part of a URL or a form.
    Encoded(usize),
}

/// What follows the name of a value that is encoded.
const ENCODED: &str = ":url";

impl Template {
    /// Text without values.
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        Self(vec![Piece::Text(text.into())])
    }

    /// Reads text with `${name}` and `${name:url}` in it; `$${` is the text `${`. `find` knows the places of names.
    ///
    /// # Errors
    /// A name is unknown, or does not end.
    pub(crate) fn parse(text: &str, find: impl Fn(&str) -> Option<usize>) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                literal.push_str(before);
                literal.push_str("${");
                rest = &from[2..];
                continue;
            }
            literal.push_str(before);
            let end = from.find('}').ok_or_else(|| format!("{from:?} has no closing brace; the text ${{ is $${{"))?;
            let name = &from[2..end];
            let (name, is_encoded) = name.strip_suffix(ENCODED).map_or((name, false), |name| (name, true));
            let value = find(name).ok_or_else(|| format!("no step before this one takes {name:?}"))?;
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
            pieces.push(if is_encoded { Piece::Encoded(value) } else { Piece::Value(value) });
            rest = &from[end + 1..];
        }
        literal.push_str(rest);
        pieces.push(Piece::Text(literal));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Self(pieces))
    }

    /// The text with these values.
    pub(crate) fn filled(&self, values: &[String]) -> String {
        let value = |place: &usize| values.get(*place).map_or("", String::as_str);
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Value(place) => out.push_str(value(place)),
                Piece::Encoded(place) => encode(&mut out, value(place)),
            }
        }
        out
    }

    /// The same for fields, whose values are on one line.
    ///
    /// # Errors
    /// A value is not: it would become a field, or a request.
    pub(crate) fn filled_in_line(&self, values: &[String]) -> Result<String, String> {
        let unfit = self.0.iter().find_map(|piece| match piece {
            Piece::Value(place) => values.get(*place).filter(|value| value.contains(['\r', '\n', '\0'])),
            _ => None,
        });
        match unfit {
            Some(value) => Err(format!("the value {value:?} has several lines, and a field has one")),
            None => Ok(self.filled(values)),
        }
    }
}

/// Encodes all but the unreserved characters (RFC 3986 section 2.3).
fn encode(out: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            // Writing to a string does not fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in() {
        let find = |name: &str| ["a", "b"].iter().position(|known| *known == name);
        let values = ["1".to_owned(), "x y/ü\r\n".to_owned()];
        let filled = |text: &str| Template::parse(text, find).map(|template| template.filled(&values));
        assert_eq!(filled("").as_deref(), Ok(""));
        assert_eq!(filled("$ {a} ${a}${a:url}.").as_deref(), Ok("$ {a} 11."));
        assert_eq!(filled("/${b:url}").as_deref(), Ok("/x%20y%2F%C3%BC%0D%0A"));
        assert_eq!(filled("$${a}$$${a}").as_deref(), Ok("${a}$${a}"));
        assert!(filled("${c}").unwrap_err().contains("takes \"c\""));
        assert!(filled("${a").unwrap_err().contains("no closing brace"));
        let line = |text: &str| Template::parse(text, find).unwrap().filled_in_line(&values);
        assert!(line("X: ${b}").unwrap_err().contains("several lines"));
        assert_eq!(line("X: ${a}\r\nY: ${b:url}\r\n").as_deref(), Ok("X: 1\r\nY: x%20y%2F%C3%BC%0D%0A\r\n"));
        assert_eq!(Template::literal("${a}").filled(&values), "${a}");
    }
}
