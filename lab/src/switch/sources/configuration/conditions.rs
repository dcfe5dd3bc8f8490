//! Requests that meet conditions: on fields, addresses, queries, methods.

use super::access::Network;
use super::line::{Line, Wanted};
use crate::switch::sources::pattern::Pattern;
use crate::switch::sources::walk::encoded;

/// The most conditions of an expression that are looked at.
const CONDITIONS_MAX: usize = 8;

/// `BrowserMatch`.
pub(super) fn browser(line: &Line<'_>) -> Vec<Wanted> {
    matching(line, "User-Agent", line.first())
}

/// `SetEnvIf`.
pub(super) fn set_env_if(line: &Line<'_>) -> Vec<Wanted> {
    line.words.get(1).map(|expression| matching(line, line.first(), expression)).unwrap_or_default()
}

/// Requests whose attribute an expression matches, and requests that it nearly matches.
fn matching(line: &Line<'_>, name: &str, expression: &str) -> Vec<Wanted> {
    let Some(pattern) = Pattern::read(expression) else { return Vec::new() };
    let pattern =
        if line.directive.name.to_ascii_lowercase().ends_with("nocase") { pattern.ignoring_case() } else { pattern };
    let mut wanted = line.in_scope("without the field");
    for place in line.in_scope("").into_iter().take(2) {
        for text in pattern.texts() {
            let attribute = Attribute::of(name);
            wanted.extend(attribute.apply(place.clone().about("matches"), &text));
            let near = pattern.near(&text);
            wanted.extend(near.and_then(|near| attribute.apply(place.clone().about("just does not match"), &near)));
        }
    }
    wanted
}

/// `<If>`.
pub(super) fn expression(line: &Line<'_>) -> Vec<Wanted> {
    let conditions = conditions_of(&line.directive.arguments);
    let mut wanted = line.in_scope("meets no condition");
    for place in line.in_scope("").into_iter().take(2) {
        let mut whole = Some(place.clone().about("meets all conditions"));
        for (attribute, text) in &conditions {
            whole = whole.and_then(|whole| attribute.apply(whole, text));
            wanted.extend(attribute.apply(place.clone().about("meets a condition"), text));
        }
        wanted.extend(whole.filter(|_| conditions.len() > 1));
    }
    wanted
}

/// The conditions on a request in an expression, each with a value that meets it.
fn conditions_of(expression: &str) -> Vec<(Attribute, String)> {
    let mut found = Vec::new();
    let mut rest = expression;
    while found.len() < CONDITIONS_MAX {
        let places =
            ["%{", "req('", "http('", "-R ", "-ipmatch "].iter().filter_map(|mark| Some((rest.find(mark)?, *mark)));
        let Some((at, mark)) = places.min() else { break };
        rest = &rest[at + mark.len()..];
        let is_address = mark.starts_with('-');
        let attribute = if is_address {
            Attribute::Address
        } else {
            let Some(end) = rest.find(['}', '\'']) else { break };
            let name = &rest[..end];
            rest = rest[end..].trim_start_matches(['}', '\'', ')', '"']);
            if mark == "%{" { Attribute::of_variable(name) } else { Attribute::Field(name.to_owned()) }
        };
        let operator: String =
            rest.trim_start().chars().take_while(|char| !char.is_whitespace() && !"'\"/".contains(*char)).collect();
        if !is_address {
            rest = rest.trim_start().strip_prefix(operator.as_str()).unwrap_or_default();
        }
        let value = quoted(rest.trim_start());
        let value = match operator.as_str() {
            _ if is_address => value.and_then(|value| Some(Network::read(value)?.inside().to_string())),
            "=~" => value.and_then(|value| Pattern::read(value)?.texts().into_iter().next()),
            "==" | "=" | "-eq" | "-strmatch" | "-strcmatch" => value.map(|value| value.replace(['*', '?'], "x")),
            "-ipmatch" => value.and_then(|value| Some(Network::read(value)?.inside().to_string())),
            _ => None,
        };
        found.extend(value.map(|value| (attribute, value)));
    }
    found
}

