//! The head of a response, to be sent again.

use std::io::Write;
use std::ops::Range;

use http::h1::framing::Persistence;
use http::h1::response::BadField;
use http::h2::FieldList;

use crate::message::sent::Persist;
use crate::request::Request;
use crate::request::fields_out::FieldSink;

/// The head of a response as it went out.
pub(crate) enum SentHead {
    Http1 {
        text: Vec<u8>,
        /// Where its date is.
        date: usize,
        /// Where it says how many more requests the connection may carry, if it does.
        left: Option<Range<usize>>,
        /// What it says about the connection.
        persist: Persist,
        /// The client's wish for the connection.
        wish: Persistence,
    },
    /// The fields without Date, and without compression.
    Http2(FieldList),
    /// Each request has another one, over HTTP/1.
    Another,
}

impl SentHead {
    /// That of a response over HTTP/1. `None`: it has no date.
    pub(crate) fn http1(text: &[u8], persist: Persist, wish: Persistence) -> Option<SentHead> {
        const DATE: &[u8] = b"\r\nDate: ";
        let date = memchr::memmem::find(text, DATE)? + DATE.len();
        let left = persist.announce.and_then(|(timeout, left)| {
            let (start, left) = (format!("\r\nKeep-Alive: timeout={timeout}, max="), left?.to_string());
            // The configuration may set such a field, too.
            let mut all = memchr::memmem::find_iter(text, &start).map(|at| at + start.len());
            all.next().filter(|_| all.next().is_none()).map(|at| at..at + left.len())
        });
        Some(SentHead::Http1 { text: text.to_vec(), date, left, persist, wish })
    }

    /// The date in a head of HTTP/1, if it has this length.
    pub(super) fn date(&self, length: usize) -> Option<&[u8]> {
        let SentHead::Http1 { text, date, .. } = self else { return None };
        text.get(*date..date + length).filter(|_| text.get(date + length) == Some(&b'\r'))
    }

    /// Like [`write`](Self::write), with this date, which is as long as that of the head.
    pub(crate) fn write_with(&self, date: &[u8], persist: Persist, out: &mut Vec<u8>) -> bool {
        let SentHead::Http1 { date: at, .. } = self else { return false };
        let at = out.len() + at;
        let is_written = self.write(persist, out);
        if let Some(place) = out.get_mut(at..at + date.len()).filter(|_| is_written) {
            place.copy_from_slice(date);
        }
        is_written
    }

    /// Writes the head of a response over HTTP/1 after which the connection has this future. `false`: it must be made anew.
    pub(crate) fn write(&self, persist: Persist, out: &mut Vec<u8>) -> bool {
        let SentHead::Http1 { text, left, persist: before, .. } = self else { return false };
        if persist == *before {
            out.extend_from_slice(text);
            return true;
        }
        match (persist, before.announce, left) {
            (Persist { keep: true, announce: Some((timeout, Some(now))) }, Some((same, _)), Some(left))
                if timeout == same =>
            {
                out.extend_from_slice(&text[..left.start]);
                // A vector takes everything.
                let _ = write!(out, "{now}");
                out.extend_from_slice(&text[left.end..]);
                true
            }
            _ => false,
        }
    }

    /// That of a response over HTTP/2. `None`: it cannot be sent again.
    pub(crate) fn http2(request: &Request, length: Option<u64>) -> Option<SentHead> {
        let mut recorder = Recorder { fields: FieldList::default(), length };
        request.fields_out(&mut recorder).ok()?;
        let fields = recorder.fields;
        let is_whole = fields.text().is_some() && fields.check_trailers().is_ok();
        is_whole.then_some(SentHead::Http2(fields))
    }

    /// How much memory it takes, in bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            SentHead::Http1 { text, .. } => text.len(),
            SentHead::Http2(fields) => fields.text().map_or(usize::MAX, <[u8]>::len),
            SentHead::Another => 0,
        }
    }
}

/// Records the fields of a response.
struct Recorder {
    fields: FieldList,
    /// The length of the body, if the head states it.
    length: Option<u64>,
}

impl FieldSink for Recorder {
    fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        let name = name.to_ascii_lowercase();
        if name != "date" && !http::h2::concerns_http1(&name) {
            self.fields.push(name.as_bytes(), value.trim_ascii(), usize::MAX);
        }
        Ok(())
    }

    fn own_fields(&mut self) -> Result<(), BadField> {
        self.length.map_or(Ok(()), |length| self.field("content-length", length.to_string().as_bytes()))
    }
}
