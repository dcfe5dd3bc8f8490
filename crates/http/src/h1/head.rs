//! The head of a request: request line and fields, as ranges into the connection's read buffer.
//!
//! A [`Head`] copies nothing. It is meant to live as long as its connection and to be filled again for every request;
//! then parsing allocates nothing. Accessors take the buffer that was parsed, whose first bytes must not have changed.
//!
//! Strictness follows RFC 9112 as Apache 2.4.71 implements it under `HttpProtocolOptions Strict`; `Unsafe` is the same
//! set of relaxations that Apache makes. Stricter than Apache: an HTTP/2.0 request line is refused with 505, there are
//! no HTTP/0.9 requests, a second Host is refused even under `Unsafe` (RFC 9112 section 3.2), and an absolute-form
//! target must name a valid host (RFC 9110 section 4.2.1).

mod error;
pub(crate) mod parse;

use std::borrow::Cow;
use std::ops::Range;

pub use error::HeadError;

use crate::conditional::Preconditions;
use crate::name::{FieldSet, KnownField, Name};

/// How much memory for folded values a head keeps for the next one, in bytes.
const FOLDED_KEPT: usize = 1024;

/// A parsed request head. See the [module](self) for how to use it.
#[derive(Debug, Default)]
pub struct Head {
    method: Span,
    target: Span,
    /// Host and port of an absolute-form target.
    authority: Span,
    path: Span,
    query: Option<Span>,
    version: Version,
    fields: Vec<Field>,
    index: Index,
    /// The joined values of fields that were folded over several lines; see [`Span`].
    folded: Vec<u8>,
    progress: parse::Progress,
}

/// The content of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parse {
    /// The start of a head. Read more and parse again from the same first byte.
    Partial,
    /// A whole head.
    Complete {
        /// Its length in bytes, including the empty line; the body follows.
        len: usize,
    },
}

/// The protocol version of a request. Minor versions above 1 count as 1 (RFC 9110 section 2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
    /// HTTP/2, which has heads but no request lines.
    Http2,
}

impl Version {
    /// The version as in `SERVER_PROTOCOL` and in the access log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }
}

/// The parts of a head beside its fields, from a protocol that does not write them as a line.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The method, a token.
    pub method: &'a [u8],
    /// The target in origin form, or `*`.
    pub target: &'a [u8],
    /// Host and port; `None` leaves it to the Host field.
    pub authority: Option<&'a [u8]>,
    /// The version.
    pub version: Version,
}

/// How large a head may be and how strictly it is read. The default is Apache's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `LimitRequestLine`, in bytes. As in Apache, one byte more still passes.
    pub line: usize,
    /// `LimitRequestFields`; 0 means as many as [`Limits::FIELDS_MAX`].
    pub fields: usize,
    /// `LimitRequestFieldSize`, in bytes, of name, colon and value including folded lines; one more passes.
    pub field_size: usize,
    /// `HttpProtocolOptions Strict` (true) or `Unsafe`.
    pub strict: bool,
}

impl Limits {
    /// The most fields in a head when `LimitRequestFields` is 0: as many as a 16-bit index can name.
    pub const FIELDS_MAX: usize = u16::MAX as usize - 1;
}

impl Default for Limits {
    fn default() -> Self {
        Limits { line: 8190, fields: 100, field_size: 8190, strict: true }
    }
}

impl Head {
    /// Parses the head at the start of `buf` into `head`.
    ///
    /// Up to ten empty lines before the request line are skipped (RFC 9112 section 2.2). After
    /// [`Parse::Partial`], the next call continues where this one stopped, so a head that trickles in costs its length
    /// once; `buf` must then start with the same bytes. After any other outcome the next call starts afresh.
    ///
    /// # Errors
    /// The head is malformed or too large. Close the connection after the response, because the start of the next request
    /// is unknown.
    pub fn parse(buf: &[u8], limits: &Limits, head: &mut Head) -> Result<Parse, HeadError> {
        parse::parse(buf, limits, head, parse::StartLine::Request)
    }

