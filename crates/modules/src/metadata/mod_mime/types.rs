//! `mime.types`, and media types with their parameters.

use std::io;
use std::sync::Arc;

use conf::lines::{LINE_MAX, Lines};
use conf::words::words;
use foldhash::HashMap;

/// Types by extension, from `TypesConfig`.
#[derive(Debug, Default)]
pub(super) struct Types(HashMap<Box<str>, Arc<str>>);

impl Types {
    /// Parses a file: a type and its extensions on each line. The last line of an extension counts.
    pub(super) fn parse(bytes: Vec<u8>) -> io::Result<Types> {
        let mut types = HashMap::default();
        let mut lines = Lines::new(bytes, LINE_MAX);
        while let Some(line) = lines.next().map_err(io::Error::other)? {
            let mut words = words(&line.text).into_iter();
            let Some(name) = words.next() else { continue };
            let name: Arc<str> = name.into();
            types.extend(words.map(|extension| (extension.to_ascii_lowercase().into(), name.clone())));
        }
        Ok(Types(types))
    }

    /// The type of an extension in lower case.
    pub(super) fn get(&self, extension: &str) -> Option<&str> {
        self.0.get(extension).map(|name| &**name)
    }
}

/// A type with its parameters in canonical form, and with `charset` if there is one.
pub(super) fn with_charset(name: &str, charset: Option<&str>) -> String {
    let (kind, parameters) = name.split_once(';').unwrap_or((name, ""));
    let kind = kind.trim();
    if !kind.contains('/') {
        return name.to_string();
    }
    let mut out = kind.to_string();
    let mut charset = charset;
    for parameter in parameters.split(';').map(str::trim).filter(|parameter| !parameter.is_empty()) {
        let (attribute, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let (attribute, mut value) = (attribute.trim(), value.trim());
        if attribute.eq_ignore_ascii_case("charset")
            && let Some(own) = charset.take()
        {
            value = own;
        }
        out.extend(["; ", attribute, "=", value]);
    }
    if let Some(charset) = charset {
        out.extend(["; charset=", charset]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_as_measured() {
        let text =
            "# c\ntext/x-one  TXT .foo \"html\"\n text/x-two html\ntext/x-three\ntext/x-four \\\n en\n#text/x php\n";
        let types = Types::parse(text.into()).unwrap_or_default();
        let table = [
            ("txt", Some("text/x-one")),
            ("html", Some("text/x-two")),
            ("foo", None),
            ("en", Some("text/x-four")),
            ("php", None),
        ];
        for (extension, want) in table {
            assert_eq!(types.get(extension), want, "{extension}");
        }
    }

    #[test]
    fn parameters_as_measured() {
        let table = [
            ("text/html", None, "text/html"),
            ("text/html", Some("utf-8"), "text/html; charset=utf-8"),
            ("text/plain;  charset=x;q=1", None, "text/plain; charset=x; q=1"),
            ("text/html;charset=q", Some("latin1"), "text/html; charset=latin1"),
            ("junk", Some("utf-8"), "junk"),
        ];
        for (name, charset, want) in table {
            assert_eq!(with_charset(name, charset), want);
        }
    }
}
