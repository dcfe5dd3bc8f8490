//! Directives and sections, and how their arguments are divided.

use std::sync::Arc;

/// A directive or a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    /// Its name, without the `<` of a section.
    pub(crate) name: String,
    /// Everything behind the name, as it was written, without the `>` of a section.
    pub(crate) arguments: String,
    /// Where it was read.
    pub(crate) origin: Origin,
    /// The directives in it, if it is a section.
    pub(crate) children: Option<Vec<Directive>>,
}

/// A line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    /// The file.
    pub(crate) file: Arc<str>,
    /// Its line, from 1; 0 if it is unknown.
    pub(crate) line: u32,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Directive {
    /// Whether it has this name; case does not matter.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Its arguments, without quotation marks.
    pub(crate) fn words(&self) -> Vec<String> {
        words(&self.arguments)
    }

    /// The directives in it; none if it is no section.
    pub(crate) fn inside(&self) -> &[Directive] {
        self.children.as_deref().unwrap_or_default()
    }
}

/// All directives, sections before what is in them.
pub(crate) fn all(tree: &[Directive]) -> impl Iterator<Item = &Directive> {
    let mut rest: Vec<&Directive> = tree.iter().rev().collect();
    std::iter::from_fn(move || {
        let next = rest.pop()?;
        rest.extend(next.inside().iter().rev());
        Some(next)
    })
}

/// Divides arguments as Apache does (`ap_getword_conf`): at blanks, except within quotation marks, where a backslash
/// keeps a quotation mark or a backslash.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut word = String::new();
        let mut end = rest.len();
        let quote = matches!(first, '"' | '\'').then_some(first);
        let mut chars = rest.char_indices().skip(usize::from(quote.is_some()));
        while let Some((at, char)) = chars.next() {
            let ends = quote.map_or(char.is_ascii_whitespace(), |quote| char == quote);
            if ends {
                end = at + char.len_utf8();
                break;
            }
            let kept = |next: char| next == '\\' || Some(next) == quote;
            match rest[at + char.len_utf8()..].chars().next().filter(|next| char == '\\' && kept(*next)) {
                Some(next) => {
                    word.push(next);
                    chars.next();
                }
                None => word.push(char),
            }
        }
        words.push(word);
        rest = rest[end..].trim_start();
    }
    words
}

/// A word as an argument that [`words`] reads back.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |char: char| !char.is_ascii_whitespace() && !matches!(char, '"' | '\'' | '\\' | '#');
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_divided_as_apache_does() {
        for (text, expected) in [
            ("a b", &["a", "b"][..]),
            (r#""%h \"%r\" %>s" combined"#, &[r#"%h "%r" %>s"#, "combined"]),
            (r#"'a "b"' c"#, &[r#"a "b""#, "c"]),
            (r"a\b \\c", &[r"a\b", r"\c"]),
            (r#""" x"#, &["", "x"]),
            (r#""unended x"#, &["unended x"]),
            ("", &[]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn quoted_words_are_read_back() {
        for word in ["plain", "", "a b", r#"%h "%r""#, r"back\slash", "it's", "#no"] {
            assert_eq!(words(&quoted(word)), [word], "{word}");
        }
    }
}
