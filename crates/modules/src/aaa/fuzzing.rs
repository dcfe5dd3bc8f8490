//! The entry point of the fuzz target `form`.

use super::mod_auth_form::form_fields;

/// Reads the bytes as a form.
///
/// # Panics
/// If there are more fields than the form has, or more text.
pub fn form(bytes: &[u8]) {
    let fields = form_fields(bytes);
    assert_eq!(fields.len(), 1 + bytes.iter().filter(|byte| **byte == b'&').count());
    let length = |text: &str| http::text::to_bytes(text).len();
    assert!(fields.iter().map(|(name, value)| length(name) + length(value)).sum::<usize>() <= bytes.len());
}
