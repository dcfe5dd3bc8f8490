//! Sessions of users: requests that depend on the responses before them. A front end reads a [`Scenario`] from a file of
//! its own; [`users`] plays it, with a [`user`] for each session.

mod jar;
pub(crate) mod tally;
mod template;
mod transcript;
mod user;
pub(super) mod users;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use template::Template;
pub(crate) use transcript::{Parts, Printed};

use super::response::ResponseText;
use super::url::Url;

/// What users do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Scenario {
    /// Sessions begin with these in turn; at least one, and none of them empty.
    pub(crate) sessions: Vec<Vec<Burst>>,
    /// The server, as steps with a whole URL name it.
    pub(crate) server: Server,
    /// The most connections of a session at a time.
    pub(crate) connections: usize,
    /// Whether users keep cookies.
    pub(crate) cookies: bool,
    /// The names of the steps that are counted one by one, in the order of their numbers.
    pub(crate) names: Vec<String>,
    /// The requests and responses to print.
    pub(crate) prints: Printed,
}

/// Steps that are sent together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Burst {
    pub(crate) steps: Vec<Arc<Step>>,
    /// How long the user rests after the last response: anything between these two.
    pub(crate) think: (Duration, Duration),
}

/// A request, and what its response has to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Its place among the names.
    pub(crate) number: usize,
    pub(crate) method: String,
    /// A path, or a URL on the server.
    pub(crate) target: Template,
    /// The minor version of HTTP.
    pub(crate) minor: u8,
    /// The lines of its fields, without `Content-Length` and the user's cookies.
    pub(crate) fields: Template,
    /// Whether these leave room for the user's cookies.
    pub(crate) takes_cookies: bool,
    pub(crate) body: Option<Template>,
    pub(crate) expected: Expected,
    pub(crate) captures: Vec<Capture>,
}

/// A good response.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Expected {
    /// Its status lies in one of these ranges.
    pub(crate) statuses: Vec<(u16, u16)>,
    /// Its body contains all of these.
    pub(crate) texts: Vec<Template>,
}

/// A value to remember.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Capture {
    /// Its place among the user's values.
    pub(crate) value: usize,
    /// Its name, for messages.
    pub(crate) name: String,
    pub(crate) from: CaptureSource,
}

/// The part of a response that is a value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum CaptureSource {
    /// The first field of this name.
    Header(String),
    /// The text of the body between these two, where they first occur.
    Between(String, String),
}

/// The names under which users know the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) is_secure: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// More than a page has before the text that anybody looks for, in bytes.
pub(crate) const BODY_MAX: usize = 1024 * 1024;
/// More than a token or a location has, in bytes.
pub(crate) const VALUE_MAX: usize = 16 * 1024;

impl Scenario {
    /// How many requests the longest of its sessions has.
    pub(crate) fn length(&self) -> usize {
        self.sessions.iter().map(|session| session.iter().map(|burst| burst.steps.len()).sum()).max().unwrap_or(0)
    }

    /// How many bytes of each body are looked at.
    pub(super) fn kept_of_bodies(&self) -> usize {
        let mut steps = self.sessions.iter().flatten().flat_map(|burst| &burst.steps);
        let looks = |step: &Arc<Step>| {
            let takes_text = step.captures.iter().any(|capture| matches!(capture.from, CaptureSource::Between(..)));
            takes_text || !step.expected.texts.is_empty()
        };
        if self.prints.reply.body || steps.any(looks) { BODY_MAX } else { 0 }
    }
}

impl Server {
    pub(crate) fn of(url: &Url) -> Self {
        Self { is_secure: url.is_secure, host: url.host.clone(), port: url.port }
    }

    /// The path of a target: itself, or that of a URL on this server.
    pub(crate) fn path(&self, target: &str) -> Result<String, String> {
        if target.contains(|char: char| char.is_ascii_control() || char == ' ') {
            return Err(format!("{target:?} is not a URL: it contains a blank"));
        }
        if target.starts_with('/') {
            return Ok(target.split('#').next().unwrap_or_default().to_owned());
        }
        let is_whole = target.contains("://");
        let url = Url::parse(target).ok().filter(|_| is_whole);
        let url = url.ok_or_else(|| format!("{target:?} is neither a path, which begins with /, nor a URL"))?;
        let is_here =
            (url.is_secure, url.port) == (self.is_secure, self.port) && url.host.eq_ignore_ascii_case(&self.host);
        if is_here { Ok(url.path) } else { Err(format!("{target} is on another server")) }
    }
}

