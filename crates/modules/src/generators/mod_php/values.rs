//! The configured values of PHP's settings: how sections merge, and how they are written for PHP.

use std::collections::BTreeMap;

use conf::{Merge, Origin};

/// Settings of PHP by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(BTreeMap<String, Value>);

#[derive(Clone, Debug)]
struct Value {
    text: String,
    /// Set by `php_admin_value` or `php_admin_flag`: neither a script nor an inner section changes it.
    admin: bool,
    origin: Origin,
}

impl Merge for Values {
    /// An administrator's outer value takes precedence over an inner one that is not; everything else is replaced.
    fn merge(base: &Self, add: &Self) -> Self {
        let mut merged = base.0.clone();
        for (name, value) in &add.0 {
            if value.admin || !base.0.get(name).is_some_and(|outer| outer.admin) {
                merged.insert(name.clone(), value.clone());
            }
        }
        Values(merged)
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.0.values().for_each(|value| see(&value.origin));
    }
}

/// Words that PHP's parser of settings takes for something other than a name, and settings that take effect at its
/// start: under mod_php no line can set them either.
const NO_NAMES: [&str; 10] = ["extension", "false", "no", "none", "null", "off", "on", "true", "yes", "zend_extension"];
/// Prefixes of settings that only php-cgi has. The server sets them.
const OURS: [&str; 3] = ["cgi.", "fastcgi.", "user_ini."];
/// Settings that mod_php has itself, and php-cgi does not.
const HANDLED: [&str; 4] = ["child_terminate", "engine", "last_modified", "xbithack"];

/// Settings that PHP reads before it knows those of the directory; each may be set for a directory.
const EARLY: [&str; 2] = ["enable_post_data_reading", "post_max_size"];

impl Values {
    /// Sets a value; `admin`: neither a script nor an inner section changes it.
    pub(super) fn set(&mut self, name: &str, text: &str, admin: bool, origin: Origin) {
        let text = if text.eq_ignore_ascii_case("none") { "" } else { text }.to_string();
        self.0.insert(name.to_string(), Value { text, admin, origin });
    }

    /// Whether scripts are run at all.
    pub(super) fn engine(&self) -> bool {
        self.0.get("engine").is_none_or(|value| {
            let text = value.text.trim();
            let number = text.parse::<i64>().is_ok_and(|number| number != 0);
            number || ["on", "yes", "true"].iter().any(|word| text.eq_ignore_ascii_case(word))
        })
    }

    /// The lines for a `php.ini`: an administrator's values, or the others.
    pub(super) fn lines(&self, admin: bool) -> String {
        self.written(|name, value| value.admin == admin && is_name(name))
    }

    /// The other values that are needed when a process starts.
    pub(super) fn early_lines(&self) -> String {
        self.written(|name, value| !value.admin && EARLY.contains(&name))
    }

    fn written(&self, is_wanted: impl Fn(&str, &Value) -> bool) -> String {
        let mut lines = String::new();
        for (name, value) in self.0.iter().filter(|(name, value)| is_wanted(name, value)) {
            lines.push_str(name);
            lines.push('=');
            lines.push_str(&quoted(&value.text));
            lines.push('\n');
        }
        lines
    }
}

/// Whether PHP could have such a setting. For any other name mod_php does nothing.
fn is_name(name: &str) -> bool {
    let known = |names: &[&str]| names.iter().any(|one| name.eq_ignore_ascii_case(one));
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        && !known(&NO_NAMES)
        && !known(&HANDLED)
        && !OURS.iter().any(|start| name.get(..start.len()).is_some_and(|have| have.eq_ignore_ascii_case(start)))
}

/// Quotes a value so that PHP takes every byte literally: between apostrophes nothing is special, and an apostrophe
/// goes between quotation marks.
fn quoted(text: &str) -> String {
    let parts: Vec<String> =
        text.split('\'').map(|part| if part.is_empty() { String::new() } else { format!("'{part}'") }).collect();
    match parts.join("\"'\"") {
        empty if empty.is_empty() => "\"\"".to_string(),
        quoted => quoted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(list: &[(&str, &str, bool)]) -> Values {
        let origin = Origin { source: std::sync::Arc::new(conf::Source::new("f")), line: 1 };
        let value = |text: &str, admin| Value { text: text.to_string(), admin, origin: origin.clone() };
        Values(list.iter().map(|(name, text, admin)| ((*name).to_string(), value(text, *admin))).collect())
    }

    #[test]
    fn admin_values_stay() {
        let base = values(&[("a", "1", true), ("b", "1", false), ("c", "1", true), ("d", "1", false)]);
        let add = values(&[("a", "2", false), ("b", "2", true), ("c", "2", true), ("e", "2", false)]);
        let merged = Values::merge(&base, &add);
        assert_eq!(merged.lines(true), "a='1'\nb='2'\nc='2'\n");
        assert_eq!(merged.lines(false), "d='1'\ne='2'\n");
    }

    #[test]
    fn values_are_what_they_are() {
        for (text, want) in [("", "\"\""), ("a b", "'a b'"), ("'", "\"'\""), ("it's $x", "'it'\"'\"'s $x'")] {
            assert_eq!(quoted(text), want, "{text}");
        }
    }

    #[test]
    fn invalid_names() {
        let all = ["a b", "x]", "on", "Zend_Extension", "user_ini.filename", "engine", "", "a=b", "CGI.x", "a\nb"];
        for name in all {
            assert_eq!(values(&[(name, "1", false)]).lines(false), "", "{name}");
        }
        assert_eq!(values(&[("session.save_path", "/x", false)]).lines(false), "session.save_path='/x'\n");
    }

    #[test]
    fn whether_the_engine_is_on() {
        for (text, on) in [("1", true), ("0", false), ("On", true), ("off", false), ("", false), ("no", false)] {
            assert_eq!(values(&[("engine", text, false)]).engine(), on, "{text}");
        }
        assert!(Values::default().engine());
    }
}
