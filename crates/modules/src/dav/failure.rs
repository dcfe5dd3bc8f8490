//! Why a WebDAV request is refused: its status, the log's text, and the response to the client.

use std::io;

use conf::Level;
use server::{Body, HandlerResult, Request};

use super::multistatus;

/// Why a request is refused: the status, the lines for the log, and the text for the client.
#[derive(Debug, Default)]
pub(super) struct Failure {
    pub(super) status: u16,
    /// The log's texts, from the outermost to the innermost, each with Apache's number of the error.
    log: Vec<(String, u32)>,
    /// The system's own error.
    os: Option<io::Error>,
    /// Whether the last text is one of Apache's numbered messages.
    plain: bool,
    /// The client's text in place of the page for the status.
    page: Option<String>,
    /// The conflicting resources, with their statuses.
    others: Vec<(String, u16, String)>,
}

impl Failure {
    /// With a status alone, and no line in the log.
    pub(super) fn status(status: u16) -> Failure {
        Failure { status, ..Failure::default() }
    }

    /// With a text for the log, and Apache's number of the error.
    pub(super) fn numbered(status: u16, number: u32, text: impl Into<String>) -> Failure {
        Failure { status, log: vec![(text.into(), number)], ..Failure::default() }
    }

    /// With a text for the log.
    pub(super) fn new(status: u16, text: impl Into<String>) -> Failure {
        Failure::numbered(status, 0, text)
    }

    /// With a message of Apache's that has a number (`AH00580: …`).
    pub(super) fn message(status: u16, text: impl Into<String>) -> Failure {
        Failure { plain: true, ..Failure::new(status, text) }
    }

    /// An error of the system. A full disk has its own status.
    pub(super) fn os(status: u16, error: io::Error, text: impl Into<String>) -> Failure {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        let status = if matches!(error.kind(), StorageFull | QuotaExceeded) { 507 } else { status };
        Failure { os: Some(error), ..Failure::new(status, text) }
    }

    /// Shown to the client as a page of its own.
    pub(super) fn page(status: u16, text: impl Into<String>) -> Failure {
        Failure { status, page: Some(text.into()), ..Failure::default() }
    }

    /// Part of a larger failure of the same status.
    #[must_use]
    pub(super) fn within(mut self, text: impl Into<String>) -> Failure {
        self.log.insert(0, (text.into(), 0));
        self
    }

    /// With the conflicting resources: URL path, status, and a description.
    #[must_use]
    pub(super) fn about(mut self, others: Vec<(String, u16, String)>) -> Failure {
        self.others = others;
        self
    }

    /// The innermost of the log's texts, which is the cause.
    pub(super) fn reason(&self) -> &str {
        self.log.last().map_or("", |(text, _)| text)
    }

    /// Makes the response, and writes the log lines.
    pub(super) fn respond(self, request: &mut Request) -> HandlerResult {
        let last = self.log.len().saturating_sub(1);
        for (at, (text, number)) in self.log.iter().enumerate() {
            let text = if self.plain { text.clone() } else { format!("{text}  [{}, #{number}]", self.status) };
            match &self.os {
                Some(error) if at == last => request.log_os("dav", Level::Error, error, text),
                _ => request.log("dav", Level::Error, text),
            }
        }
        if let Some(text) = self.page {
            return page(request, self.status, &text);
        }
        if self.others.is_empty() {
            return HandlerResult::Status(self.status);
        }
        request.response.set_status(self.status);
        request.response.set_content_type(multistatus::TYPE);
        let mut text = multistatus::begin();
        for (href, status, description) in &self.others {
            multistatus::push_status(&mut text, href, *status, description);
        }
        text.push_str(multistatus::END);
        HandlerResult::Body(Body::text(text))
    }
}

/// A page of one sentence. `text` is escaped here.
pub(super) fn page(request: &mut Request, status: u16, text: &str) -> HandlerResult {
    request.response.set_status(status);
    request.response.set_content_type("text/html; charset=ISO-8859-1");
    let reason = http::status::reason(status);
    let signature = request.signature();
    HandlerResult::Body(Body::text(format!(
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n<html>\n<head>\n\
         <title>{status} {reason}</title>\n</head><body>\n<h1>{reason}</h1>\n<p>{}</p>\n{signature}</body></html>\n",
        http::uri::escape_html(text).replace("&quot;", "\"")
    )))
}

/// Failures, each with its URL path.
pub(super) type Failures = Vec<(String, u16, String)>;

/// Reports failures for some of many resources.
pub(super) fn incomplete(failures: Failures, text: &str) -> Result<(), Failure> {
    match failures.as_slice() {
        [] => Ok(()),
        _ => Err(Failure::new(207, text).about(failures)),
    }
}
