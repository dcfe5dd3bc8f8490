//! A request to ask both servers.

use std::net::IpAddr;
use std::time::Duration;

use super::endpoints::Endpoint;
use super::private::CLIENT_FIELD;
use super::tree::Origin;

/// The field by which the log lines of a request are found.
pub(crate) const NUMBER_FIELD: &str = "X-Tsubame-Switch-Number";

/// Methods that change nothing (RFC 9110 section 9.2.1).
const SAFE: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];

/// Methods of WebDAV that change nothing (RFC 4918, RFC 3253, RFC 5323).
const SAFE_DAV: [&str; 3] = ["PROPFIND", "REPORT", "SEARCH"];

/// Fields that belong to a connection, or that the request is sent with anyway.
const LEFT_OUT: [&str; 9] = [
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a field is not taken over from where a request was found.
pub(crate) fn is_left_out(name: &str) -> bool {
    LEFT_OUT.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ask {
    /// The number of the site that is meant.
    pub(crate) site: usize,
    /// Where it is sent.
    pub(crate) endpoint: Endpoint,
    pub(crate) is_encrypted: bool,
    pub(crate) method: String,
    /// The target, as the client sent it.
    pub(crate) target: Vec<u8>,
    /// The minor version of HTTP/1.
    pub(crate) minor: u8,
    /// The value of `Host`; none if the client sent none.
    pub(crate) host: Option<String>,
    /// Other fields.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    /// The client's address, if it is known.
    pub(crate) client: Option<IpAddr>,
    pub(crate) body: Vec<u8>,
}

/// A request, how often it occurs, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) ask: Ask,
    /// How many lines of a log it stands for.
    pub(crate) weight: u64,
    /// When it is sent, after the first one; none if that does not matter.
    pub(crate) due: Option<Duration>,
    pub(crate) source: Source,
}

/// Where a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A line of an access log.
    Log {
        /// The file, and the number of the first line.
        line: Origin,
        /// The status that was logged, if it always was the same one.
        status: Option<u16>,
    },
    /// A line of the configuration, and what the request is about.
    Configuration(Origin, &'static str),
    /// A file, and what the request is about.
    File(String, &'static str),
    /// A file of requests, and the number of the request.
    Given(Origin),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Log { line, .. } => write!(f, "{line}"),
            Self::Configuration(origin, what) => write!(f, "{origin} ({what})"),
            Self::File(file, what) => write!(f, "{file} ({what})"),
            Self::Given(origin) => write!(f, "{origin}"),
        }
    }
}

/// Why a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unsendable {
    /// Its method may change something.
    Unsafe,
    /// It is no request: what the client sent was refused when it was read, or had control characters.
    Malformed,
    /// It asks to be connected elsewhere.
    Connect,
    /// There are enough others.
    Beyond,
}

impl Unsendable {
    /// The reason in words.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Unsafe => "could change something (--unsafe)",
            Self::Malformed => "were no requests when they were logged",
            Self::Connect => "ask for a tunnel",
            Self::Beyond => "are beyond --limit",
        }
    }
}

