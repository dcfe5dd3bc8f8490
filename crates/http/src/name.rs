//! Field names: those that the server itself looks up have a number, so that a look-up is an array access.

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
            12 => &[KnownField::ContentType],
            13 => &[KnownField::CacheControl, KnownField::IfNoneMatch, KnownField::Authorization],
            14 => &[KnownField::ContentLength, KnownField::AcceptCharset],
            15 => &[KnownField::AcceptEncoding, KnownField::AcceptLanguage, KnownField::XForwardedFor],
            16 => &[KnownField::ContentEncoding],
            17 => &[KnownField::IfModifiedSince, KnownField::TransferEncoding],
            19 => &[KnownField::IfUnmodifiedSince, KnownField::ProxyAuthorization],
            _ => return None,
        };
        // The first letter rules out most candidates without a call, and most clients spell a name either as usual or
        // in lower case.
        let initial = name[0] | 0x20;
        candidates.iter().copied().find(|known| {
            let spelled = NAMES[*known as usize];
            spelled[0] | 0x20 == initial && (spelled == name || spelled.eq_ignore_ascii_case(name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_by_classify() {
        for (number, known) in KnownField::ALL.iter().enumerate() {
            assert_eq!(*known as usize, number);
            assert_eq!(KnownField::classify(known.name().as_bytes()), Some(*known));
            assert_eq!(KnownField::classify(known.name().to_ascii_uppercase().as_bytes()), Some(*known));
        }
        assert_eq!(KnownField::classify(b""), None);
        assert_eq!(KnownField::classify(b"Hosu"), None);
        assert_eq!(Name::from("x-mine"), Name::Other("x-mine"));
        assert!(is_valid(b"X-Mine") && !is_valid(b"") && !is_valid(b"X Mine"));
    }
}
