//! The fields of a head, in the order in which they came, and what RFC 9113 section 8 asks of them.
//!
//! Names and values stand in one text, as lines `name: value`: a blank may not stand in a name, nor a line's end in either, so
//! two texts of whole heads are equal only if the heads are.

use crate::h1::head::{FieldPlace, SEPARATOR};
use crate::joined;
use crate::name::{FieldSet, KnownField};
use crate::scan::{find_below, has_no_controls, is_token};

/// What a field counts beside its name and value, in bytes (RFC 9113 section 6.5.2).
const EACH: usize = 32;

/// The fields of a head.
#[derive(Clone, Debug, Default)]
pub struct FieldList {
    text: Vec<u8>,
    /// Where each field stands. Pseudo-header fields are not among them.
    fields: Vec<FieldPlace>,
    /// Their names.
    names: FieldSet,
    /// The values of the pseudo-header fields (RFC 9113 section 8.3.1 and RFC 8441 section 4), by their place in [`PSEUDO`].
    pseudo: [Option<(u32, u32)>; PSEUDO.len()],
    length: Option<u64>,
    /// The size of all fields as SETTINGS_MAX_HEADER_LIST_SIZE counts them, in bytes.
    size: usize,
    is_malformed: bool,
    is_too_large: bool,
    has_names_of_its_own: bool,
    has_controls: bool,
}

/// The pseudo-header fields of requests, and that of responses.
const PSEUDO: [&[u8]; 6] = [b":method", b":scheme", b":authority", b":path", b":protocol", b":status"];
const METHOD: usize = 0;
const SCHEME: usize = 1;
const AUTHORITY: usize = 2;
const PATH: usize = 3;
const PROTOCOL: usize = 4;
const STATUS: usize = 5;

