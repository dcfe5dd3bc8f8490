//! Request methods (RFC 9110, section 9).

/// The methods that Apache httpd 2.4.71 knows without `RegisterHttpMethod`: those of HTTP, `PATCH` (RFC 5789), WebDAV
/// (RFC 4918) and its versioning (RFC 3253). `HEAD` has no number of its own there, but is also known.
const REGISTERED: [&str; 27] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "VERSION-CONTROL",
    "CHECKOUT",
    "UNCHECKOUT",
    "CHECKIN",
    "UPDATE",
    "LABEL",
    "REPORT",
    "MKWORKSPACE",
    "MKACTIVITY",
    "BASELINE-CONTROL",
    "MERGE",
];

/// Whether a method is known without `RegisterHttpMethod`. Methods are compared byte by byte: `get` is another one.
pub fn is_registered(method: &[u8]) -> bool {
    REGISTERED.iter().any(|known| known.as_bytes() == method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_compared_byte_by_byte() {
        assert!(is_registered(b"GET") && is_registered(b"MERGE"));
        assert!(!is_registered(b"get") && !is_registered(b"FROB") && !is_registered(b""));
    }
}
