//! The entry point of the fuzz target `dav`.

use super::{if_header, xml};

/// Reads the bytes as a body in XML and as an `If` field.
///
/// # Panics
/// If an element that was read cannot be written and read again.
pub fn dav(bytes: &[u8]) {
    if let Ok(root) = xml::parse(bytes) {
        let text = root.write();
        let again = xml::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(again.write(), text);
    }
    let _ = if_header::parse(&http::text::from_bytes(bytes)).map(drop);
}
