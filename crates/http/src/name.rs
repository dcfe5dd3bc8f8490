//! Field names: those that the server itself looks up have a number, so that a look-up is an array access.

use std::sync::atomic::{AtomicU32, Ordering};

/// A field name to look up: one of the [`KnownField`] ones, or any other.
///
/// `"accept".into()` classifies the text, so callers may always write the plain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'n> {
    /// A name with an entry in the head's index.
    Known(KnownField),
    /// Any other; compared without regard to ASCII case.
    Other(&'n str),
}

impl Name<'_> {
    /// Which known name this is.
    #[must_use]
    pub fn known(self) -> Option<KnownField> {
        match self {
            Name::Known(known) => Some(known),
            Name::Other(_) => None,
        }
    }
}

impl From<KnownField> for Name<'_> {
    fn from(known: KnownField) -> Self {
        Name::Known(known)
    }
}

impl<'n> From<&'n str> for Name<'n> {
    fn from(name: &'n str) -> Self {
        KnownField::classify(name.as_bytes()).map_or(Name::Other(name), Name::Known)
    }
}

/// Whether this can be the name of a field: a token (RFC 9110 section 5.1).
#[must_use]
pub fn is_valid(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| crate::scan::is_token(byte))
}

/// A set of names of fields: each known name by itself, and all other names together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u32);

const _: () = assert!(KnownField::ALL.len() < u32::BITS as usize);

impl FieldSet {
    /// All names.
    pub const ALL: FieldSet = FieldSet(u32::MAX);

    /// The set of this known name; `None`: that of all other names.
    #[must_use]
    pub const fn of(name: Option<KnownField>) -> FieldSet {
        match name {
            Some(known) => FieldSet(1 << known as u32),
            None => FieldSet(1 << (u32::BITS - 1)),
        }
    }

    /// The names of both sets.
    #[must_use]
    pub const fn and(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 | other.0)
    }

    /// Whether it has this known name; `None`: all other names.
    #[must_use]
    pub const fn has(self, name: Option<KnownField>) -> bool {
        self.0 & FieldSet::of(name).0 != 0
    }
}

/// A set of names that several threads add to.
#[derive(Debug, Default)]
pub struct SharedFieldSet(AtomicU32);

impl SharedFieldSet {
    /// Adds names. Costs little if they are there already.
    #[inline]
    pub fn add(&self, names: FieldSet) {
        if self.0.load(Ordering::Relaxed) & names.0 != names.0 {
            self.0.fetch_or(names.0, Ordering::Relaxed);
        }
    }

    /// The names in it.
    #[must_use]
    pub fn get(&self) -> FieldSet {
        FieldSet(self.0.load(Ordering::Relaxed))
    }
}

/// Declares [`KnownField`] and its names from one list, so that the two cannot disagree.
macro_rules! known {
    ($($variant:ident $name:literal,)*) => {
        /// The request fields that the server and its modules look up on most requests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum KnownField {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        /// [`KnownField::name`] as bytes, by discriminant.
        static NAMES: &[&[u8]] = &[$($name.as_bytes(),)*];

        impl KnownField {
            /// All of them, in the order of their discriminants.
            pub const ALL: &'static [KnownField] = &[$(KnownField::$variant,)*];

            /// The name in its customary spelling.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(KnownField::$variant => $name,)* }
            }
        }
    };
}

known! {
    Accept "Accept",
    AcceptCharset "Accept-Charset",
    AcceptEncoding "Accept-Encoding",
    AcceptLanguage "Accept-Language",
    Authorization "Authorization",
    CacheControl "Cache-Control",
    Connection "Connection",
    ContentEncoding "Content-Encoding",
    ContentLength "Content-Length",
    ContentType "Content-Type",
    Cookie "Cookie",
    Expect "Expect",
    Host "Host",
    IfMatch "If-Match",
    IfModifiedSince "If-Modified-Since",
    IfNoneMatch "If-None-Match",
    IfRange "If-Range",
    IfUnmodifiedSince "If-Unmodified-Since",
    MaxForwards "Max-Forwards",
    Origin "Origin",
    ProxyAuthorization "Proxy-Authorization",
    Range "Range",
    Referer "Referer",
    Te "TE",
    TransferEncoding "Transfer-Encoding",
    Upgrade "Upgrade",
    UserAgent "User-Agent",
    XForwardedFor "X-Forwarded-For",
}

