//! The bytes of stored heads, as Apache writes them on machines with 64 bits that put the lowest byte first. On others they
//! are the same, so that a `CacheRoot`, or a server of objects, may be shared.

use std::ops::RangeInclusive;

use server::Fields;

use crate::cache::control::Control;
use crate::cache::entry::{Entry, names};

/// Where a head is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In a file `.header`; the body has a file of its own.
    File,
    /// In an object; the body comes behind it.
    Object,
}

impl Layout {
    /// The first number of a list of fields that responses vary by, and that of a head.
    fn marks(self) -> (u32, u32) {
        match self {
            Layout::File => (5, 6),
            Layout::Object => (1, 2),
        }
    }

    /// The bits of a head: there is a body, the response is one to a `HEAD`.
    fn bits(self) -> (u32, u32) {
        match self {
            Layout::File => (1, 2),
            Layout::Object => (0, 1),
        }
    }

    /// The position of the bits, and before the texts that of their end, in bytes.
    fn positions(self) -> (usize, usize) {
        match self {
            Layout::File => (72, 120),
            Layout::Object => (56, 104),
        }
    }
}

/// The times that a head may have, so that nobody has to fear their sums; Apache writes 0 for those that it does not know.
const TIMES: RangeInclusive<i64> = -(i64::MAX / 4)..=i64::MAX / 4;
/// The bit that Apache sets once it has looked for `Cache-Control`.
const PARSED: u32 = 1;

/// The file that holds a body: a head names it, so that it is never taken for the head of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) inode: u64,
    pub(crate) device: u64,
}

/// What is stored under a key.
#[derive(Debug)]
pub(crate) enum Head {
    /// The responses vary by these fields.
    Variants(Vec<String>),
    Response(Box<Stored>),
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) key: Vec<u8>,
    pub(crate) entry: Entry,
    /// The file of the body. `None`: there is no body, or none in a file.
    pub(crate) identity: Option<Identity>,
}

impl Head {
    /// Reads the bytes of a head; with them comes what is behind it. `None`: they are not those of a complete head.
    pub(crate) fn decode(layout: Layout, bytes: &[u8]) -> Option<(Head, &[u8])> {
        let (variants, response) = layout.marks();
        let mark = u32::from_le_bytes(*bytes.first_chunk()?);
        if mark == variants {
            let (lines, rest) = lines(bytes.get(12..)?)?;
            return Some((Head::Variants(lines.into_iter().map(text).collect()), rest));
        }
        let (stored, rest) = Stored::decode(layout, bytes).filter(|_| mark == response)?;
        Some((Head::Response(Box::new(stored)), rest))
    }
}

/// The list of the fields that a response varies by, sorted, so that their order makes no difference.
pub(crate) fn varies_by(vary: &str) -> Vec<String> {
    let mut all: Vec<String> = names(vary).map(str::to_ascii_lowercase).collect();
    all.sort();
    all
}

/// The bytes of the list for responses that expire then.
pub(crate) fn encode_variants(layout: Layout, names: &[String], expire: i64) -> Vec<u8> {
    let mut out = [&layout.marks().0.to_le_bytes()[..], &expire.to_le_bytes()].concat();
    for name in names {
        out.extend(http::text::to_bytes(name).iter());
        out.extend(b"\r\n");
    }
    out.extend(b"\r\n");
    out
}

impl Stored {
    pub(crate) fn encode(&self, layout: Layout) -> Vec<u8> {
        let Stored { key, entry, identity } = self;
        let (has_body, header_only) = layout.bits();
        let bits = if identity.is_some() { has_body } else { 0 } | if entry.header_only { header_only } else { 0 };
        let mut out = layout.marks().1.to_le_bytes().to_vec();
        out.extend(u32::from(entry.status).to_le_bytes());
        for number in [key.len() as u64, 0] {
            out.extend(number.to_le_bytes());
        }
        for time in [entry.date, entry.expire, entry.request_time, entry.response_time] {
            out.extend(time.to_le_bytes());
        }
        if layout == Layout::File {
            let file = identity.unwrap_or(Identity { inode: 0, device: 0 });
            out.extend(file.inode.to_le_bytes());
            out.extend(file.device.to_le_bytes());
        }
        out.extend(u64::from(bits).to_le_bytes());
        encode_control(&entry.control, &mut out);
        out.extend(key);
        for fields in [&entry.fields, &entry.asked] {
            for (name, value) in fields.iter() {
                for part in [name, ": ", value, "\r\n"] {
                    out.extend(http::text::to_bytes(part).iter());
                }
            }
            out.extend(b"\r\n");
        }
        out
    }

