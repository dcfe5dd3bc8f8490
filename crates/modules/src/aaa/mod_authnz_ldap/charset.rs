//! Names and passwords in the charset of the client's language (`AuthLDAPCharsetConfig`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use conf::words::next_word;
use conf::{Setting, settings};
use encoding_rs::Encoding;
use server::Request;

settings! {
    /// The module's settings of the server.
    pub struct CharsetServer {
        pub(super) charsets: Setting<Arc<Charsets>>,
    }
}

/// Charsets by language.
#[derive(Debug, Default)]
pub struct Charsets(HashMap<String, String>);

impl Charsets {
    /// Reads a file of lines with a language and a charset.
    pub(super) fn read(path: &str) -> Result<Charsets, String> {
        let bytes = std::fs::read(server::paths::os_path(path)).map_err(|error| {
            let why = sys::describe(&error);
            format!("{why}: AH01751: could not open charset conversion config file {path}.")
        })?;
        let charsets = Charsets::parse(&http::text::from_bytes(&bytes));
        // As in Apache: the file must also contain the directory's own.
        match charsets.0.contains_key("utf-8") {
            true => Ok(charsets),
            false => Err(format!("AH01752: could not find the UTF-8 charset in the file {path}.")),
        }
    }

    fn parse(text: &str) -> Charsets {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|mut line| {
            let (language, charset) = (next_word(&mut line), next_word(&mut line));
            (!charset.is_empty()).then(|| (language.to_ascii_lowercase(), charset))
        });
        Charsets(pairs.collect())
    }

    /// The charset for a client's `Accept-Language`: that of the first language.
    fn of(&self, accepted: &str) -> Option<&'static Encoding> {
        let language = accepted.split([',', ';']).next().unwrap_or_default();
        let short = language.get(..2).filter(|_| language.len() > 3 && language.as_bytes()[2] == b'-');
        let charset = self.0.get(language).or_else(|| self.0.get(short?))?;
        Encoding::for_label(charset.as_bytes())
    }

    /// Converts such a client's text to UTF-8.
    fn translate<'t>(&self, accepted: &str, text: &'t str) -> Cow<'t, str> {
        let Some(charset) = self.of(accepted) else { return Cow::Borrowed(text) };
        let bytes = http::text::to_bytes(text);
        match charset.decode_without_bom_handling_and_without_replacement(&bytes) {
            Some(plain) => Cow::Owned(plain.into_owned()),
            None => Cow::Borrowed(text),
        }
    }
}

/// A text from the client, converted for the directory.
pub(super) fn translated<'t>(request: &Request, text: &'t str) -> Cow<'t, str> {
    let charsets = request.server.main().settings.get::<CharsetServer>().charsets.get();
    match (charsets, request.header("Accept-Language")) {
        (Some(charsets), Some(accepted)) => charsets.translate(&accepted, text),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets() {
        let charsets = Charsets::parse("# Language Charset\nen ISO-8859-1 English\nRU koi8-r\nutf-8 utf8\nx\n\n");
        let of =
            |accepted: &str, bytes: &[u8]| charsets.translate(accepted, &http::text::from_bytes(bytes)).into_owned();
        assert_eq!(of("en", b"caf\xe9"), "café");
        assert_eq!(of("en-US;q=0.5, ru", b"caf\xe9"), "café");
        assert_eq!(of("ru,en", b"\xc1"), "а");
        assert_eq!(of("utf-8", "é".as_bytes()), "é");
        // Other languages, and bytes invalid in the charset, stay unchanged.
        assert_eq!(of("de", "é".as_bytes()), "é");
        assert_eq!(http::text::to_bytes(&of("utf-8", b"\xff")), &b"\xff"[..]);
        assert!(Charsets::read("/none").is_err());
    }
}
