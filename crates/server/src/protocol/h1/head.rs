//! Heads of responses in the form of HTTP/1.1.

use conf::Level;
use http::h1::response::{BadField, HeadWriter};

use crate::message::response::Body;
use crate::message::sent::{Delimiter, Persist};
use crate::phases::error_document;
use crate::request::Request;
use crate::request::fields_out::{FieldSink, Unsendable};

/// Writes the head of a response. `Some`: a field cannot be sent, so the head of an error was written instead; this is
/// its page, and the connection closes after it.
pub(super) fn write_head(
    request: &mut Request,
    delimiter: Delimiter,
    persist: Persist,
    out: &mut Vec<u8>,
) -> Option<Body> {
    let Err(unsendable) = try_head(request, delimiter, persist, out) else { return None };
    request.log("http", Level::Error, unsendable.line());
    out.clear();
    let page = error_document::unsendable(request);
    let length = page.length().map_or(Delimiter::Nothing, Delimiter::Length);
    // Only names and values of our own are left.
    let _ = try_head(request, length, Persist { keep: false, announce: None }, out);
    Some(page)
}

/// Whether the response calls itself HTTP/1.0, and the connection closes after it: for clients that say so and accept only
/// their own version (`force-response-1.0`), or for all (`force-no-vary`).
pub(super) fn speaks_1_0(request: &Request) -> bool {
    request.env.contains("force-no-vary")
        || request.data.version == http::Version::Http10 && request.env.contains("force-response-1.0")
}

fn try_head(request: &Request, delimiter: Delimiter, persist: Persist, out: &mut Vec<u8>) -> Result<(), Unsendable> {
    let head = match request.response.status_line() {
        Some(line) => {
            let phrase = line.split_once(' ').map_or("", |(_, phrase)| phrase);
            HeadWriter::start_with_phrase(out, request.response.status(), &http::text::to_bytes(phrase))
                .map_err(|_| Unsendable::new("Status", phrase.as_bytes()))?
        }
        None => HeadWriter::start(out, request.response.status()),
    };
    let mut sink = Sink { head, status: request.response.status(), delimiter, persist, is_said: false };
    request.fields_out(&mut sink)?;
    sink.head.end();
    if speaks_1_0(request) {
        // `HTTP/1.1` of the status line: some old clients accept only their own version.
        out["HTTP/1.".len()] = b'0';
    }
    Ok(())
}

struct Sink<'o> {
    head: HeadWriter<'o>,
    status: u16,
    delimiter: Delimiter,
    persist: Persist,
    /// Whether `Connection` was written.
    is_said: bool,
}

impl Sink<'_> {
    /// What the server says in `Connection`.
    fn connection(&self) -> Option<&'static [u8]> {
        match (self.delimiter, self.persist) {
            (Delimiter::Tunnel, _) => Some(b"Upgrade"),
            (_, Persist { keep: true, announce: Some(_) }) => Some(b"Keep-Alive"),
            (_, Persist { keep: true, announce: None }) => None,
            (_, Persist { keep: false, .. }) => Some(b"close"),
        }
    }
}

impl FieldSink for Sink<'_> {
    fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        // One field, as in Apache, where somebody else has something to say there, too.
        if !self.is_said
            && name.eq_ignore_ascii_case("Connection")
            && let Some(own) = self.connection()
        {
            self.is_said = true;
            return match self.delimiter {
                Delimiter::Tunnel => self.head.field(name, own),
                _ if names_close(value) => self.head.field(name, value),
                _ => self.head.field(name, &[value, b", ", own].concat()),
            };
        }
        self.head.field(name, value)
    }

    /// RFC 9112 sections 6 and 9.
    fn own_fields(&mut self) -> Result<(), BadField> {
        let head = &mut self.head;
        match self.delimiter {
            Delimiter::Length(length) if !http::status::is_bodyless(self.status) => {
                head.number("Content-Length", length);
            }
            Delimiter::Chunked => head.field("Transfer-Encoding", b"chunked")?,
            Delimiter::Length(_) | Delimiter::Nothing | Delimiter::Close | Delimiter::Tunnel => {}
        }
        if let Persist { keep: true, announce: Some((timeout, left)) } = self.persist {
            let text = match left {
                Some(left) => format!("timeout={timeout}, max={left}"),
                None => format!("timeout={timeout}"),
            };
            head.field("Keep-Alive", text.as_bytes())?;
        }
        match self.connection().filter(|_| !self.is_said) {
            Some(own) => self.head.field("Connection", own),
            None => Ok(()),
        }
    }
}

/// Whether a value of `Connection` has the option `close`.
pub(crate) fn names_close(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}