    fn decode(layout: Layout, bytes: &[u8]) -> Option<(Stored, &[u8])> {
        let (bits_at, end) = layout.positions();
        let (has_body, header_only) = layout.bits();
        let (numbers, rest) = bytes.split_at_checked(end)?;
        let number = |at: usize| Some(u64::from_le_bytes(*numbers.get(at..)?.first_chunk()?));
        let time = |at: usize| Some(number(at)?.cast_signed()).filter(|time| TIMES.contains(time));
        let (key, rest) = rest.split_at_checked(usize::try_from(number(8)?).ok()?)?;
        let (fields, rest) = fields(rest)?;
        let (asked, rest) = self::fields(rest)?;
        let bits = number(bits_at)? as u32;
        let graces = Control::of(fields.joined("Cache-Control").as_deref(), None);
        let entry = Entry {
            status: u16::try_from(number(0)? >> 32).ok().filter(|status| (200..1000).contains(status))?,
            date: time(24)?,
            expire: time(32)?,
            request_time: time(40)?,
            response_time: time(48)?,
            control: Control {
                stale_while_revalidate: graces.stale_while_revalidate,
                stale_if_error: graces.stale_if_error,
                ..decode_control(|at| number(bits_at + at))?
            },
            header_only: bits & header_only != 0,
            fields,
            asked,
        };
        let identity = match bits & has_body {
            0 => None,
            _ => Some(Identity { inode: number(56)?, device: number(64)? }),
        };
        Some((Stored { key: key.to_vec(), entry, identity }, rest))
    }
}

/// The directives: 18 bits, then the values of four, or -1.
fn encode_control(control: &Control, out: &mut Vec<u8>) {
    let flags = [
        control.is_there,
        control.pragma,
        control.no_cache,
        control.no_cache_fields,
        control.no_store,
        control.max_age.is_some(),
        control.max_stale,
        control.min_fresh.is_some(),
        control.no_transform,
        control.only_if_cached,
        control.public,
        control.private,
        control.private_fields,
        control.must_revalidate,
        control.proxy_revalidate,
        control.s_maxage.is_some(),
        control.invalidated,
    ];
    let bits = flags.iter().enumerate().fold(PARSED, |bits, (place, flag)| bits | u32::from(*flag) << (place + 1));
    out.extend(u64::from(bits).to_le_bytes());
    for value in [control.max_age, control.max_stale_value, control.min_fresh, control.s_maxage] {
        out.extend(value.unwrap_or(-1).to_le_bytes());
    }
}

/// `number`: reads the one at a position behind the bits of the head.
fn decode_control(number: impl Fn(usize) -> Option<u64>) -> Option<Control> {
    let bits = number(8)?;
    let flag = |place: u32| bits >> place & 1 != 0;
    let value = |at: usize| Some(number(at)?.cast_signed()).map(|value| Some(value).filter(|value| *value >= 0));
    Some(Control {
        is_there: flag(1),
        pragma: flag(2),
        no_cache: flag(3),
        no_cache_fields: flag(4),
        no_store: flag(5),
        max_stale: flag(7),
        no_transform: flag(9),
        only_if_cached: flag(10),
        public: flag(11),
        private: flag(12),
        private_fields: flag(13),
        must_revalidate: flag(14),
        proxy_revalidate: flag(15),
        invalidated: flag(17),
        max_age: value(16)?,
        max_stale_value: value(24)?,
        min_fresh: value(32)?,
        s_maxage: value(40)?,
        ..Control::default()
    })
}

