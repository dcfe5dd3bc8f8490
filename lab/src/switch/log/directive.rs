//! The language of `LogFormat`: what its directives mean to a reader of logs
//! (<https://httpd.apache.org/docs/2.4/mod/mod_log_config.html#formats>).

use std::fmt;
use std::time::Duration;

use crate::switch::log::time::{self, Form};

/// A part of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// Text that stands in every line.
    Literal(Vec<u8>),
    /// A value that differs from line to line.
    Value(Value),
}

/// What a directive writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// The first line of the request: `%r`.
    RequestLine,
    /// `%m`
    Method,
    /// The path, decoded, of the request as it arrived: `%U`.
    Path,
    /// The query with its question mark: `%q`.
    Query,
    /// `%H`; if `HTTP/` is text before this value, what follows that.
    Version,
    /// `%{Host}i`
    HostField,
    /// The virtual host's name, or the client's if `UseCanonicalName` is off: `%V`.
    AskedName,
    /// The virtual host's `ServerName`: `%v`.
    ServerName,
    /// The port as the server calls itself: `%p`.
    Port,
    /// The port that the connection arrived at: `%{local}p`.
    LocalPort,
    /// The client's address: `%a`.
    Client,
    /// The client's host name or its address: `%h`.
    ClientName,
    /// The address that the connection came from: `%{c}a`.
    Peer,
    /// `%u`
    User,
    /// Any other field of the request: `%{NAME}i`.
    Field(String),
    /// The final status: `%>s`.
    Status,
    /// The status before an internal redirect: `%s`.
    OriginalStatus,
    /// Bytes of the body: `%b`, `%B`.
    Bytes,
    /// Bytes sent, with the head: `%O`.
    Sent,
    /// `%t`
    Time(Form),
    /// How long the request took, in this unit: `%T`, `%D`.
    Duration(Duration),
    /// A number that no reader wants: `%I`, `%S`, `%k`.
    Number,
    /// What no reader wants.
    Other,
}

/// Why a format is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It has neither `%r` nor `%U`.
    NoTarget,
    /// It ends within this directive.
    Unfinished(String),
    /// It writes several lines for a request.
    SeveralLines,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTarget => {
                f.write_str("the format has neither %r nor %U, so its lines do not say what was requested")
            }
            Self::Unfinished(directive) => write!(f, "the format ends within the directive {directive}"),
            Self::SeveralLines => f.write_str("the format writes several lines for a request"),
        }
    }
}

/// The parts of a format; adjacent texts are one.
pub(super) fn parse(format: &str) -> Result<Vec<Item>, Unreadable> {
    let mut items = Items::default();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        items.literal(&unquoted(&rest[..at]));
        rest = match rest[at + 1..].strip_prefix('%') {
            Some(after) => {
                items.literal("%");
                after
            }
            None => {
                let (directive, after) = Directive::split(&rest[at..])?;
                items.directive(&directive);
                after
            }
        };
    }
    items.literal(&unquoted(rest));
    items.finish()
}

/// Text between directives: Apache replaces `\n`, `\t` and `\\`, and leaves other backslashes (`parse_log_misc_string`).
fn unquoted(text: &str) -> String {
    let mut unquoted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        unquoted.push_str(&rest[..at]);
        let (char, length) = match rest.as_bytes().get(at + 1) {
            Some(b'n') => ('\n', 2),
            Some(b't') => ('\t', 2),
            Some(b'\\') => ('\\', 2),
            _ => ('\\', 1),
        };
        unquoted.push(char);
        rest = &rest[at + length..];
    }
    unquoted + rest
}

/// A directive, taken apart.
#[derive(Debug, Default)]
struct Directive<'f> {
    /// `s`, or three characters: `^ti`.
    letters: &'f str,
    /// What stands in braces.
    argument: &'f str,
    /// `<` is `true` and `>` is `false`: whether the request before an internal redirect is meant.
    original: Option<bool>,
    /// It writes `-` for some statuses.
    is_conditional: bool,
}

