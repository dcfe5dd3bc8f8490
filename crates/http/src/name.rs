//! Field names: those that the server itself looks up have a number, so that a look-up is an array access.

/// A field name to look up: one of the [`Known`] ones, or any other.
///
/// `"accept".into()` classifies the text, so callers may always write the plain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'n> {
    /// A name with an entry in the head's index.
    Known(Known),
    /// Any other; compared without regard to ASCII case.
    Other(&'n str),
}

impl From<Known> for Name<'_> {
    fn from(known: Known) -> Self {
        Name::Known(known)
    }
}

impl<'n> From<&'n str> for Name<'n> {
    fn from(name: &'n str) -> Self {
        Known::classify(name.as_bytes()).map_or(Name::Other(name), Name::Known)
    }
}

/// Whether this can be the name of a field: a token (RFC 9110 section 5.1).
#[must_use]
pub fn is_valid(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| crate::scan::is_token(byte))
}

/// Declares [`Known`] and its names from one list, so that the two cannot disagree.
macro_rules! known {
    ($($variant:ident $name:literal,)*) => {
        /// The request fields that the server and its modules look up on most requests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Known {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        /// [`Known::name`] as bytes, by discriminant.
        static NAMES: &[&[u8]] = &[$($name.as_bytes(),)*];

        impl Known {
            /// All of them, in the order of their discriminants.
            pub const ALL: &'static [Known] = &[$(Known::$variant,)*];

            /// The name in its customary spelling.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Known::$variant => $name,)* }
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

impl Known {
    /// Which known name this is, without regard to ASCII case.
    #[must_use]
    pub fn classify(name: &[u8]) -> Option<Known> {
        let candidates: &[Known] = match name.len() {
            2 => &[Known::Te],
            4 => &[Known::Host],
            5 => &[Known::Range],
            6 => &[Known::Accept, Known::Cookie, Known::Expect, Known::Origin],
            7 => &[Known::Referer, Known::Upgrade],
            8 => &[Known::IfMatch, Known::IfRange],
            10 => &[Known::Connection, Known::UserAgent],
            12 => &[Known::ContentType],
            13 => &[Known::CacheControl, Known::IfNoneMatch, Known::Authorization],
            14 => &[Known::ContentLength, Known::AcceptCharset],
            15 => &[Known::AcceptEncoding, Known::AcceptLanguage, Known::XForwardedFor],
            16 => &[Known::ContentEncoding],
            17 => &[Known::IfModifiedSince, Known::TransferEncoding],
            19 => &[Known::IfUnmodifiedSince, Known::ProxyAuthorization],
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
        for (number, known) in Known::ALL.iter().enumerate() {
            assert_eq!(*known as usize, number);
            assert_eq!(Known::classify(known.name().as_bytes()), Some(*known));
            assert_eq!(Known::classify(known.name().to_ascii_uppercase().as_bytes()), Some(*known));
        }
        assert_eq!(Known::classify(b""), None);
        assert_eq!(Known::classify(b"Hosu"), None);
        assert_eq!(Name::from("x-mine"), Name::Other("x-mine"));
    }
}
