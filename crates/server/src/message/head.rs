//! The head of a request, from any protocol.

use std::borrow::Cow;

use http::conditional::Preconditions;
use http::h1::head::{FieldPlace, Parts};
use http::name::{FieldSet, SharedFieldSet};
use http::{Head, KnownField, Name, Version};

use crate::message::buffers;
use crate::message::tested_field::Outcomes;

/// The head of a client's request: method, target, authority, version and fields.
///
/// A protocol that receives a head as text keeps the text and a table of positions ([`received`]); one that receives it
/// in pieces assembles them ([`assembled`]). Readers of a head see no difference.
///
/// The head records which fields were looked up, and what was asked of those that were only tested: the answer to a request
/// depends on those and on no others.
///
/// [`received`]: RequestHead::received
/// [`assembled`]: RequestHead::assembled
#[derive(Debug, Default)]
pub struct RequestHead {
    /// The text; its first non-empty line is the request line.
    text: Vec<u8>,
    table: Head,
    asked: SharedFieldSet,
    /// What was asked of fields that are only tested.
    outcomes: Outcomes,
}

impl RequestHead {
    /// The head that was parsed into `table` from `text`, which holds nothing else.
    pub(crate) fn received(text: Vec<u8>, table: Head) -> RequestHead {
        RequestHead { text, table, asked: SharedFieldSet::default(), outcomes: Outcomes::default() }
    }

    /// The head made from these parts. The protocol has checked them: the method is a token, the authority a host, and
    /// no value holds a line break.
    pub fn assembled<'a>(parts: &Parts<'a>, fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> RequestHead {
        let mut text = Vec::new();
        let table = Head::assemble(parts, fields, &mut text);
        RequestHead { text, table, asked: SharedFieldSet::default(), outcomes: Outcomes::default() }
    }

    /// The head made from these parts, a field, and lines with the fields after it. The caller has checked them, as above.
    pub(crate) fn of_lines(
        parts: &Parts<'_>,
        first: Option<(&[u8], &[u8])>,
        (lines, places): (&[u8], impl Iterator<Item = FieldPlace>),
    ) -> RequestHead {
        let (mut text, mut table) = (buffers::take(), buffers::take_head());
        table.put_line(parts, &mut text);
        first.into_iter().for_each(|(name, value)| table.put_field(name, value, &mut text));
        let start = text.len();
        text.extend_from_slice(lines);
        places.for_each(|place| table.push_place(start, place));
        RequestHead { text, table, asked: SharedFieldSet::default(), outcomes: Outcomes::default() }
    }

    /// The request line as it was sent, without its end. A NUL ends it too, as in Apache: input with a NUL is not a
    /// request, but perhaps a TLS hello, and nobody wants all of it in a log. A protocol without request lines makes
    /// one for the logs.
    pub(crate) fn line(&self) -> &[u8] {
        let start = self.text.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(0);
        let rest = &self.text[start..];
        &rest[..memchr::memchr3(b'\r', b'\n', 0, rest).unwrap_or(rest.len())]
    }

    /// Its bytes, if it came as text.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Its length on the wire, if it came as text.
    pub(crate) fn len(&self) -> u64 {
        self.text.len() as u64
    }

    /// The method, a case-sensitive token (RFC 9110 section 9.1).
    pub fn method(&self) -> &[u8] {
        self.table.method(&self.text)
    }

    /// The target as it was sent.
    pub fn target(&self) -> &[u8] {
        self.table.target(&self.text)
    }

    /// The path of the target, still percent-encoded.
    pub fn path(&self) -> &[u8] {
        self.table.path(&self.text)
    }

    /// The part after the first `?` of the target.
    pub fn query(&self) -> Option<&[u8]> {
        self.table.query(&self.text)
    }

    /// Host and port of the request: the target's own, else those of the `Host` field.
    pub fn authority(&self) -> Option<&[u8]> {
        self.asked.add(FieldSet::of(Some(KnownField::Host)));
        self.table.host(&self.text)
    }

    /// The protocol version.
    pub fn version(&self) -> Version {
        self.table.version()
    }

    /// The value of the first field of that name.
    pub fn field<'n>(&self, name: impl Into<Name<'n>>) -> Option<&[u8]> {
        let name = name.into();
        self.asked.add(FieldSet::of(name.known()));
        self.table.field(&self.text, name)
    }

    /// Whether there is a field of that name.
    pub fn has<'n>(&self, name: impl Into<Name<'n>>) -> bool {
        self.field(name).is_some()
    }

    /// The values of all fields of that name, joined by `", "`.
    pub fn combined<'n>(&self, name: impl Into<Name<'n>>) -> Option<Cow<'_, [u8]>> {
        let name = name.into();
        self.asked.add(FieldSet::of(name.known()));
        self.table.combined(&self.text, name)
    }

    /// All fields in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.asked.add(FieldSet::ALL);
        self.table.fields(&self.text)
    }

    /// All fields in order: which known name it has, if any, its name, and its value.
    pub(crate) fn named_fields(&self) -> impl Iterator<Item = (Option<KnownField>, &[u8], &[u8])> {
        self.asked.add(FieldSet::ALL);
        self.table.named_fields(&self.text)
    }

    /// Table and text, for what a protocol finds out about each request anew: framing, and the future of the connection. What is
    /// looked up there is not recorded.
    pub(crate) fn parts(&self) -> (&Head, &[u8]) {
        (&self.table, &self.text)
    }

    /// The fields of these names in order, for code that compares heads.
    pub(crate) fn fields_of(&self, names: FieldSet) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.table.fields_of(&self.text, names)
    }

    /// The names of the fields that were looked up.
    pub(crate) fn asked(&self) -> FieldSet {
        self.asked.get()
    }

    /// Records that a field was looked up.
    pub(crate) fn asks(&self, field: KnownField) {
        self.asked.add(FieldSet::of(Some(field)));
    }

    /// What was found out about fields that [tests](crate::TestedField) have looked at.
    pub(crate) fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// Whether another head has the same request line, and the same fields of these names.
    pub(crate) fn agrees(&self, other: &RequestHead, names: FieldSet) -> bool {
        self.line() == other.line() && self.fields_of(names).eq(other.fields_of(names))
    }

    /// Becomes another head, which gets the memory of this one.
    pub(crate) fn become_like(&mut self, other: &mut RequestHead) {
        self.text.clear();
        self.text.reserve_exact(other.text.len());
        self.text.extend_from_slice(&other.text);
        std::mem::swap(&mut self.table, &mut other.table);
    }

    /// Gives back the memory of a text that does not need this many bytes.
    pub(crate) fn shrink(&mut self, most: usize) {
        if self.text.capacity() > most {
            self.text.shrink_to_fit();
        }
    }

    /// About how much memory it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<RequestHead>() + self.text.capacity() + self.table.memory()
    }

    /// Text and table, apart.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Head) {
        (self.text, self.table)
    }

    /// Gives its memory to the next request.
    pub(crate) fn recycle(self) {
        buffers::give(self.text);
        buffers::give_head(self.table);
    }
}

impl Preconditions for RequestHead {
    fn method(&self) -> &[u8] {
        RequestHead::method(self)
    }

    fn values(&self, name: KnownField) -> impl Iterator<Item = &[u8]> {
        self.asked.add(FieldSet::of(Some(name)));
        self.table.values(&self.text, name)
    }
}