impl Expected {
    /// Any status that is not an error.
    pub(crate) const GOOD: [(u16, u16); 1] = [(100, 399)];

    /// Any response, unless its status is this one.
    pub(crate) fn any_but(status: Option<u16>) -> Self {
        let statuses = match status {
            None => vec![(0, u16::MAX)],
            Some(status) => vec![(0, status.saturating_sub(1)), (status.saturating_add(1), u16::MAX)],
        };
        Self { statuses, texts: Vec::new() }
    }

    /// Whether a response is as expected; otherwise, why it is not.
    fn check(&self, status: u16, kept: &ResponseText, values: &[String]) -> Result<(), String> {
        if !self.statuses.iter().any(|(least, most)| (*least..=*most).contains(&status)) {
            return Err(format!("its status is {status}"));
        }
        for text in &self.texts {
            let text = text.filled(values);
            if memchr::memmem::find(&kept.body, text.as_bytes()).is_none() {
                return Err(format!("its body does not contain {text:?}"));
            }
        }
        Ok(())
    }
}

impl CaptureSource {
    /// The value in a response; if there is none, why not.
    fn value(&self, kept: &ResponseText) -> Result<String, String> {
        let found = match self {
            CaptureSource::Header(name) => field(&kept.head, name).next(),
            CaptureSource::Between(before, after) => {
                let from = memchr::memmem::find(&kept.body, before.as_bytes()).map(|at| at + before.len());
                from.and_then(|from| {
                    let rest = &kept.body[from..];
                    memchr::memmem::find(rest, after.as_bytes()).map(|to| &rest[..to])
                })
            }
        };
        let found = found.ok_or_else(|| match self {
            CaptureSource::Header(name) => format!("it has no field {name}"),
            CaptureSource::Between(before, after) => format!("its body has nothing between {before:?} and {after:?}"),
        })?;
        match found.len() {
            0..=VALUE_MAX => Ok(String::from_utf8_lossy(found).into_owned()),
            length => Err(format!("the value is longer than {VALUE_MAX} bytes: {length}")),
        }
    }
}

/// The values of the fields of a name in a head.
fn field<'h>(head: &'h [u8], name: &str) -> impl Iterator<Item = &'h [u8]> {
    head.split(|byte| *byte == b'\n').skip(1).filter_map(move |line| {
        let at = memchr::memchr(b':', line)?;
        line[..at].eq_ignore_ascii_case(name.as_bytes()).then(|| line[at + 1..].trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_on_the_server() {
        let server = Server::of(&Url::parse("http://localhost:81/").unwrap());
        let path = |target: &str| server.path(target);
        assert_eq!(path("/a?b#c").as_deref(), Ok("/a?b"));
        assert_eq!(path("http://LOCALHOST:81").as_deref(), Ok("/"));
        for (target, why) in [
            ("http://localhost/", "another server"),
            ("https://localhost:81/", "another server"),
            ("//localhost:81/a b", "blank"),
            ("/a\r\nX: y", "blank"),
            ("a", "neither a path"),
        ] {
            let error = path(target).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn values_are_found() {
        let head = b"HTTP/1.1 200 OK\r\nX-Id:  7 \r\nx-id: 8\r\n\r\n".to_vec();
        let kept = ResponseText { head, body: b"<a id='x'><b id='y'>".to_vec() };
        let value = |from: CaptureSource| from.value(&kept);
        assert_eq!(value(CaptureSource::Header("x-ID".to_owned())).as_deref(), Ok("7"));
        assert_eq!(value(CaptureSource::Between("id='".to_owned(), "'".to_owned())).as_deref(), Ok("x"));
        assert!(value(CaptureSource::Header("X".to_owned())).unwrap_err().contains("no field X"));
        assert!(
            value(CaptureSource::Between("id='".to_owned(), "\"".to_owned())).unwrap_err().contains("nothing between")
        );
    }
}
