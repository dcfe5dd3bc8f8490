//! The request's content: its head, and changes since.

use std::borrow::Cow;
use std::sync::Arc;

use http::Version;

use crate::message::fields::Fields;
use crate::message::head::RequestHead;

/// The request's content. An internal redirect or a module may change it; the head stays as it came in.
pub struct RequestData {
    pub(crate) head: Arc<RequestHead>,
    /// The method, as sent; after an internal redirect perhaps `GET`.
    pub method: Cow<'static, str>,
    /// Whether only the head of the response is wanted.
    pub header_only: bool,
    /// The protocol version of the request, which `downgrade-1.0` lowers;
    /// [`Request::protocol`](crate::Request::protocol) is that of its line.
    pub version: Version,
    /// The target names another server, and a module says that the request goes there: this one is a forward proxy.
    pub forward: bool,
    /// The stream it came in, if a connection has several at once.
    pub stream: Option<StreamId>,
    /// The target, if it differs from the head's.
    pub(crate) target: Option<String>,
    /// The path, decoded and cleaned.
    pub uri: String,
    /// The query, as sent.
    pub args: Option<String>,
    /// The requested host, in lower case, without port.
    pub hostname: Option<String>,
    /// Fields that replace those of the head, once a module changed any.
    pub(super) headers_in: Option<Fields>,
}

/// A stream, unique within the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamId {
    /// The number of the process.
    pub process: u32,
    /// The number of the connection in it.
    pub connection: u64,
    /// The number of the stream in that.
    pub number: u32,
}

impl RequestData {
    /// A `GET` with the fields of this head, without a target yet.
    #[inline]
    pub(crate) fn new(head: Arc<RequestHead>) -> RequestData {
        RequestData {
            head,
            method: Cow::Borrowed("GET"),
            header_only: false,
            version: Version::Http11,
            forward: false,
            stream: None,
            target: None,
            uri: String::new(),
            args: None,
            hostname: None,
            headers_in: None,
        }
    }

    /// The target as sent.
    pub fn unparsed_uri(&self) -> Cow<'_, str> {
        match &self.target {
            Some(target) => Cow::Borrowed(target),
            None => http::text::from_bytes(self.head.target()),
        }
    }

    /// The target of the client's own request, even if this one is on behalf of that.
    pub fn sent_target(&self) -> Cow<'_, str> {
        http::text::from_bytes(self.head.target())
    }

    /// Another `GET` of the same client, with the same fields, without a target yet.
    pub(crate) fn again(&self) -> RequestData {
        RequestData {
            version: self.version,
            stream: self.stream,
            hostname: self.hostname.clone(),
            headers_in: self.headers_in.clone(),
            ..RequestData::new(self.head.clone())
        }
    }

    /// Becomes like the content of another request, except for its head and its stream.
    pub(super) fn become_like(&mut self, other: &RequestData) {
        let RequestData {
            head: _,
            method,
            header_only,
            version,
            stream: _,
            forward,
            target,
            uri,
            args,
            hostname,
            headers_in,
        } = other;
        self.method.clone_from(method);
        (self.header_only, self.version, self.stream, self.forward) = (*header_only, *version, None, *forward);
        self.target.clone_from(target);
        self.uri.clone_from(uri);
        self.args.clone_from(args);
        self.hostname.clone_from(hostname);
        self.headers_in.clone_from(headers_in);
    }

    /// The fields of the request if a module changed any; they then replace the head's.
    pub fn changed_fields(&self) -> Option<&Fields> {
        self.headers_in.as_ref()
    }

    /// Extracts the access log's method, path and query from a head that could not be parsed.
    pub(crate) fn salvage_line(&mut self) {
        let line = http::text::from_bytes(self.head.line()).into_owned();
        let mut words = line.split(' ');
        if self.method.is_empty() {
            self.method = words.next().unwrap_or_default().to_string().into();
        } else {
            words.next();
        }
        let target = words.next().unwrap_or("/");
        let path = match target.split_once("://") {
            Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
            _ => target,
        };
        let (path, args) = path.split_once('?').map_or((path, None), |(path, args)| (path, Some(args.to_string())));
        (self.uri, self.args) = (path.to_string(), args);
    }
}