/// The head must not be answered at all: PROTOCOL_ERROR for its stream (RFC 9113 section 8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl FieldList {
    /// Forgets all fields, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.names = FieldSet::default();
        self.pseudo = Default::default();
        self.length = None;
        self.size = 0;
        self.is_malformed = false;
        self.is_too_large = false;
        self.has_names_of_its_own = false;
        self.has_controls = false;
    }

    /// Appends a field, if the head is no larger than `most` bytes with it.
    pub fn push(&mut self, name: &[u8], value: &[u8], most: usize) {
        self.push_again(name, value, most, &mut Verdict::default());
    }

    /// Appends a field, if the head is no larger than `most` bytes with it. `verdict`: that on an equal field; if there was none, it is
    /// found out, and written there.
    #[inline]
    pub(super) fn push_again(&mut self, name: &[u8], value: &[u8], most: usize, verdict: &mut Verdict) {
        self.size = self.size.saturating_add(name.len() + value.len() + EACH);
        if self.size > most {
            self.is_too_large = true;
        }
        if self.is_malformed || self.is_too_large {
            return;
        }
        if *verdict == Verdict::Unknown {
            *verdict = Verdict::on(name, value);
        }
        // Clients do send blanks around values, and HTTP/1 ignores them; RFC 9113 section 8.2.1 calls such a field malformed.
        self.is_malformed = self.add(name, trim(value), *verdict).is_err();
    }

    fn add(&mut self, name: &[u8], value: &[u8], verdict: Verdict) -> Result<(), Malformed> {
        let place = self.text.len() as u32;
        self.text.reserve(name.len() + value.len() + SEPARATOR.len() + 1);
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(SEPARATOR);
        let start = self.text.len() as u32;
        self.text.extend_from_slice(value);
        let end = self.text.len() as u32;
        self.text.push(b'\n');
        match verdict {
            Verdict::Unknown | Verdict::Malformed => Err(Malformed),
            Verdict::Pseudo(at) => {
                let is_doubled = self.pseudo[usize::from(at)].replace((start, end)).is_some();
                if is_doubled || !self.fields.is_empty() { Err(Malformed) } else { Ok(()) }
            }
            Verdict::Field { known, has_name_of_its_own, has_controls } => {
                if known == Some(KnownField::ContentLength) {
                    let length = length(value).ok_or(Malformed)?;
                    if self.length.replace(length).is_some_and(|other| other != length) {
                        return Err(Malformed);
                    }
                }
                self.has_names_of_its_own |= has_name_of_its_own;
                self.has_controls |= has_controls;
                self.names = self.names.and(FieldSet::of(known));
                self.fields.push(FieldPlace { name: place, value: start, end, known });
                Ok(())
            }
        }
    }

    /// Checks the head of a request. `tunnels`: extended CONNECT is allowed (RFC 8441).
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn check_request(&self, tunnels: bool) -> Result<(), Malformed> {
        if self.is_malformed {
            return Err(Malformed);
        }
        let has = |at: usize| self.pseudo[at].is_some();
        let is_connect = self.method() == b"CONNECT";
        let is_whole = match (is_connect, has(PROTOCOL)) {
            (_, true) => is_connect && tunnels && has(SCHEME) && has(PATH) && has(AUTHORITY),
            // RFC 9113 section 8.5.
            (true, false) => has(AUTHORITY) && !has(SCHEME) && !has(PATH),
            (false, false) => has(SCHEME) && has(PATH),
        };
        let is_visible = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_graphic);
        if !is_whole || has(STATUS) || !crate::name::is_valid(self.method()) || !self.protocol().is_none_or(is_visible)
        {
            return Err(Malformed);
        }
        if self.path().is_some_and(<[u8]>::is_empty) {
            return Err(Malformed);
        }
        Ok(())
    }

    /// Checks the head of a response, and returns its status: three digits, the first of them not 0 (RFC 9113 section 8.3.2).
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn check_response(&self) -> Result<u16, Malformed> {
        let is_alone = self.pseudo.iter().enumerate().all(|(at, value)| (at == STATUS) == value.is_some());
        match self.pseudo(STATUS) {
            Some(&[a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']) if is_alone && !self.is_malformed => {
                Ok([a, b, c].iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
            }
            _ => Err(Malformed),
        }
    }

    /// Checks the fields after a body: pseudo-header fields are not allowed there (RFC 9113 section 8.1).
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn check_trailers(&self) -> Result<(), Malformed> {
        if self.is_malformed || self.pseudo.iter().any(Option::is_some) { Err(Malformed) } else { Ok(()) }
    }

    /// All of it as one text, the same for equal heads only. `None`: a part is missing, because it was malformed or too much.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        (!self.is_malformed && !self.is_too_large).then_some(&self.text)
    }

    /// Whether there was more than SETTINGS_MAX_HEADER_LIST_SIZE allows. The rest is missing here.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// `:method`
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.pseudo(METHOD).unwrap_or_default()
    }

    /// `:scheme`
    #[must_use]
    pub fn scheme(&self) -> Option<&[u8]> {
        self.pseudo(SCHEME)
    }

    /// `:authority`
    #[must_use]
    pub fn authority(&self) -> Option<&[u8]> {
        self.pseudo(AUTHORITY)
    }

    /// `:path`
    #[must_use]
    pub fn path(&self) -> Option<&[u8]> {
        self.pseudo(PATH)
    }

    /// `:protocol`, of an extended CONNECT (RFC 8441 section 4).
    #[must_use]
    pub fn protocol(&self) -> Option<&[u8]> {
        self.pseudo(PROTOCOL)
    }

    fn pseudo(&self, at: usize) -> Option<&[u8]> {
        self.pseudo[at].map(|(start, end)| &self.text[start as usize..end as usize])
    }

    /// `content-length`, in bytes. A length that is said twice is one.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// How much memory its text takes, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// The number of fields, without pseudo-header fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no fields, except pseudo-header fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether a field is longer than `most` bytes as `name: value`, the values of all fields of its name joined.
    #[must_use]
    pub fn has_longer(&self, most: usize) -> bool {
        self.text.len() > most && joined::is_longer(self.iter(), |name| name.len() + SEPARATOR.len(), most)
    }

    /// Whether a name is none in HTTP/1, where only tokens are (RFC 9110 section 5.1).
    #[must_use]
    pub fn has_names_of_its_own(&self) -> bool {
        self.has_names_of_its_own
    }

    /// Whether a value has controls besides tabs.
    #[must_use]
    pub fn has_controls(&self) -> bool {
        self.has_controls
    }

    /// The names and values in order, without pseudo-header fields.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|place| (&self.text[place.name()], &self.text[place.value()]))
    }

    /// The lines of all fields, without those of pseudo-header fields, and the place of each field there.
    pub fn lines(&self) -> (&[u8], impl Iterator<Item = FieldPlace>) {
        let first = self.fields.first().map_or(self.text.len() as u32, |place| place.name);
        let places = self.fields.iter().map(move |FieldPlace { name, value, end, known }| FieldPlace {
            name: name - first,
            value: value - first,
            end: end - first,
            known: *known,
        });
        (&self.text[first as usize..], places)
    }

    /// The values of all fields of a known name.
    pub fn known(&self, known: KnownField) -> impl Iterator<Item = &[u8]> {
        // Most questions are for fields that are not there.
        let all = if self.names.has(Some(known)) { &self.fields[..] } else { &[] };
        all.iter().filter(move |place| place.known == Some(known)).map(|place| &self.text[place.value()])
    }

    /// The values of all fields of that name, which is in lower case.
    pub fn values<'l>(&'l self, name: &'l [u8]) -> impl Iterator<Item = &'l [u8]> {
        self.iter().filter(move |(other, _)| *other == name).map(|(_, value)| value)
    }
}

