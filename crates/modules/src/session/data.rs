//! A session: its names and values, and the text that stands for them.

use conf::Allowed;
use conf::values::strtol;

/// The contexts of these directives: anywhere, and in `.htaccess` files with AuthConfig.
pub(super) const PLACES: Allowed = Allowed::SERVER.or(Allowed::AUTH);

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    entries: Vec<(String, String)>,
    /// When it ends, in microseconds.
    pub(super) expiry: Option<i64>,
    /// Whether it was changed, and has to be saved.
    pub(super) dirty: bool,
}

/// The name of the expiry among a session's values.
const EXPIRY: &str = "expiry";

impl Session {
    /// A value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.entries.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// Whether nothing is left of it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Changes a value, or removes it.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) {
        self.put(name, value);
        self.dirty = true;
    }

    fn put(&mut self, name: &str, value: Option<&str>) {
        let at = self.entries.iter().position(|(have, _)| have == name);
        match (at, value) {
            (Some(at), Some(value)) => self.entries[at].1 = value.to_string(),
            (None, Some(value)) => self.entries.push((name.to_string(), value.to_string())),
            (Some(at), None) => drop(self.entries.remove(at)),
            (None, None) => {}
        }
    }

    /// Parses `name=value&...`. A name without a value is removed.
    pub(super) fn read(&mut self, text: &str) {
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = form_text(value);
            match form_text(name).as_str() {
                EXPIRY => self.expiry = Some(strtol(&value)),
                name => self.put(name, Some(value.as_str()).filter(|value| !value.is_empty())),
            }
        }
    }

    /// `name=value&...`; empty if there is nothing to store.
    pub(super) fn text(&self) -> String {
        let expiry = self.expiry.map(|expiry| (EXPIRY.to_string(), expiry.to_string()));
        let pair = |(name, value): &(String, String)| {
            format!("{}={}", http::uri::escape_query(name), http::uri::escape_query(value))
        };
        self.entries.iter().chain(&expiry).map(pair).collect::<Vec<_>>().join("&")
    }
}

/// A text of a form, decoded.
pub(crate) fn form_text(text: &str) -> String {
    let bytes = http::text::to_bytes(text);
    let spaced: Vec<u8> = bytes.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    http::text::from_bytes(&http::uri::unescape_lenient(&spaced)).into_owned()
}

/// The current time, in microseconds.
pub(super) fn now() -> i64 {
    i64::try_from(sys::time::realtime().as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_sessions() {
        for (text, want) in [
            ("a=1&b=2", "a=1&b=2"),
            ("a%20b=1+2%26&c", "a+b=1+2%26"),
            ("a=1&a=2&a=", ""),
            ("expiry=12&a=x", "a=x&expiry=12"),
            ("&&=", ""),
            ("a%C3%A9=1~*()", "a%c3%a9=1%7e*%28%29"),
        ] {
            let mut session = Session::default();
            session.read(text);
            assert_eq!(session.text(), want, "{text}");
        }
    }
}
