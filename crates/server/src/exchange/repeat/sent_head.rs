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
        /// Where it tells the present: its date, or the age of a stored response.
        present: Range<usize>,
        /// Where it says how many more requests the connection may carry, if it does.
        left: Option<Range<usize>>,
        /// What it says about the connection.
        persist: Persist,
        /// The client's wish for the connection.
        wish: Persistence,
    },
    Http2 {
        /// The fields without compression, and without the one that tells the present.
        fields: FieldList,
        /// The name and the value of that one: the date, or the age of a stored response.
        present: (&'static str, Vec<u8>),
    },
    /// Each request has another one.
    Another,
}

impl SentHead {
    /// That of a response over HTTP/1. `None`: it does not tell the present in one place.
    pub(crate) fn http1(request: &Request, text: &[u8], persist: Persist, wish: Persistence) -> Option<SentHead> {
        // The first date is the server's, or that of another server; nobody but a cache tells an age.
        let present = match request.stored {
            None => places_of(text, b"\r\nDate: ").next()?,
            Some(_) => only(places_of(text, b"\r\nAge: "))?,
        };
        let left = persist.announce.and_then(|(timeout, left)| {
            let (start, left) = (format!("\r\nKeep-Alive: timeout={timeout}, max="), left?.to_string());
            // The configuration may set such a field, too.
            only(places_of(text, start.as_bytes())).map(|at| at.start..at.start + left.len())
        });
        Some(SentHead::Http1 { text: text.to_vec(), present, left, persist, wish })
    }

    /// Whether this is a head of HTTP/1 with this date.
    pub(crate) fn has_date(&self, value: &str) -> bool {
        let SentHead::Http1 { text, present, .. } = self else { return false };
        text[present.clone()] == *value.as_bytes()
    }

    /// Tells the present. `false`: there is no room for as much text.
    pub(super) fn tell(&mut self, now: &[u8]) -> bool {
        match self {
            SentHead::Http1 { text, present, .. } => {
                let has_room = present.len() == now.len();
                if has_room {
                    text[present.clone()].copy_from_slice(now);
                }
                has_room
            }
            SentHead::Http2 { present: (_, value), .. } => {
                value.clear();
                value.extend_from_slice(now);
                true
            }
            SentHead::Another => false,
        }
    }

    /// Like [`write`](Self::write), with this date, which is as long as that of the head.
    pub(crate) fn write_with(&self, date: &[u8], persist: Persist, out: &mut Vec<u8>) -> bool {
        let SentHead::Http1 { present, .. } = self else { return false };
        let at = out.len() + present.start;
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
        let present = if request.stored.is_some() { "age" } else { "date" };
        let mut recorder = Recorder { fields: FieldList::default(), present: (present, Vec::new()), length };
        request.fields_out(&mut recorder).ok()?;
        let Recorder { fields, present, .. } = recorder;
        let is_whole = fields.text().is_some() && fields.check_trailers().is_ok();
        is_whole.then_some(SentHead::Http2 { fields, present })
    }

    /// The fields of a head of HTTP/2, the one that tells the present first.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let all = match self {
            SentHead::Http2 { fields, present: (name, value) } => Some(((name.as_bytes(), &value[..]), fields)),
            SentHead::Http1 { .. } | SentHead::Another => None,
        };
        all.into_iter().flat_map(|(present, fields)| std::iter::once(present).chain(fields.iter()))
    }

    /// Those that do not tell the present.
    pub(crate) fn lasting_fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields().skip(1)
    }

    /// How much memory it takes, in bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            SentHead::Http1 { text, .. } => text.len(),
            SentHead::Http2 { fields, .. } => fields.text().map_or(usize::MAX, <[u8]>::len),
            SentHead::Another => 0,
        }
    }
}

/// Where in a head there are values of a field: what follows `start`, up to the end of the line.
fn places_of(text: &[u8], start: &[u8]) -> impl Iterator<Item = Range<usize>> {
    memchr::memmem::find_iter(text, start).filter_map(move |at| {
        let at = at + start.len();
        memchr::memchr(b'\r', &text[at..]).map(|length| at..at + length)
    })
}

/// The only one of some places.
fn only(mut places: impl Iterator<Item = Range<usize>>) -> Option<Range<usize>> {
    places.next().filter(|_| places.next().is_none())
}

/// Records the fields of a response.
struct Recorder {
    fields: FieldList,
    /// The field that tells the present: it stands apart.
    present: (&'static str, Vec<u8>),
    /// The length of the body, if the head states it.
    length: Option<u64>,
}

impl FieldSink for Recorder {
    fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        let (name, value) = (name.to_ascii_lowercase(), value.trim_ascii());
        match &mut self.present {
            (present, last) if name == *present => *last = value.to_vec(),
            _ if http::h2::concerns_http1(&name) => {}
            _ => self.fields.push(name.as_bytes(), value, usize::MAX),
        }
        Ok(())
    }

    fn own_fields(&mut self) -> Result<(), BadField> {
        self.length.map_or(Ok(()), |length| self.field("content-length", length.to_string().as_bytes()))
    }
}
