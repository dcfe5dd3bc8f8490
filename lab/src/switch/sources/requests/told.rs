//! A request as a file of requests says it.

use super::url::Url;

/// Fields that belong to a connection, or that the request is sent with anyway.
const LEFT_OUT: [&str; 9] = [
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request as a file says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Its line, or the number of its entry.
    pub(super) line: u32,
    pub(super) url: Url,
    pub(super) method: String,
    pub(super) minor: u8,
    /// The fields, with `Host` if it is another one than that of the URL.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

pub(super) fn is_left_out(name: &str) -> bool {
    LEFT_OUT.iter().any(|own| name.eq_ignore_ascii_case(own))
}