impl<'f> Directive<'f> {
    /// The directive at the beginning of a format, and what follows it (`parse_log_item`).
    fn split(format: &'f str) -> Result<(Self, &'f str), Unreadable> {
        let unfinished = || Unreadable::Unfinished(format.to_owned());
        let mut directive = Self::default();
        let mut rest = format.strip_prefix('%').unwrap_or(format);
        loop {
            let first = rest.chars().next().ok_or_else(unfinished)?;
            let after = &rest[first.len_utf8()..];
            rest = match first {
                '!' | ',' | '0'..='9' => {
                    directive.is_conditional = true;
                    after
                }
                '<' | '>' => {
                    directive.original = Some(first == '<');
                    after
                }
                '{' => {
                    let (argument, after) = after.split_once('}').ok_or_else(unfinished)?;
                    directive.argument = argument;
                    after
                }
                _ => {
                    let length = if first == '^' {
                        rest.char_indices().nth(3).map_or(rest.len(), |(at, _)| at)
                    } else {
                        first.len_utf8()
                    };
                    directive.letters = &rest[..length];
                    return Ok((directive, &rest[length..]));
                }
            };
        }
    }

    /// What it writes. `%U`, `%r`, `%s`, `%T` and `%D` are of the original request, unless they say otherwise.
    fn value(&self) -> Value {
        let is_original = self.original != Some(false);
        match (self.letters, self.argument) {
            ("r", _) => Value::RequestLine,
            ("m", _) => Value::Method,
            ("U", _) if is_original => Value::Path,
            ("q", _) => Value::Query,
            ("H", _) => Value::Version,
            ("v", _) => Value::ServerName,
            ("V", _) => Value::AskedName,
            ("p", "local") => Value::LocalPort,
            ("p", "" | "canonical") => Value::Port,
            ("a", "c") => Value::Peer,
            ("a", _) => Value::Client,
            ("h", "") => Value::ClientName,
            ("u", _) => Value::User,
            ("i", name) if name.eq_ignore_ascii_case("host") => Value::HostField,
            ("i", name) => Value::Field(name.to_owned()),
            ("s", _) if is_original => Value::OriginalStatus,
            ("s", _) => Value::Status,
            ("b" | "B", _) => Value::Bytes,
            ("O", _) => Value::Sent,
            ("D", _) | ("T", "us") => Value::Duration(Duration::from_micros(1)),
            ("T", "ms") => Value::Duration(Duration::from_millis(1)),
            ("T", _) => Value::Duration(Duration::from_secs(1)),
            ("I" | "S" | "k", _) => Value::Number,
            _ => Value::Other,
        }
    }
}

/// The parts of a format so far.
#[derive(Debug, Default)]
struct Items(Vec<Item>);

