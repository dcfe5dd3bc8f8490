//! Databases: one interface for all modules that query them.

mod connection;
mod format;
mod pool;

pub mod mod_dbd;

pub(crate) use mod_dbd::{Failure, is_loaded, prepare, query};
pub(crate) use sys::sql::{Rows, Value};

/// A value of a row as a text. A null has none.
pub(crate) fn text_of(value: &Option<Vec<u8>>) -> Option<String> {
    value.as_ref().map(|bytes| {
        // In C a text ends with the first of these.
        let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        http::text::from_bytes(&bytes[..end]).into_owned()
    })
}

/// A text as a value.
pub(crate) fn text_value(text: &str) -> Value {
    Value::Text(http::text::to_bytes(text).into_owned())
}
