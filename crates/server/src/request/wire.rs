//! A request as it appeared on the wire: for the access log, which shows received and sent data.

use std::borrow::Cow;

use http::status::is_bodyless;

use crate::message::sent::{Delimiter, Persist};
use crate::request::{Request, fields_out};

impl Request {
    /// A field of the sent response. The type comes without its parameters, and `Date` and `Server` are missing, as in
    /// Apache's logs.
    pub fn header_sent(&self, name: &str) -> Option<Cow<'_, str>> {
        let is = |one: &str| one.eq_ignore_ascii_case(name);
        let field = || self.response.err_headers_out.get(name).or_else(|| self.response.headers_out.get(name));
        if is("Content-Type") {
            // Without a body there are no fields of its own about one.
            let has_body = !is_bodyless(self.response.status());
            let own = self.response.content_type().filter(|_| has_body);
            let text = own.or_else(field)?;
            return Some(text.split(';').next().unwrap_or_default().trim().into());
        }
        if is("Set-Cookie") {
            let (early, late) = (self.response.err_headers_out.joined(name), self.response.headers_out.joined(name));
            return match (early, late) {
                (Some(early), Some(late)) => Some(format!("{early}, {late}").into()),
                (early, late) => early.or(late).map(Cow::Owned),
            };
        }
        if is("Vary") {
            return fields_out::vary(self).map(Cow::Owned);
        }
        if let Some(own) = field() {
            return Some(own.into());
        }
        if is_bodyless(self.response.status()) && (is("Content-Encoding") || is("Content-Language")) {
            return None;
        }
        if is("Content-Encoding") {
            return self.response.content_encoding.as_deref().map(Cow::Borrowed);
        }
        if is("Content-Language") {
            return (!self.response.content_languages.is_empty())
                .then(|| self.response.content_languages.join(",").into());
        }
        let (delimiter, persist) = self.account.sent.head?;
        let keep = matches!(persist, Persist { keep: true, .. });
        match (delimiter, persist.announce) {
            (Delimiter::Length(length), _) if is("Content-Length") && !is_bodyless(self.response.status()) => {
                Some(length.to_string().into())
            }
            (Delimiter::Chunked, _) if is("Transfer-Encoding") => Some("chunked".into()),
            (Delimiter::Tunnel, _) if is("Connection") => Some("Upgrade".into()),
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