/// What can be said of a field alone, without the others of its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The field was not examined yet.
    #[default]
    Unknown,
    Malformed,
    /// A pseudo-header field, by its place in [`PSEUDO`].
    Pseudo(u8),
    Field {
        known: Option<KnownField>,
        /// The name is none in HTTP/1.
        has_name_of_its_own: bool,
        /// The value has controls besides tabs.
        has_controls: bool,
    },
}

impl Verdict {
    /// Examines a field.
    fn on(name: &[u8], value: &[u8]) -> Verdict {
        Verdict::examine(name, value).unwrap_or(Verdict::Malformed)
    }

    fn examine(name: &[u8], value: &[u8]) -> Result<Verdict, Malformed> {
        let has_controls = check_bytes(value)?;
        if name.first() == Some(&b':') {
            let at = PSEUDO.iter().position(|known| *known == name).ok_or(Malformed)?;
            return if trim(value).len() == value.len() { Ok(Verdict::Pseudo(at as u8)) } else { Err(Malformed) };
        }
        if name.is_empty() {
            return Err(Malformed);
        }
        let known = KnownField::classify(name);
        // A known name consists of letters and hyphens: those without the bit 0x20 are capitals.
        let is_usual = match known {
            Some(_) => name.iter().fold(0x20, |all, byte| all & byte) != 0,
            None => name.iter().all(|byte| NAME[*byte as usize]),
        };
        if !is_usual && name.iter().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii_graphic() || *byte == b':') {
            return Err(Malformed);
        }
        match known {
            // They belong to HTTP/1 (RFC 9113 section 8.2.2).
            Some(KnownField::Connection | KnownField::TransferEncoding | KnownField::Upgrade) => return Err(Malformed),
            None if matches!(name, b"keep-alive" | b"proxy-connection") => return Err(Malformed),
            Some(KnownField::Te) if trim(value) != b"trailers" => return Err(Malformed),
            _ => {}
        }
        Ok(Verdict::Field { known, has_name_of_its_own: !is_usual, has_controls })
    }
}

/// A value without the blanks around it.
#[inline]
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Whether a value has controls besides tabs. `Err`: it is malformed (RFC 9113 section 8.2.1): a NUL or line break in it.
fn check_bytes(value: &[u8]) -> Result<bool, Malformed> {
    if has_no_controls(value) {
        return Ok(false);
    }
    let mut has_controls = false;
    let mut at = find_below(value, 0, 0x20);
    while at < value.len() {
        match value[at] {
            0 | b'\r' | b'\n' => return Err(Malformed),
            b'\t' => {}
            _ => has_controls = true,
        }
        at = find_below(value, at + 1, 0x20);
    }
    Ok(has_controls)
}

