//! Status codes: Apache's reason phrases and the properties that decide how a response is sent.

/// The reason phrase that Apache 2.4.71 sends; empty for a status it has no phrase for.
///
/// Some are older than RFC 9110's (413, 414, 416, 422), because tools compare status lines.
#[must_use]
pub const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Requested Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Entity",
        423 => "Locked",
        424 => "Failed Dependency",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => "",
    }
}

/// Is it a status that Apache knows?
#[must_use]
pub const fn is_known(status: u16) -> bool {
    !reason(status).is_empty()
}

/// Does a response with this status never have a body (RFC 9112 section 6.3)?
#[must_use]
pub const fn is_bodyless(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// Is the connection closed after a response with this status? Apache does so when the rest of the request may not have
/// been read or cannot be trusted.
#[must_use]
pub const fn closes_connection(status: u16) -> bool {
    matches!(status, 400 | 408 | 411 | 413 | 414 | 417 | 500 | 501 | 503)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases() {
        assert_eq!(reason(200), "OK");
        assert_eq!(reason(413), "Request Entity Too Large");
        assert_eq!(reason(418), "");
        assert!(is_known(204) && is_known(307) && !is_known(418));
        assert!(is_bodyless(304) && !is_bodyless(200));
        assert!(closes_connection(400) && !closes_connection(404));
    }
}