    /// Makes a head from its parts; writes the bytes that it refers to into `arena`, beginning with a request line. It
    /// checks nothing: fields beyond [`Limits::FIELDS_MAX`] are left out, and the caller is responsible for everything
    /// else.
    pub fn assemble<'a>(
        parts: &Parts<'_>,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        arena: &mut Vec<u8>,
    ) -> Head {
        let mut head = Head::default();
        head.put_line(parts, arena);
        fields.into_iter().for_each(|(name, value)| head.put_field(name, value, arena));
        head
    }

    /// Writes the request line of an empty head into `arena`.
    pub fn put_line(&mut self, parts: &Parts<'_>, arena: &mut Vec<u8>) {
        self.method = put(parts.method, b" ", arena);
        self.target = put(parts.target, b" ", arena);
        put(parts.version.as_str().as_bytes(), b"\n", arena);
        let (start, end) = (self.target.start as usize, self.target.end as usize);
        let mark = memchr::memchr(b'?', parts.target).map(|mark| start + mark);
        self.path = Span::new(start, mark.unwrap_or(end));
        self.query = mark.map(|mark| Span::new(mark + 1, end));
        self.version = parts.version;
        self.authority = parts.authority.map_or_else(Span::default, |authority| put(authority, b"\n", arena));
    }

    /// Appends a field, and writes its line into `arena`.
    pub fn put_field(&mut self, name: &[u8], value: &[u8], arena: &mut Vec<u8>) {
        let (name, value, known) = (put(name, SEPARATOR, arena), put(value, b"\n", arena), KnownField::classify(name));
        self.push(Field { name, value, known, is_folded: false });
    }

    /// Appends a field whose line is in the arena already, in lines that begin at `start`.
    pub fn push_place(&mut self, start: usize, place: FieldPlace) {
        let span = |range: Range<usize>| Span::new(start + range.start, start + range.end);
        let (name, value) = (span(place.name()), span(place.value()));
        self.push(Field { name, value, known: place.known, is_folded: false });
    }

    fn push(&mut self, field: Field) {
        if self.fields.len() == Limits::FIELDS_MAX {
            return;
        }
        if let Some(known) = field.known {
            self.index.note(known, self.fields.len());
        }
        self.fields.push(field);
    }

    /// Forgets the parsed head, even a partial one, and keeps the memory.
    pub fn clear(&mut self) {
        self.fields.clear();
        self.folded.clear();
        self.folded.shrink_to(FOLDED_KEPT);
        self.index = Index::default();
        self.progress = parse::Progress::default();
        (self.method, self.target, self.authority, self.path) = Default::default();
        self.query = None;
        self.version = Version::default();
    }

    /// The method, a case-sensitive token (RFC 9110 section 9.1).
    #[must_use]
    pub fn method<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.method.of(buf)
    }

    /// The request target as it was sent, in any of its forms (RFC 9112 section 3.2).
    #[must_use]
    pub fn target<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.target.of(buf)
    }

    /// The path of the target, still percent-encoded: `/` if an absolute-form target has none, `*` for
    /// `OPTIONS *`, the whole target for `CONNECT`.
    #[must_use]
    pub fn path<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        if self.path.is_empty() { b"/" } else { self.path.of(buf) }
    }

    /// The part after the first `?` of the target; `Some(b"")` if that is empty.
    #[must_use]
    pub fn query<'b>(&self, buf: &'b [u8]) -> Option<&'b [u8]> {
        self.query.map(|query| query.of(buf))
    }

    /// Host and port of the request: those of an absolute-form target, else the Host field (RFC 9112 section 3.2.2).
    /// The parser has already checked them; split them with [`Authority::parse`](crate::Authority).
    #[must_use]
    pub fn host<'h>(&'h self, buf: &'h [u8]) -> Option<&'h [u8]> {
        if self.authority.is_empty() { self.field(buf, KnownField::Host) } else { Some(self.authority.of(buf)) }
    }

    /// The version, see [`Version`].
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The number of fields.
    #[must_use]
    pub fn field_count(&self) -> usize {
        self.fields.len()
    }

    /// How much memory its parts take that lie apart from it, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.fields.capacity() * size_of::<Field>() + self.folded.capacity()
    }

    /// The value of the first field called `name`, without surrounding blanks.
    #[must_use]
    pub fn field<'h, 'n>(&'h self, buf: &'h [u8], name: impl Into<Name<'n>>) -> Option<&'h [u8]> {
        match name.into() {
            Name::Known(known) => self.index.first(known).map(|at| self.value(buf, &self.fields[at])),
            name => self.fields_from(buf, 0, name).next(),
        }
    }

    /// Is there a field called `name`?
    #[must_use]
    pub fn has<'n>(&self, buf: &[u8], name: impl Into<Name<'n>>) -> bool {
        self.field(buf, name).is_some()
    }

    /// The values of all fields called `name`, in order.
    pub fn values<'h, 'n>(&'h self, buf: &'h [u8], name: impl Into<Name<'n>>) -> impl Iterator<Item = &'h [u8]> {
        let name = name.into();
        // A known name that is absent needs no search, and for a present one the search starts at its first field.
        let start = match name {
            Name::Known(known) => self.index.first(known).unwrap_or(self.fields.len()),
            Name::Other(_) => 0,
        };
        self.fields_from(buf, start, name)
    }

    /// The values of all fields called `name`, joined by `, ` (RFC 9110 section 5.3); copied only if there are several.
    #[must_use]
    pub fn combined<'h, 'n>(&'h self, buf: &'h [u8], name: impl Into<Name<'n>>) -> Option<Cow<'h, [u8]>> {
        let name = name.into();
        if let Name::Known(known) = name
            && !self.index.several.has(Some(known))
        {
            return self.field(buf, known).map(Cow::Borrowed);
        }
        let mut values = self.values(buf, name);
        let first = values.next()?;
        let Some(second) = values.next() else {
            return Some(Cow::Borrowed(first));
        };
        let mut all = [first, second].join(&b", "[..]);
        for value in values {
            all.extend_from_slice(b", ");
            all.extend_from_slice(value);
        }
        Some(Cow::Owned(all))
    }

    /// All fields in order of arrival, as name and value.
    pub fn fields<'h>(&'h self, buf: &'h [u8]) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
        self.fields.iter().map(move |field| (field.name.of(buf), self.value(buf, field)))
    }

    /// All fields in order of arrival: which known name it has, if any, its name, and its value.
    pub fn named_fields<'h>(&'h self, buf: &'h [u8]) -> impl Iterator<Item = (Option<KnownField>, &'h [u8], &'h [u8])> {
        self.fields.iter().map(move |field| (field.known, field.name.of(buf), self.value(buf, field)))
    }

    /// The fields whose names are in `set`, in order of arrival, as name and value.
    pub fn fields_of<'h>(&'h self, buf: &'h [u8], set: FieldSet) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
        let are_in = self.fields.iter().filter(move |field| set.has(field.known));
        are_in.map(move |field| (field.name.of(buf), self.value(buf, field)))
    }

    fn fields_from<'h, 'n>(
        &'h self,
        buf: &'h [u8],
        start: usize,
        name: Name<'n>,
    ) -> impl Iterator<Item = &'h [u8]> + use<'h, 'n> {
        self.fields[start..]
            .iter()
            .filter(move |field| match name {
                Name::Known(known) => field.known == Some(known),
                Name::Other(other) => field.name.of(buf).eq_ignore_ascii_case(other.as_bytes()),
            })
            .map(move |field| self.value(buf, field))
    }

    fn value<'h>(&'h self, buf: &'h [u8], field: &Field) -> &'h [u8] {
        if field.is_folded { field.value.of(&self.folded) } else { field.value.of(buf) }
    }
}

