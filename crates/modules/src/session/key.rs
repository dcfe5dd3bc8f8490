//! Keys of sessions that a store has: the client has nothing but the key, in a cookie.

/// The note of a request with the key of its session.
pub(super) const KEY: &str = "mod_session-key";

/// The store did not answer, which was logged.
pub(super) struct Lost;

/// An unguessable key, in the form of a UUID (RFC 9562, version 4).
pub(super) fn new_key() -> String {
    let mut bytes = sys::random::bytes::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The part of a key for the log: whoever knows all of it has the session. The name of a user is no secret.
pub(super) fn shown(key: &str) -> String {
    if is_key(key) { format!("{}...", &key[..8]) } else { key.to_string() }
}

/// Whether a text looks like such a key.
pub(super) fn is_key(text: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let (one, other) = (new_key(), new_key());
        assert!(is_key(&one) && one != other && &one[14..15] == "4", "{one}");
        assert_eq!((shown(&one), shown("joe")), (format!("{}...", &one[..8]), "joe".to_string()));
        for text in ["", "joe", &one[1..], &one.replace('-', "0"), &one.replace('4', "g")] {
            assert!(!is_key(text), "{text}");
        }
    }
}
