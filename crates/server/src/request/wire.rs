//! A request as it went over the wire: for the access log, which writes what was received and sent.

use std::borrow::Cow;

use http1::Name;

use crate::request::{Delimiter, Persist, Request};

impl Request {
    /// The request line as it was sent.
    pub fn line_bytes(&self) -> &[u8] {
        self.head.line()
    }

    /// All values of a field of the request, joined by `", "`.
    pub fn header_bytes(&self, name: Name<'_>) -> Option<Cow<'_, [u8]>> {
        match &self.headers_in {
            None => self.head.combined(name),
            Some(fields) => {
                let name = match name {
                    Name::Known(known) => known.name(),
                    Name::Other(name) => name,
                };
                fields.joined(name).map(|value| Cow::Owned(http1::text::to_bytes(&value).into_owned()))
            }
        }
    }

    /// Makes out of a head that could not be read what the access log shows of it: method, path and query.
    pub(crate) fn salvage_line(&mut self) {
        let line = http1::text::from_bytes(self.head.line()).into_owned();
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

    /// Who is to make the answer: the handler that configuration or a module named, or else the media type. It may be a
    /// handler's name, as in the oldest configurations (`AddType application/x-httpd-cgi`).
    pub fn handler_name(&self) -> Option<&str> {
        let media_type = |text: &'_ str| memchr::memchr(b';', text.as_bytes()).unwrap_or(text.len());
        match (&self.handler, &self.content_type) {
            (Some(handler), _) => Some(handler),
            (None, Some(text)) if !self.type_by_script => Some(&text[..media_type(text)]),
            (None, _) => None,
        }
    }

    /// A field of the answer that went out. The type comes without its parameters, `Date` and `Server` not at all, as in
    /// Apache's logs.
    pub fn header_sent(&self, name: &str) -> Option<Cow<'_, str>> {
        let is = |one: &str| one.eq_ignore_ascii_case(name);
        if is("Content-Type") {
            // A 304 says nothing about a body.
            let text = self.content_type.as_deref().filter(|_| self.status != 304)?;
            return Some(text.split(';').next().unwrap_or_default().trim().into());
        }
        if is("Set-Cookie") {
            let (early, late) = (self.err_headers_out.joined(name), self.headers_out.joined(name));
            return match (early, late) {
                (Some(early), Some(late)) => Some(format!("{early}, {late}").into()),
                (early, late) => early.or(late).map(Cow::Owned),
            };
        }
        let own = self.headers_out.get(name).or_else(|| self.err_headers_out.get(name));
        if own.is_some() {
            return own.map(Cow::Borrowed);
        }
        if is("Content-Encoding") {
            return self.content_encoding.as_deref().map(Cow::Borrowed);
        }
        if is("Content-Language") {
            return (!self.content_languages.is_empty()).then(|| self.content_languages.join(",").into());
        }
        let (delimiter, persist) = self.sent.head?;
        let keep = matches!(persist, Persist { keep: true, .. });
        match (delimiter, persist.announce) {
            (Delimiter::Length(length), _) if is("Content-Length") && !http1::status::is_bodyless(self.status) => {
                Some(length.to_string().into())
            }
            (Delimiter::Chunked, _) if is("Transfer-Encoding") => Some("chunked".into()),
            _ if is("Connection") && !keep => Some("close".into()),
            (_, Some(_)) if is("Connection") && keep => Some("Keep-Alive".into()),
            (_, Some((timeout, Some(left)))) if is("Keep-Alive") && keep => {
                Some(format!("timeout={timeout}, max={left}").into())
            }
            (_, Some((timeout, None))) if is("Keep-Alive") && keep => Some(format!("timeout={timeout}").into()),
            _ => None,
        }
    }
}
