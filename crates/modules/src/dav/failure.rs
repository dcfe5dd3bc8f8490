//! Why a WebDAV request is refused: its status, what the log says of it, and what the client gets.

use std::io;

use conf::Level;
use server::{Answer, Body, Request};

use super::multistatus;

/// Why a request is refused.
#[derive(Debug, Default)]
pub(super) struct Failure {
    pub(super) status: u16,
    /// What the log says, from the outside to the inside, each with Apache's number of the error.
    log: Vec<(String, u32)>,
    /// The system's own word on it.
    os: Option<io::Error>,
    /// Is about the last text alone, which has a number of Apache's messages.
    plain: bool,
    /// What the client gets to read instead of the page for the status.
    page: Option<String>,
    /// The resources that are in the way, with their statuses.
    others: Vec<(String, u16, String)>,
}

impl Failure {
    /// A status alone.
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

    /// The system has refused it. A disk that is full is its own status.
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

    /// With the resources that are in the way: URL path, status, and what there is to say of it.
    #[must_use]
    pub(super) fn about(mut self, others: Vec<(String, u16, String)>) -> Failure {
        self.others = others;
        self
    }

    /// The innermost text.
    pub(super) fn reason(&self) -> &str {
        self.log.last().map_or("", |(text, _)| text)
    }

    /// Makes the answer of it, and the lines of the log.
    pub(super) fn answer(self, request: &mut Request) -> Answer {
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
            return Answer::Status(self.status);
        }
        request.answer.set_status(self.status);
        request.answer.set_content_type(multistatus::TYPE);
        let mut text = multistatus::begin();
        for (href, status, description) in &self.others {
            multistatus::push_status(&mut text, href, *status, description);
        }
        text.push_str(multistatus::END);
        Answer::Body(Body::text(text))
    }
}

/// A page of one sentence. `text` is escaped here.
pub(super) fn page(request: &mut Request, status: u16, text: &str) -> Answer {
    request.answer.set_status(status);
    request.answer.set_content_type("text/html; charset=ISO-8859-1");
    let reason = http1::status::reason(status);
    let signature = request.signature();
    Answer::Body(Body::text(format!(
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n<html>\n<head>\n\
         <title>{status} {reason}</title>\n</head><body>\n<h1>{reason}</h1>\n<p>{}</p>\n{signature}</body></html>\n",
        http1::uri::escape_html(text).replace("&quot;", "\"")
    )))
}