impl KnownField {
    /// Which known name this is, without regard to ASCII case.
    #[must_use]
    pub fn classify(name: &[u8]) -> Option<KnownField> {
        let candidates: &[KnownField] = match name.len() {
            2 => &[KnownField::Te],
            4 => &[KnownField::Host],
            5 => &[KnownField::Range],
            6 => &[KnownField::Accept, KnownField::Cookie, KnownField::Expect, KnownField::Origin],
            7 => &[KnownField::Referer, KnownField::Upgrade],
            8 => &[KnownField::IfMatch, KnownField::IfRange],
            10 => &[KnownField::Connection, KnownField::UserAgent],
            12 => &[KnownField::ContentType, KnownField::MaxForwards],
            13 => &[KnownField::CacheControl, KnownField::IfNoneMatch, KnownField::Authorization],
            14 => &[KnownField::ContentLength, KnownField::AcceptCharset],
            15 => &[KnownField::AcceptEncoding, KnownField::AcceptLanguage, KnownField::XForwardedFor],
            16 => &[KnownField::ContentEncoding],
            17 => &[KnownField::IfModifiedSince, KnownField::TransferEncoding],
            19 => &[KnownField::IfUnmodifiedSince, KnownField::ProxyAuthorization],
            _ => return None,
        };
        // The first letter rules out most candidates.
        let initial = name[0] | 0x20;
        candidates.iter().copied().find(|known| {
            let spelled = NAMES[*known as usize];
            spelled[0] | 0x20 == initial && is_spelled(spelled, name)
        })
    }
}

/// Whether a name is a known one of the same length, without regard to ASCII case.
fn is_spelled(known: &[u8], name: &[u8]) -> bool {
    /// Whether eight bytes are. Of the bytes of a known name, letters have the bit 0x40, and their case is the bit 0x20.
    fn differ(known: [u8; 8], name: [u8; 8]) -> u64 {
        let (known, name) = (u64::from_ne_bytes(known), u64::from_ne_bytes(name));
        (known ^ name) & !((known & 0x4040_4040_4040_4040) >> 1)
    }
    let (Some(first), Some(last)) = (known.first_chunk(), known.last_chunk()) else {
        return known.eq_ignore_ascii_case(name);
    };
    let (Some(own_first), Some(own_last)) = (name.first_chunk(), name.last_chunk()) else { return false };
    let middle = match (known[8..].first_chunk(), name[8..].first_chunk()) {
        (Some(known), Some(name)) => differ(*known, *name),
        _ => 0,
    };
    differ(*first, *own_first) | differ(*last, *own_last) | middle == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_tells_each_known_name_from_the_others() {
        let names = || KnownField::ALL.iter().copied().map(Some).chain([None]);
        for name in names() {
            let set = SharedFieldSet::default();
            set.add(FieldSet::of(name));
            set.add(FieldSet::of(name));
            assert!(names().all(|other| set.get().has(other) == (other == name) && FieldSet::ALL.has(other)));
            set.add(FieldSet::of(None));
            assert_eq!(set.get(), FieldSet::of(name).and(FieldSet::of(None)));
        }
        assert!(names().all(|name| !FieldSet::default().has(name)));
    }

    #[test]
    fn every_name_is_found_by_classify() {
        for (number, known) in KnownField::ALL.iter().enumerate() {
            assert_eq!(*known as usize, number);
            assert_eq!(KnownField::classify(known.name().as_bytes()), Some(*known));
            assert_eq!(KnownField::classify(known.name().to_ascii_uppercase().as_bytes()), Some(*known));
        }
        for name in [
            "Accept\rEncoding",
            "Hos\u{14}",
            "Content\rType",
            "If-None-Matc\x08",
            "Content-Lengt(",
            "\x21ccept-Encoding",
        ] {
            assert_eq!(KnownField::classify(name.as_bytes()), None, "{name}");
        }
        assert_eq!(KnownField::classify(b""), None);
        assert_eq!(KnownField::classify(b"Hosu"), None);
        assert_eq!(Name::from("x-mine"), Name::Other("x-mine"));
        assert_eq!((Name::from("host").known(), Name::from("x-mine").known()), (Some(KnownField::Host), None));
        assert!(is_valid(b"X-Mine") && !is_valid(b"") && !is_valid(b"X Mine"));
    }
}