/// Where a field stands in a text of lines `name: value`.
#[derive(Clone, Copy, Debug)]
pub struct FieldPlace {
    pub(crate) name: u32,
    pub(crate) value: u32,
    pub(crate) end: u32,
    /// Which known field it is.
    pub known: Option<KnownField>,
}

impl FieldPlace {
    /// The place of the name.
    #[must_use]
    pub fn name(self) -> Range<usize> {
        self.name as usize..self.value as usize - SEPARATOR.len()
    }

    /// The place of the value.
    #[must_use]
    pub fn value(self) -> Range<usize> {
        self.value as usize..self.end as usize
    }
}

/// What stands between name and value.
pub(crate) const SEPARATOR: &[u8] = b": ";

#[derive(Debug)]
struct Field {
    name: Span,
    /// In the read buffer, or in [`Head::folded`].
    value: Span,
    known: Option<KnownField>,
    is_folded: bool,
}

/// A range of bytes. Heads of more than 4 GiB do not occur: every line and the number of lines are limited, and
/// [`parse::parse`] refuses to look further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    fn is_empty(self) -> bool {
        self.start == self.end
    }

    fn of(self, buf: &[u8]) -> &[u8] {
        &buf[self.start as usize..self.end as usize]
    }
}

/// Appends bytes and what ends them.
fn put(bytes: &[u8], end: &[u8], arena: &mut Vec<u8>) -> Span {
    let start = arena.len();
    arena.extend_from_slice(bytes);
    let span = Span::new(start, arena.len());
    arena.extend_from_slice(end);
    span
}

/// Where fields with known names are.
#[derive(Debug)]
struct Index {
    /// For each known name, one more than the number of its first field; 0 if there is none.
    first: [u16; KnownField::ALL.len()],
    /// The names that several fields have.
    several: FieldSet,
}

impl Default for Index {
    fn default() -> Self {
        Index { first: [0; KnownField::ALL.len()], several: FieldSet::default() }
    }
}

impl Index {
    fn first(&self, known: KnownField) -> Option<usize> {
        usize::from(self.first[known as usize]).checked_sub(1)
    }

    /// Records that field number `at` is called `known`; false if there already was one.
    fn note(&mut self, known: KnownField, at: usize) -> bool {
        let entry = &mut self.first[known as usize];
        let is_first = *entry == 0;
        match is_first {
            true => *entry = at as u16 + 1,
            false => self.several = self.several.and(FieldSet::of(Some(known))),
        }
        is_first
    }
}

/// A head with the text that it was parsed from.
impl Preconditions for (&Head, &[u8]) {
    fn method(&self) -> &[u8] {
        self.0.method(self.1)
    }

    fn values(&self, name: KnownField) -> impl Iterator<Item = &[u8]> {
        self.0.values(self.1, name)
    }
}

#[cfg(test)]
mod tests;