/// A number of bytes, in digits only.
fn length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The bytes of most names: those of tokens except capitals. A name may have others, too, but no capitals, controls, blanks or
/// colons, and nothing beyond ASCII (RFC 9113 section 8.2.1).
static NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_token(byte as u8) && !(byte as u8).is_ascii_uppercase();
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::hpack::Decoder;

    const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "host")];

    fn list(fields: &[(&str, &str)]) -> FieldList {
        let mut list = FieldList::default();
        fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes(), 1000));
        list
    }

    #[test]
    fn a_head_is_kept_in_order() {
        let list = list(&[&GET[..], &[("a", "1"), ("content-length", "5"), ("b", "")]].concat());
        assert_eq!(list.check_request(false), Ok(()));
        let fields: Vec<_> = list.iter().map(|(name, value)| [name, b"=", value].concat()).collect();
        assert_eq!(fields, [&b"a=1"[..], b"content-length=5", b"b="]);
        assert_eq!((list.method(), list.path(), list.authority()), (&b"GET"[..], Some(&b"/"[..]), Some(&b"host"[..])));
        assert_eq!((list.length(), list.len(), list.protocol()), (Some(5), 3, None));
    }

    #[test]
    fn blanks_around_values_are_left_out() {
        let odd = [("a", " 1"), ("b", "\t2 \t"), ("c", " \t "), ("te", "trailers "), ("content-length", "5 ")];
        let list = list(&[&GET[..], &odd].concat());
        assert_eq!((list.check_request(false), list.length()), (Ok(()), Some(5)));
        let values: Vec<_> = list.iter().map(|(_, value)| value).collect();
        assert_eq!(values, [&b"1"[..], b"2", b"", b"trailers", b"5"]);
    }

    #[test]
    fn malformed_fields_are_found() {
        for (name, value) in [
            ("", "x"),
            ("Upper", "x"),
            ("x y", "x"),
            ("x:", "x"),
            ("x\u{e9}", "x"),
            (":path", "/again"),
            (":unknown", "x"),
            (":protocol", " blank"),
            ("x", "li\nne"),
            ("x", "line\r\n"),
            ("x", "a\0b"),
            ("x", "\u{1}\u{7f}\r"),
            ("connection", "close"),
            ("keep-alive", "x"),
            ("proxy-connection", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("content-length", "-1"),
            ("content-length", "1 1"),
            ("content-length", "+1"),
            ("content-length", ""),
            ("content-length", "99999999999999999999"),
        ] {
            let list = list(&[&GET[..], &[(name, value)]].concat());
            assert_eq!(list.check_request(true), Err(Malformed), "{name}: {value}");
        }
        let two = [("content-length", "1"), ("content-length", "2")];
        assert_eq!(list(&[&GET[..], &two].concat()).check_request(false), Err(Malformed));
        assert_eq!(list(&[&GET[..], &[("te", "trailers"), ("x", "\u{1}")]].concat()).check_request(false), Ok(()));
        assert_eq!(list(&[&[("x", "y")], &GET[..]].concat()).check_request(false), Err(Malformed), "fields come last");
        for left_out in &GET[..3] {
            let rest: Vec<_> = GET.into_iter().filter(|field| field != left_out).collect();
            assert_eq!(list(&rest).check_request(false), Err(Malformed), "{}", left_out.0);
        }
    }

    #[test]
    fn a_field_that_comes_again_is_judged_as_before() {
        let long = "v".repeat(100);
        for (name, value) in [
            ("accept", "x"),
            ("x", &long),
            ("x\u{22}", "tab\there"),
            ("x", "\u{1}"),
            ("content-length", "7"),
            ("content-length", "7x"),
            ("content-length", " 7"),
            ("te", "trailers "),
            (":path", " /"),
            (":path", "/"),
            (":unknown", "x"),
            ("Upper", "x"),
            ("Accept", "x"),
            ("te", "gzip"),
            ("x", "li\nne"),
            ("", "x"),
        ] {
            let mut decoder = Decoder::new(4096);
            let added =
                [&[0x40, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat();
            let [first, again] = [&added[..], &[0x80 | 62]].map(|block| {
                let mut list = FieldList::default();
                let each =
                    |name: &[u8], value: &[u8], verdict: &mut Verdict| list.push_again(name, value, 500, verdict);
                assert_eq!(decoder.decode(block, each), Ok(()));
                format!("{list:?}")
            });
            assert_eq!(first, again, "{name}: {value}");
            assert_eq!(first, format!("{:?}", list(&[(name, value)])));
        }
    }

    #[test]
    fn a_connect_names_an_authority_alone() {
        let connect = [(":method", "CONNECT"), (":authority", "host:1")];
        assert_eq!(list(&connect).check_request(false), Ok(()));
        assert_eq!(list(&connect[..1]).check_request(false), Err(Malformed));
        let whole = [&connect[..], &GET[1..3]].concat();
        assert_eq!(list(&whole).check_request(true), Err(Malformed));
        let tunnel = [&whole[..], &[(":protocol", "websocket")]].concat();
        assert_eq!(list(&tunnel).check_request(true), Ok(()));
        assert_eq!(list(&tunnel).check_request(false), Err(Malformed));
        assert_eq!(list(&[&GET[..], &[(":protocol", "websocket")]].concat()).check_request(true), Err(Malformed));
    }

    #[test]
    fn there_is_a_limit() {
        let mut list = list(&GET);
        list.push(b"x", &[b'v'; 1000], 1000);
        list.push(b"y", b"", 1000);
        assert_eq!((list.is_too_large(), list.len(), list.check_request(false)), (true, 0, Ok(())));
        assert_eq!(list.text(), None, "other heads have the same beginning");
    }

    #[test]
    fn trailers_have_no_pseudo_fields() {
        assert_eq!(list(&[("check", "sum")]).check_trailers(), Ok(()));
        assert_eq!(list(&GET[..1]).check_trailers(), Err(Malformed));
        assert_eq!(list(&[("Check", "sum")]).check_trailers(), Err(Malformed));
    }
}
