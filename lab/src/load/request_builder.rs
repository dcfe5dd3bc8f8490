//! The bytes of requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::plan::Request;
use super::url::Url;

/// Encodes text as in `Authorization: Basic`.
pub(crate) fn base64(text: impl AsRef<[u8]>) -> String {
    STANDARD.encode(text)
}

/// The parts of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestBuilder<'a> {
    pub(crate) method: &'a str,
    /// The minor version: 0 or 1.
    pub(crate) minor: u8,
    /// Fields as `Name: value`; they replace automatic ones of the same name.
    pub(crate) fields: &'a [String],
    pub(crate) body: &'a [u8],
    /// Without a type, an empty body is not announced.
    pub(crate) content_type: &'a str,
    /// Send `Host`, unless a field does.
    pub(crate) tells_host: bool,
    /// The value of `User-Agent`, if any.
    pub(crate) agent: Option<&'a str>,
    /// Accept any media type.
    pub(crate) accepts_all: bool,
    /// The value of `Connection`, if any.
    pub(crate) connection: Option<&'a str>,
}

impl RequestBuilder<'_> {
    /// The request for a URL.
    pub(crate) fn of(&self, url: &Url) -> Request {
        let head = format!("{} {} HTTP/1.{}\r\n{}\r\n", self.method, url.path, self.minor, self.lines(url));
        Request { bytes: [head.as_bytes(), self.body].concat().into(), bodiless: self.method == "HEAD" }
    }

    /// The lines of its fields.
    pub(crate) fn lines(&self, url: &Url) -> String {
        let named = |name: &str| {
            let mut names = self.fields.iter().filter_map(|field| field.split(':').next());
            names.any(|own| own.trim().eq_ignore_ascii_case(name))
        };
        let mut lines = String::new();
        let mut add = |name: &str, value: &str| {
            if !named(name) {
                lines.push_str(&format!("{name}: {value}\r\n"));
            }
        };
        if let Some(connection) = self.connection {
            add("Connection", connection);
        }
        if self.tells_host {
            add("Host", &url.authority());
        }
        if let Some(agent) = self.agent {
            add("User-Agent", agent);
        }
        if self.accepts_all {
            add("Accept", "*/*");
        }
        if let Some(user) = &url.user {
            add("Authorization", &format!("Basic {}", base64(user)));
        }
        let has_type = !self.content_type.is_empty();
        if !self.body.is_empty() || (has_type && matches!(self.method, "POST" | "PUT" | "PATCH")) {
            add("Content-Type", self.content_type);
            add("Content-Length", &self.body.len().to_string());
        }
        for field in self.fields {
            lines.push_str(field);
            lines.push_str("\r\n");
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(build: &RequestBuilder<'_>, url: &str) -> String {
        String::from_utf8(build.of(&Url::parse(url).unwrap()).bytes.to_vec()).unwrap()
    }

    #[test]
    fn fields_of_ones_own_replace_those_that_are_here_by_themselves() {
        let fields = ["host: elsewhere".to_owned(), "X-A: b".to_owned()];
        let build = RequestBuilder {
            method: "POST",
            minor: 1,
            fields: &fields,
            body: b"abc",
            content_type: "text/plain",
            tells_host: true,
            agent: Some("x"),
            accepts_all: true,
            connection: None,
        };
        assert_eq!(
            text(&build, "http://me:secret@localhost/a?b"),
            "POST /a?b HTTP/1.1\r\nUser-Agent: x\r\nAccept: */*\r\nAuthorization: Basic bWU6c2VjcmV0\r\n\
             Content-Type: text/plain\r\nContent-Length: 3\r\nhost: elsewhere\r\nX-A: b\r\n\r\nabc"
        );
        let build =
            RequestBuilder { method: "HEAD", minor: 0, fields: &[], body: b"", connection: Some("close"), ..build };
        assert_eq!(
            text(&build, "localhost:81"),
            "HEAD / HTTP/1.0\r\nConnection: close\r\nHost: localhost:81\r\nUser-Agent: x\r\nAccept: */*\r\n\r\n"
        );
        assert!(build.of(&Url::parse("x").unwrap()).bodiless);
        let build = RequestBuilder {
            method: "POST",
            content_type: "",
            tells_host: false,
            agent: None,
            accepts_all: false,
            ..build
        };
        assert_eq!(text(&RequestBuilder { connection: None, ..build }, "x"), "POST / HTTP/1.0\r\n\r\n");
    }
}
