//! The bytes of a `.header` file, as Apache writes them on machines with 64 bits that put the lowest byte first. On others they
//! are the same, so that a `CacheRoot` may be shared.

use std::ops::RangeInclusive;

use server::Fields;

use crate::cache::control::Control;
use crate::cache::entry::{Entry, names};

/// The first number of a list of fields that responses vary by, and that of a head.
const VARIANTS: u32 = 5;
const RESPONSE: u32 = 6;
/// The numbers of a head, before its texts, in bytes.
const NUMBERS: usize = 120;
/// The times that a head may have, so that nobody has to fear their sums; Apache writes 0 for those that it does not know.
const TIMES: RangeInclusive<i64> = -(i64::MAX / 4)..=i64::MAX / 4;
/// Bits: there is a body, the response is one to a `HEAD`.
const HAS_BODY: u32 = 1;
const HEADER_ONLY: u32 = 2;
/// The bit that Apache sets once it has looked for `Cache-Control`.
const PARSED: u32 = 1;

/// The file that holds a body: a head names it, so that it is never taken for the head of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) inode: u64,
    pub(super) device: u64,
}

/// What a `.header` file says.
#[derive(Debug)]
pub(super) enum Head {
    /// The responses vary by these fields.
    Variants(Vec<String>),
    Response(Box<Stored>),
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) key: Vec<u8>,
    pub(super) entry: Entry,
    /// `None`: there is no body.
    pub(super) identity: Option<Identity>,
}

impl Head {
    /// Reads the bytes of a file. `None`: they are not those of a complete head.
    pub(super) fn decode(bytes: &[u8]) -> Option<Head> {
        match u32::from_le_bytes(*bytes.first_chunk()?) {
            VARIANTS => {
                let (lines, _) = lines(bytes.get(12..)?)?;
                Some(Head::Variants(lines.into_iter().map(text).collect()))
            }
            RESPONSE => Some(Head::Response(Box::new(Stored::decode(bytes)?))),
            _ => None,
        }
    }
}

/// The list of the fields that a response varies by, sorted, so that their order makes no difference.
pub(super) fn varies_by(vary: &str) -> Vec<String> {
    let mut all: Vec<String> = names(vary).map(str::to_ascii_lowercase).collect();
    all.sort();
    all
}

/// The bytes of the list for responses that expire then.
pub(super) fn encode_variants(names: &[String], expire: i64) -> Vec<u8> {
    let mut out = [&VARIANTS.to_le_bytes()[..], &expire.to_le_bytes()].concat();
    for name in names {
        out.extend(http::text::to_bytes(name).iter());
        out.extend(b"\r\n");
    }
    out.extend(b"\r\n");
    out
}

impl Stored {
    pub(super) fn encode(&self) -> Vec<u8> {
        let Stored { key, entry, identity } = self;
        let file = identity.unwrap_or(Identity { inode: 0, device: 0 });
        let bits = if identity.is_some() { HAS_BODY } else { 0 } | if entry.header_only { HEADER_ONLY } else { 0 };
        let mut out = RESPONSE.to_le_bytes().to_vec();
        out.extend(u32::from(entry.status).to_le_bytes());
        for number in [key.len() as u64, 0] {
            out.extend(number.to_le_bytes());
        }
        for time in [entry.date, entry.expire, entry.request_time, entry.response_time] {
            out.extend(time.to_le_bytes());
        }
        out.extend(file.inode.to_le_bytes());
        out.extend(file.device.to_le_bytes());
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

    fn decode(bytes: &[u8]) -> Option<Stored> {
        let (numbers, rest) = bytes.split_at_checked(NUMBERS)?;
        let number = |at: usize| Some(u64::from_le_bytes(*numbers.get(at..)?.first_chunk()?));
        let time = |at: usize| Some(number(at)?.cast_signed()).filter(|time| TIMES.contains(time));
        let (key, rest) = rest.split_at_checked(usize::try_from(number(8)?).ok()?)?;
        let (fields, rest) = fields(rest)?;
        let (asked, _) = self::fields(rest)?;
        let bits = number(72)? as u32;
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
                ..decode_control(number)?
            },
            header_only: bits & HEADER_ONLY != 0,
            fields,
            asked,
        };
        let identity = Identity { inode: number(56)?, device: number(64)? };
        Some(Stored { key: key.to_vec(), entry, identity: Some(identity).filter(|_| bits & HAS_BODY != 0) })
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

/// `number`: reads the one at a position of the file.
fn decode_control(number: impl Fn(usize) -> Option<u64>) -> Option<Control> {
    let bits = number(80)?;
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
        max_age: value(88)?,
        max_stale_value: value(96)?,
        min_fresh: value(104)?,
        s_maxage: value(112)?,
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
        let bytes = stored().encode();
        // As Apache writes it: 0x43 is what `max-age` alone makes of the bits, and 0x800 is `public`.
        assert_eq!(bytes[..8], [6, 0, 0, 0, 200, 0, 0, 0]);
        assert_eq!(bytes[80..96], [0x43, 8, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        let Some(Head::Response(read)) = Head::decode(&bytes) else { panic!("no head") };
        assert_eq!(read.entry.control, stored().entry.control);
        assert_eq!(read.encode(), bytes);
        assert!((0..bytes.len()).all(|end| Head::decode(&bytes[..end]).is_none()));
        let with = |at: usize, number: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + number.len()].copy_from_slice(number);
            Head::decode(&bytes)
        };
        // Nobody has stored an interim response, or one of the year 290 000.
        assert!(with(4, &[101, 0]).is_none() && with(24, &i64::MIN.to_le_bytes()).is_none());
    }

    #[test]
    fn variants() {
        let names = varies_by("X-V, Accept");
        let bytes = encode_variants(&names, 7);
        assert_eq!(bytes, b"\x05\0\0\0\x07\0\0\0\0\0\0\0accept\r\nx-v\r\n\r\n");
        assert!(matches!(Head::decode(&bytes), Some(Head::Variants(read)) if read == names));
    }
}