impl Ask {
    /// Why it is not sent, if it is not. What a hostile client had logged never becomes a second request: blanks, ends of
    /// lines and other control characters are sent nowhere.
    pub(crate) fn refusal(&self, allows_unsafe: bool) -> Option<Unsendable> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_control = |byte: &u8| *byte < b' ' && *byte != b'\t' || *byte == 0x7f;
        let is_method = !self.method.is_empty() && self.method.bytes().all(is_token);
        let is_target = !self.target.is_empty() && self.target.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        let is_field = |(name, value): &(String, Vec<u8>)| {
            !name.is_empty() && name.bytes().all(is_token) && !value.iter().any(is_control)
        };
        let is_host = |host: &String| !host.bytes().any(|byte| byte <= b' ' || byte == 0x7f);
        if !is_method || !is_target || !self.fields.iter().all(is_field) || !self.host.as_ref().is_none_or(is_host) {
            return Some(Unsendable::Malformed);
        }
        if self.method == "CONNECT" {
            return Some(Unsendable::Connect);
        }
        (!self.is_safe() && !allows_unsafe).then_some(Unsendable::Unsafe)
    }

    /// Whether its method changes nothing.
    pub(crate) fn is_safe(&self) -> bool {
        SAFE.contains(&self.method.as_str()) || SAFE_DAV.contains(&self.method.as_str())
    }

    /// Its bytes; `number` names it in the logs.
    pub(crate) fn bytes(&self, number: Option<usize>) -> Vec<u8> {
        let mut bytes = self.method.clone().into_bytes();
        bytes.push(b' ');
        bytes.extend(&self.target);
        bytes.extend(format!(" HTTP/1.{}\r\n", self.minor).bytes());
        let mut field = |name: &str, value: &[u8]| {
            bytes.extend(name.bytes());
            bytes.extend(b": ");
            bytes.extend(value);
            bytes.extend(b"\r\n");
        };
        if let Some(host) = &self.host {
            field("Host", host.as_bytes());
        }
        for (name, value) in &self.fields {
            field(name, value);
        }
        if let Some(client) = self.client {
            field(&CLIENT_FIELD, client.to_string().as_bytes());
        }
        if let Some(number) = number {
            field(NUMBER_FIELD, number.to_string().as_bytes());
        }
        if !self.body.is_empty() {
            field("Content-Length", self.body.len().to_string().as_bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(&self.body);
        bytes
    }

    /// What it says, for people.
    pub(crate) fn shown(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        let host = self.host.as_deref().unwrap_or("-");
        let mut text = format!("{} {scheme}://{host}{}", self.method, shown(&self.target));
        let version = if self.minor == 0 { Some("HTTP/1.0".to_owned()) } else { None };
        let fields = self.fields.iter().map(|(name, value)| format!("{name}: {}", shown(value)));
        let said: Vec<String> = version.into_iter().chain(fields).collect();
        if !said.is_empty() {
            text += &format!(" ({})", said.join("; "));
        }
        text
    }
}

/// Bytes for people: what is no printable character is escaped.
pub(crate) fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `METHOD target`.
    pub(crate) fn ask(line: &str) -> Ask {
        let (method, target) = line.split_once(' ').expect("METHOD target");
        Ask {
            site: 0,
            endpoint: Endpoint { address: 0, port: 80 },
            is_encrypted: false,
            method: method.to_owned(),
            target: target.as_bytes().to_vec(),
            minor: 1,
            host: Some("localhost".to_owned()),
            fields: Vec::new(),
            client: None,
            body: Vec::new(),
        }
    }

    #[test]
    fn hostile_lines_are_not_sent() {
        for (line, expected) in [
            ("GET /", None),
            ("PROPFIND /", None),
            ("GET /a b", Some(Unsendable::Malformed)),
            ("GET /a\r\nDELETE", Some(Unsendable::Malformed)),
            ("G\u{16}T /", Some(Unsendable::Malformed)),
            ("DELETE /", Some(Unsendable::Unsafe)),
            ("get /", Some(Unsendable::Unsafe)),
            ("CONNECT a:1", Some(Unsendable::Connect)),
        ] {
            assert_eq!(ask(line).refusal(false), expected, "{line:?}");
        }
        assert_eq!(ask("DELETE /").refusal(true), None);
        let field = Ask { fields: vec![("A".to_owned(), b"b\r\nHost: c".to_vec())], ..ask("GET /") };
        assert_eq!(field.refusal(true), Some(Unsendable::Malformed));
        let host = Ask { host: Some("a\r\nb".to_owned()), ..ask("GET /") };
        assert_eq!(host.refusal(true), Some(Unsendable::Malformed));
    }

    #[test]
    fn requests_have_their_fields() {
        let client = Some([192, 0, 2, 1].into());
        let ask = Ask { fields: vec![("Accept".to_owned(), b"*/*".to_vec())], client, ..ask("GET /a") };
        let text = String::from_utf8(ask.bytes(Some(7))).unwrap();
        assert_eq!(
            text,
            format!(
                "GET /a HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n{}: 192.0.2.1\r\n{NUMBER_FIELD}: 7\r\n\r\n",
                *CLIENT_FIELD
            )
        );
    }
}
