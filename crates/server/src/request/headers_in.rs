//! The fields and the line of a request, as modules read and change them.

use std::borrow::Cow;

use http::{KnownField, Name};

use crate::message::fields::Fields;
use crate::message::tested_field::TestedField;
use crate::request::Request;

impl Request {
    /// The first value of a field of the request.
    pub fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        match &self.data.headers_in {
            Some(fields) => fields.get(name).map(Cow::Borrowed),
            None => self.data.head.field(name).map(http::text::from_bytes),
        }
    }

    /// All values of a field of the request, joined by `", "`.
    pub fn header_joined(&self, name: &str) -> Option<Cow<'_, str>> {
        match &self.data.headers_in {
            Some(fields) => fields.joined(name).map(Cow::Owned),
            None => match self.data.head.combined(name)? {
                Cow::Borrowed(bytes) => Some(http::text::from_bytes(bytes)),
                Cow::Owned(bytes) => Some(Cow::Owned(http::text::from_bytes(&bytes).into_owned())),
            },
        }
    }

    /// A field that is only asked for matches, so that others with the same answers are as good. `None`: it is not there, or the
    /// fields were changed.
    pub fn tested_field(&self, field: KnownField) -> Option<TestedField> {
        match &self.data.headers_in {
            Some(_) => None,
            None => TestedField::of(&self.data.head, field),
        }
    }

    /// Whether the client accepts fields after the response's body (RFC 9110 section 6.5.1).
    pub fn accepts_trailers(&self) -> bool {
        let accepted = self.header_bytes(KnownField::Te.into());
        let is_one = |word: &[u8]| word.trim_ascii().eq_ignore_ascii_case(b"trailers");
        accepted.is_some_and(|text| text.split(|byte| *byte == b',').any(is_one))
    }

    /// The value of a field in bytes, as received; several of the name are joined by commas.
    pub fn header_bytes(&self, name: Name<'_>) -> Option<Cow<'_, [u8]>> {
        match &self.data.headers_in {
            None => self.data.head.combined(name),
            Some(fields) => {
                let name = match name {
                    Name::Known(known) => known.name(),
                    Name::Other(name) => name,
                };
                fields.joined(name).map(|value| Cow::Owned(http::text::to_bytes(&value).into_owned()))
            }
        }
    }

    /// The field in which the client says who it is: to a forward proxy in one of its own (RFC 9110 section 11.7).
    pub fn credentials(&self) -> Option<Cow<'_, str>> {
        self.header(if self.data.forward { "Proxy-Authorization" } else { "Authorization" })
    }

    /// The fields of the request in order.
    pub fn headers(&self) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        match &self.data.headers_in {
            Some(fields) => fields.iter().map(|(n, v)| (Cow::Borrowed(n), Cow::Borrowed(v))).collect(),
            None => {
                let text = http::text::from_bytes;
                self.data.head.fields().map(|(n, v)| (text(n), text(v))).collect()
            }
        }
    }

    /// The fields of the request in order, in bytes: which known name it has, if any, its name, and its value.
    pub fn named_fields(&self) -> impl Iterator<Item = (Option<KnownField>, Cow<'_, [u8]>, Cow<'_, [u8]>)> {
        let changed = self.data.headers_in.as_ref();
        let received = changed.is_none().then(|| self.data.head.named_fields()).into_iter().flatten();
        let received = received.map(|(known, name, value)| (known, Cow::Borrowed(name), Cow::Borrowed(value)));
        let changed = changed.into_iter().flat_map(Fields::iter).map(|(name, value)| {
            let name = http::text::to_bytes(name);
            (KnownField::classify(&name), name, http::text::to_bytes(value))
        });
        changed.chain(received)
    }

    /// The fields of the request, for changes: from now on they replace the head's. Fields that came several times are
    /// one, as in Apache; added ones stand apart.
    pub fn headers_mut(&mut self) -> &mut Fields {
        if self.data.headers_in.is_none() {
            let mut own = Fields::default();
            for (name, value) in self.headers() {
                own.merge(name.into_owned(), &value);
            }
            self.data.headers_in = Some(own);
        }
        self.data.headers_in.get_or_insert_default()
    }

    /// Sets the fields to those that [`changed_fields`](crate::request::RequestData::changed_fields) has given before.
    pub fn restore_headers(&mut self, changed: Option<Fields>) {
        self.data.headers_in = changed;
    }

    /// The request line as it was sent.
    pub fn request_line(&self) -> String {
        http::text::from_bytes(self.data.head.line()).into_owned()
    }

    /// The request line in bytes, as it was sent.
    pub fn line_bytes(&self) -> &[u8] {
        self.data.head.line()
    }

    /// The protocol of the request line (`HTTP/1.1`); `INCLUDED` for a subrequest.
    pub fn protocol(&self) -> &'static str {
        if self.is_subrequest() { "INCLUDED" } else { self.data.head.version().as_str() }
    }
}
