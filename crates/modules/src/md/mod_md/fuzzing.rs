//! The entry point of the fuzz target `acme`.

use super::client::{RETRY_AFTER_MAX, retry_after};
use crate::http_client::parse;

/// Reads an authority's response.
///
/// # Panics
/// If the pause that it demands is longer than one that is obeyed.
pub fn acme(response: &[u8]) {
    for is_head in [false, true] {
        let Ok(response) = parse(response, is_head) else { continue };
        for value in response.headers().get_all("retry-after") {
            let pause = value.to_str().ok().and_then(|value| retry_after(value.trim()));
            assert!(pause.is_none_or(|pause| pause <= RETRY_AFTER_MAX));
        }
    }
}
