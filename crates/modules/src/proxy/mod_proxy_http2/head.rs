//! The head of a request to the backend.

use std::borrow::Cow;

use conf::Level;
use http::KnownField;
use http::h1::response::BadField;
use http::h2::HeadWriter;
use http::text::to_bytes;
use server::Request;

use super::response::NAME;
use crate::proxy::mod_proxy::{Destination, Forwarded, asks_first, fields, host};

/// The head, which may be sent twice.
pub(super) struct RequestHead {
    /// The pseudo-header fields, which come first (RFC 9113 section 8.3.1).
    pseudo: [(&'static [u8], Vec<u8>); 4],
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl RequestHead {
    /// The head of this request. `Err`: it cannot be sent; the reason is logged.
    pub(super) fn of(request: &Request, destination: &Destination) -> Result<RequestHead, u16> {
        let target = &destination.target;
        let is_sent = |byte: &u8| *byte > b' ' && *byte != 0x7f;
        let (path, authority) = (to_bytes(&target.path), host(request, target));
        if path.is_empty() || !path.iter().all(is_sent) {
            let text = format!("AH10420: To be forwarded path contains control characters or spaces ({})", target.path);
            request.log(NAME, Level::Error, text);
            return Err(403);
        }
        let (method, authority) = (to_bytes(&request.data.method), to_bytes(&authority));
        if !http::name::is_valid(&method) || !authority.iter().all(is_sent) {
            request.log(NAME, Level::Error, "the method or the host cannot be passed on: it holds a control character");
            return Err(400);
        }
        let scheme: &[u8] = if target.scheme == "h2" { b"https" } else { b"http" };
        let pseudo = [
            (&b":scheme"[..], scheme.to_vec()),
            (b":authority", authority.into_owned()),
            (b":path", path.into_owned()),
            (b":method", method.into_owned()),
        ];
        let own = |field: Forwarded<'_>| (field.name.into_owned(), field.value.into_owned());
        let mut all: Vec<_> = fields(request, asks_first(request)).into_iter().map(own).collect();
        all.extend(length(request).map(|length| (b"content-length".to_vec(), length.into_owned())));
        Ok(RequestHead { pseudo, fields: all })
    }

    /// Writes all fields.
    pub(super) fn write(&self, writer: &mut HeadWriter<'_>) -> Result<(), BadField> {
        for (name, value) in &self.pseudo {
            writer.field_again(name, value);
        }
        // As Apache says to every backend. A client that does not want such fields does not get them.
        writer.field_again(b"te", b"trailers");
        for (name, value) in &self.fields {
            writer.field(&http::text::from_bytes(name), value)?;
        }
        Ok(())
    }

    /// The size in bytes, without compression.
    pub(super) fn size(&self) -> u64 {
        let pseudo = self.pseudo.iter().map(|(name, value)| name.len() + value.len());
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len());
        pseudo.chain(fields).sum::<usize>() as u64
    }
}

/// The length of the body, if it is known, or if the client says that it is empty.
fn length(request: &Request) -> Option<Cow<'static, [u8]>> {
    if request.body.is_none() {
        let length = request.header_bytes(KnownField::ContentLength.into());
        return length.filter(|text| text.trim_ascii() == b"0").map(|_| Cow::Borrowed(&b"0"[..]));
    }
    request.body.length().map(|length| Cow::Owned(length.to_string().into_bytes()))
}
