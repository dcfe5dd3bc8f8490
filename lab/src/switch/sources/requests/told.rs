//! A request as a file of requests says it.

use super::url::Url;

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