/// The text in `'…'`, `"…"`, `/…/`, `m#…#`, or a word.
fn quoted(text: &str) -> Option<&str> {
    let text = text
        .strip_prefix('m')
        .filter(|rest| rest.starts_with(|char: char| char.is_ascii_punctuation()))
        .unwrap_or(text);
    let first = text.chars().next()?;
    match first {
        '\'' | '"' | '/' | '#' | '|' | '!' | ',' => text[1..].find(first).map(|end| &text[1..=end]),
        _ => text.split(|char: char| char.is_whitespace() || ")\"'".contains(char)).next(),
    }
}

/// What a condition is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Host,
    Query,
    Method,
    Path,
    Address,
    Field(String),
    /// What no request can say.
    Other,
}

impl Attribute {
    /// That of `SetEnvIf`.
    fn of(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "remote_addr" => Self::Address,
            "request_method" => Self::Method,
            "request_uri" => Self::Path,
            "host" => Self::Host,
            "remote_host" | "server_addr" | "request_protocol" => Self::Other,
            _ if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => Self::Field(name.to_owned()),
            _ => Self::Other,
        }
    }

    /// That of `%{NAME}`.
    pub(super) fn of_variable(name: &str) -> Self {
        match name.to_ascii_uppercase().as_str() {
            "HTTP_HOST" | "SERVER_NAME" => Self::Host,
            "QUERY_STRING" => Self::Query,
            "REQUEST_METHOD" => Self::Method,
            "REQUEST_URI" => Self::Path,
            "REMOTE_ADDR" => Self::Address,
            "HTTP_USER_AGENT" => Self::Field("User-Agent".to_owned()),
            "HTTP_REFERER" => Self::Field("Referer".to_owned()),
            "HTTP_COOKIE" => Self::Field("Cookie".to_owned()),
            "HTTP_ACCEPT" => Self::Field("Accept".to_owned()),
            "HTTP_FORWARDED" => Self::Field("Forwarded".to_owned()),
            upper => match upper.strip_prefix("HTTP:") {
                Some(_) => Self::of(&name["HTTP:".len()..]),
                None => Self::Other,
            },
        }
    }

    /// A request of which it is this text; none if no request can be like that.
    pub(super) fn apply(&self, wanted: Wanted, text: &str) -> Option<Wanted> {
        Some(match self {
            Self::Host => wanted.host(Some(text)),
            Self::Query => wanted.query(&encoded(text.as_bytes()).replace("%25", "%").replace("%3F", "?")),
            Self::Method => wanted.method(text),
            Self::Path => {
                let mut wanted = wanted;
                wanted.ask.target = encoded(text.as_bytes()).into_bytes();
                text.starts_with('/').then_some(wanted)?
            }
            Self::Address => {
                let client = text.parse().ok().or_else(|| Some(Network::read(text)?.inside()));
                wanted.from(client?)
            }
            Self::Field(name) => wanted.with(name, text),
            Self::Other => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_conditions() {
        for (expression, expected) in [
            ("\"%{HTTP_USER_AGENT} =~ /^a(b|c)$/\"", "[(Field(\"User-Agent\"), \"ab\")]"),
            ("\"-R '10.0.0.0/8' && %{QUERY_STRING} == 'q=1'\"", "[(Address, \"10.0.0.1\"), (Query, \"q=1\")]"),
            ("%{REQUEST_URI} =~ m#^/x/#", "[(Path, \"/x/\")]"),
            ("req('X-Y') == 'z'", "[(Field(\"X-Y\"), \"z\")]"),
            ("%{HTTP_HOST} != 'a' || %{HTTP:A-B} -strmatch 'c*'", "[(Field(\"A-B\"), \"cx\")]"),
            ("true", "[]"),
            ("%{", "[]"),
            ("%{A}", "[]"),
        ] {
            assert_eq!(format!("{:?}", conditions_of(expression)), expected, "{expression}");
        }
    }
}