impl Items {
    fn literal(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Item::Literal(before)) => before.extend_from_slice(text.as_bytes()),
            _ => self.0.push(Item::Literal(text.as_bytes().to_vec())),
        }
    }

    fn value(&mut self, value: Value) {
        self.0.push(Item::Value(value));
    }

    /// Whether the last value is delimited by a space that may stand in the value, too.
    fn is_behind_space(&self) -> bool {
        matches!(self.0.last(), Some(Item::Literal(text)) if text.ends_with(b" "))
    }

    /// Where a directive always writes the same characters, they become text: a value in front of it, such as the name
    /// of a user, may then have spaces.
    fn directive(&mut self, directive: &Directive<'_>) {
        match directive.letters {
            "t" if directive.is_conditional && directive.argument.is_empty() => {
                self.value(Value::Time(Form::Bracketed))
            }
            "t" if directive.is_conditional => self.value(Value::Other),
            "t" if directive.argument.is_empty() => {
                self.literal("[");
                self.value(Value::Time(Form::Common));
                self.literal("]");
            }
            "t" => time::forms(directive.argument).into_iter().for_each(|form| self.value(Value::Time(form))),
            "H" if self.is_behind_space() && !directive.is_conditional => {
                self.literal("HTTP/");
                self.value(Value::Version);
            }
            _ => self.value(directive.value()),
        }
    }

    fn finish(self) -> Result<Vec<Item>, Unreadable> {
        let has_line_end = |item: &Item| matches!(item, Item::Literal(text) if text.contains(&b'\n'));
        match self.0.iter().any(has_line_end) {
            true => Err(Unreadable::SeveralLines),
            false => Ok(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Item {
        Item::Literal(text.as_bytes().to_vec())
    }

    #[test]
    fn each_directive_has_a_meaning() {
        let micro = Duration::from_micros(1);
        let cases = [
            ("%r", Value::RequestLine),
            ("%<r", Value::RequestLine),
            ("%m", Value::Method),
            ("%U", Value::Path),
            ("%>U", Value::Other),
            ("%q", Value::Query),
            ("%v", Value::ServerName),
            ("%V", Value::AskedName),
            ("%p", Value::Port),
            ("%{canonical}p", Value::Port),
            ("%{local}p", Value::LocalPort),
            ("%{remote}p", Value::Other),
            ("%a", Value::Client),
            ("%{c}a", Value::Peer),
            ("%h", Value::ClientName),
            ("%u", Value::User),
            ("%<u", Value::User),
            ("%{hOst}i", Value::HostField),
            ("%{User-Agent}i", Value::Field("User-Agent".to_owned())),
            ("%400,501{User-agent}i", Value::Field("User-agent".to_owned())),
            ("%!200,304,302{Referer}i", Value::Field("Referer".to_owned())),
            ("%{Referer}!200i", Value::Field("Referer".to_owned())),
            ("%s", Value::OriginalStatus),
            ("%<s", Value::OriginalStatus),
            ("%>s", Value::Status),
            ("%b", Value::Bytes),
            ("%B", Value::Bytes),
            ("%I", Value::Number),
            ("%S", Value::Number),
            ("%k", Value::Number),
            ("%O", Value::Sent),
            ("%D", Value::Duration(micro)),
            ("%{us}T", Value::Duration(micro)),
            ("%{ms}T", Value::Duration(Duration::from_millis(1))),
            ("%T", Value::Duration(Duration::from_secs(1))),
            ("%{sec}t", Value::Time(Form::Since1970(1))),
            ("%200t", Value::Time(Form::Bracketed)),
        ];
        for (text, value) in cases {
            assert_eq!(parse(text).unwrap(), [Item::Value(value)], "{text}");
        }
        for text in ["%l", "%f", "%X", "%A", "%P", "%{tid}P", "%L", "%R", "%{x}o", "%{x}e", "%{x}C", "%{x}n"] {
            assert_eq!(parse(text).unwrap(), [Item::Value(Value::Other)], "{text}");
        }
        for text in ["%{SSL_PROTOCOL}x", "%^FB", "%{Name}^ti", "%{Name}^to", "%200{%F}t", "%Z"] {
            assert_eq!(parse(text).unwrap(), [Item::Value(Value::Other)], "{text}");
        }
    }

    #[test]
    fn text_between_directives_is_apaches() {
        let value = |value: Value| Item::Value(value);
        let cases = [
            ("100%%\\t%m\\\\\\q\\", vec![literal("100%\t"), value(Value::Method), literal("\\\\q\\")]),
            ("%^FBé%m", vec![value(Value::Other), literal("é"), value(Value::Method)]),
            ("%u %t", vec![value(Value::User), literal(" ["), value(Value::Time(Form::Common)), literal("]")]),
            ("%U%q %H", vec![value(Value::Path), value(Value::Query), literal(" HTTP/"), value(Value::Version)]),
            ("%m\\t%H", vec![value(Value::Method), literal("\t"), value(Value::Version)]),
            ("", vec![]),
        ];
        for (text, items) in cases {
            assert_eq!(parse(text).unwrap(), items, "{text}");
        }
    }

    #[test]
    fn what_apache_refuses_is_refused() {
        for text in ["%", "%m %>", "%{Referer", "%400,"] {
            assert!(matches!(parse(text), Err(Unreadable::Unfinished(_))), "{text}");
        }
        assert_eq!(parse("%r\\n%s"), Err(Unreadable::SeveralLines));
    }
}
