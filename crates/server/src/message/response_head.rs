//! The head of a response, and how to send the body.

use std::borrow::Cow;

use crate::message::fields::Fields;

/// How fast a response may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Bytes per second.
    pub bytes_per_second: u32,
    /// Bytes before the limit applies.
    pub burst: u32,
}

/// The head of a response. Hooks add to it until it is sent.
pub struct ResponseHead {
    status: u16,
    status_line: Option<String>,
    content_type: Option<Cow<'static, str>>,
    /// The type comes from a script, not from the configuration: it names no handler.
    type_by_script: bool,
    /// The encodings, innermost first.
    pub content_encoding: Option<String>,
    /// The values of `Content-Language`.
    pub content_languages: Vec<String>,
    /// Fields of responses that succeed.
    pub headers_out: Fields,
    /// Fields of all responses, including errors.
    pub err_headers_out: Fields,
    /// The response depends on the moment: no validators, no `304`.
    pub no_local_copy: bool,
    /// Distinguishes one list of variants from another, once the response is chosen from one: a part of its `ETag`.
    pub vlist_validator: Option<String>,
    /// Output filters by the file's name (`AddOutputFilter`), before those of the configuration.
    pub output_filters: Vec<String>,
    /// The methods of `Allow`, if a module has limited them.
    pub allowed: Option<Vec<String>>,
    /// The maximum rate at which it is sent.
    pub rate_limit: Option<RateLimit>,
    /// The response is that of another server, whose `Date` and `Server` stay (RFC 9110 sections 6.6.1 and 10.2.4).
    pub is_passed_on: bool,
    /// The handler wants each piece of the body to reach the client as soon as it is there.
    pub flush: bool,
}

impl Default for ResponseHead {
    fn default() -> ResponseHead {
        ResponseHead {
            status: 200,
            status_line: None,
            content_type: None,
            type_by_script: false,
            content_encoding: None,
            content_languages: Vec::new(),
            headers_out: Fields::default(),
            err_headers_out: Fields::default(),
            no_local_copy: false,
            vlist_validator: None,
            output_filters: Vec::new(),
            allowed: None,
            rate_limit: None,
            is_passed_on: false,
            flush: false,
        }
    }
}

impl ResponseHead {
    /// Whether filters hold nothing of the body back: the handler wants that, or the client waits for each event of a
    /// stream (`text/event-stream`, HTML 9.2).
    pub fn flushes(&self) -> bool {
        let is_event_stream = |of: &str| of.split(';').next().is_some_and(|of| of.trim() == "text/event-stream");
        self.flush || self.content_type().is_some_and(is_event_stream)
    }

    /// The status.
    #[inline]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The script's own status line (`418 Teapot`).
    pub fn status_line(&self) -> Option<&str> {
        self.status_line.as_deref()
    }

    /// Sets the status, and drops a reason given for another one.
    pub fn set_status(&mut self, status: u16) {
        if self.status != status {
            self.status_line = None;
        }
        self.status = status;
    }

    /// Drops the reason that was given for the status.
    pub(crate) fn forget_reason(&mut self) {
        self.status_line = None;
    }

    /// Sets the status together with its own line, which begins with it.
    pub fn set_status_line(&mut self, status: u16, line: String) {
        self.status = status;
        self.status_line = Some(line);
    }

    /// The media type.
    pub fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// The media type as the configuration determines it, not a script.
    pub(crate) fn configured_type(&self) -> Option<&str> {
        self.content_type().filter(|_| !self.type_by_script)
    }

    /// Sets the type, as handlers and type checkers do.
    pub fn set_content_type(&mut self, text: impl Into<Cow<'static, str>>) {
        self.content_type = Some(text.into());
        self.type_by_script = false;
    }

    /// Sets the type from a script's response.
    pub fn set_script_type(&mut self, text: impl Into<Cow<'static, str>>) {
        self.content_type = Some(text.into());
        self.type_by_script = true;
    }

    /// Removes the type.
    pub fn clear_content_type(&mut self) {
        self.content_type = None;
    }

    /// Forgets the results for one path, before another one is examined. The type may stay, and so do the fields of all
    /// answers.
    pub(crate) fn begin_again(&mut self, status: u16) {
        self.set_status(status);
        self.content_encoding = None;
        self.content_languages.clear();
        self.headers_out.clear();
        self.output_filters.clear();
    }

    /// Becomes like another one.
    pub(crate) fn become_like(&mut self, other: &ResponseHead) {
        let ResponseHead {
            status,
            status_line,
            content_type,
            type_by_script,
            content_encoding,
            content_languages,
            headers_out,
            err_headers_out,
            no_local_copy,
            vlist_validator,
            output_filters,
            allowed,
            rate_limit,
            is_passed_on,
            flush,
        } = other;
        (self.status, self.type_by_script) = (*status, *type_by_script);
        self.status_line.clone_from(status_line);
        self.content_type.clone_from(content_type);
        self.content_encoding.clone_from(content_encoding);
        self.content_languages.clone_from(content_languages);
        self.headers_out.become_like(headers_out);
        self.err_headers_out.become_like(err_headers_out);
        self.vlist_validator.clone_from(vlist_validator);
        self.output_filters.clone_from(output_filters);
        self.allowed.clone_from(allowed);
        (self.no_local_copy, self.is_passed_on) = (*no_local_copy, *is_passed_on);
        (self.rate_limit, self.flush) = (*rate_limit, *flush);
    }

    /// Continues as the response to a subrequest's result, keeping this response's status.
    pub(crate) fn adopt(&mut self, found: ResponseHead) {
        self.content_type = found.content_type;
        self.type_by_script = found.type_by_script;
        self.content_encoding = found.content_encoding;
        self.content_languages = found.content_languages;
        self.output_filters = found.output_filters;
        self.headers_out.extend(&found.headers_out);
        self.err_headers_out.extend(&found.err_headers_out);
        self.no_local_copy |= found.no_local_copy;
    }
}