/// Lines up to an empty one, and what comes after that.
fn lines(mut bytes: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut all = Vec::new();
    loop {
        let end = memchr::memchr(b'\n', bytes)?;
        let line = &bytes[..end];
        bytes = &bytes[end + 1..];
        match line.strip_suffix(b"\r").unwrap_or(line) {
            [] => return Some((all, bytes)),
            line => all.push(line),
        }
    }
}

fn fields(bytes: &[u8]) -> Option<(Fields, &[u8])> {
    let (lines, rest) = lines(bytes)?;
    let mut fields = Fields::default();
    for line in lines {
        let (name, value) = line.split_at(memchr::memchr(b':', line)?);
        if !http::name::is_valid(name) {
            return None;
        }
        fields.add(text(name), text(value[1..].trim_ascii_start()));
    }
    Some((fields, rest))
}

fn text(bytes: &[u8]) -> String {
    http::text::from_bytes(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Stored {
        let mut entry = Entry {
            status: 200,
            date: 5,
            expire: 6,
            request_time: 7,
            response_time: 8,
            control: Control::of(Some("max-age=5, public, stale-if-error=9"), None),
            ..Entry::default()
        };
        entry.fields.add("Cache-Control", "max-age=5, public, stale-if-error=9");
        entry.fields.add("X-U", text(b"caf\xe9"));
        entry.asked.add("Host", "a");
        Stored { key: b"http://a/?".to_vec(), entry, identity: Some(Identity { inode: 3, device: 4 }) }
    }

    #[test]
    fn heads() {
        let bytes = stored().encode(Layout::File);
        // As Apache writes it: 0x43 is what `max-age` alone makes of the bits, and 0x800 is `public`.
        assert_eq!(bytes[..8], [6, 0, 0, 0, 200, 0, 0, 0]);
        assert_eq!(bytes[80..96], [0x43, 8, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        let Some((Head::Response(read), [])) = Head::decode(Layout::File, &bytes) else { panic!("no head") };
        assert_eq!(read.entry.control, stored().entry.control);
        assert_eq!(read.encode(Layout::File), bytes);
        assert!((0..bytes.len()).all(|end| Head::decode(Layout::File, &bytes[..end]).is_none()));
        let with = |at: usize, number: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + number.len()].copy_from_slice(number);
            Head::decode(Layout::File, &bytes).map(drop)
        };
        // Nobody has stored an interim response, or one of the year 290 000.
        assert!(with(4, &[101, 0]).is_none() && with(24, &i64::MIN.to_le_bytes()).is_none());
    }

    /// What Apache 2.4.71 has stored in Redis, with a body behind it.
    #[test]
    fn objects() {
        let mut bytes = stored().encode(Layout::Object);
        assert_eq!(bytes[..8], [2, 0, 0, 0, 200, 0, 0, 0]);
        assert_eq!(bytes[56..80], [[0; 8], [0x43, 8, 0, 0, 0, 0, 0, 0], [5, 0, 0, 0, 0, 0, 0, 0]].concat());
        assert_eq!(bytes[104..114], *b"http://a/?");
        assert!((0..bytes.len()).all(|end| Head::decode(Layout::Object, &bytes[..end]).is_none()));
        bytes.extend(b"body");
        let Some((Head::Response(read), b"body")) = Head::decode(Layout::Object, &bytes) else { panic!("no head") };
        assert_eq!((read.entry.status, read.entry.control), (200, stored().entry.control));
        let mut head = stored();
        head.entry.header_only = true;
        assert_eq!(head.encode(Layout::Object)[56], 1);
    }

    #[test]
    fn variants() {
        let names = varies_by("X-V, Accept");
        let bytes = encode_variants(Layout::File, &names, 7);
        assert_eq!(bytes, b"\x05\0\0\0\x07\0\0\0\0\0\0\0accept\r\nx-v\r\n\r\n");
        assert!(matches!(Head::decode(Layout::File, &bytes), Some((Head::Variants(read), [])) if read == names));
    }
}
