//! What the path of a request stands for.

use std::borrow::Cow;
use std::sync::Arc;

use sys::file::Meta;

use crate::files::file_cache::Kept;
use crate::request::Request;

/// What the path of a request was mapped to.
#[derive(Default)]
pub struct Mapped {
    /// The file.
    pub filename: String,
    /// What stands behind the file's part of the path.
    pub path_info: String,
    /// `path_info` is for the handler to judge (`AcceptPathInfo`); `None` leaves it to the handler's default.
    pub accept_path_info: Option<bool>,
    /// The file, if it is there.
    pub stat: Option<Meta>,
    /// What is remembered of that file.
    pub(crate) kept: Option<Arc<Kept>>,
    /// The URL prefix and directory of the `Alias` that mapped it.
    pub context: Option<(String, String)>,
    /// The directory that the URL paths of this request lie below, where it is not that of the virtual host.
    pub document_root: Option<String>,
    /// Who makes the answer.
    pub handler: Option<Cow<'static, str>>,
    /// Filters of the request's body that the file's name asks for (`AddInputFilter`), before those of the configuration.
    pub input_filters: Vec<String>,
    /// What the request's fields say of its body once filters have worked on it; `None` where that is nothing. It holds for
    /// what takes the body before it looks at the fields, as in Apache.
    pub read_fields: Vec<(&'static str, Option<String>)>,
}

impl Mapped {
    /// Forgets all of it, before another path is looked at.
    pub(super) fn clear(&mut self) {
        self.filename.clear();
        self.path_info.clear();
        self.accept_path_info = None;
        self.stat = None;
        self.kept = None;
        self.context = None;
        self.document_root = None;
        self.handler = None;
        self.input_filters.clear();
        self.read_fields.clear();
    }
}

impl Request {
    /// The directory that its URL paths lie below: `DocumentRoot`, or what a module has put in its place.
    pub fn document_root(&self) -> &str {
        self.mapped.document_root.as_ref().unwrap_or(&self.vhost.document_root)
    }

    /// Who is to make the answer: the handler that configuration or a module named, or else the media type. It may be a
    /// handler's name, as in the oldest configurations (`AddType application/x-httpd-cgi`).
    pub fn handler_name(&self) -> Option<&str> {
        let media_type = |text: &'_ str| memchr::memchr(b';', text.as_bytes()).unwrap_or(text.len());
        match &self.mapped.handler {
            Some(handler) => Some(handler),
            None => self.answer.configured_type().map(|text| &text[..media_type(text)]),
        }
    }
}
