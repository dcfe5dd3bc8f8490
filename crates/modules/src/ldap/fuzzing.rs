//! The entry point of the fuzz target `ldap`.

use super::ber::whole;
use super::filter::Filter;
use super::message::{Aliases, Question, Scope, Search, decode};
use super::url::Url;

/// Reads the bytes as a directory's messages, and as the texts that an administrator writes: a filter and a URL.
///
/// # Panics
/// If a reader goes past the end of its input, or a filter cannot be written as a message.
pub fn ldap(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some(length)) = whole(rest) {
        let Some((message, behind)) = rest.split_at_checked(length) else { break };
        let _ = decode(message);
        rest = behind;
    }
    let _ = decode(bytes);
    let text = http::text::from_bytes(bytes);
    let _ = Url::parse(&text);
    if let Some(filter) = Filter::parse(&text) {
        let search = Search {
            base: "",
            scope: Scope::Subtree,
            aliases: Aliases::Always,
            filter: &filter,
            attributes: &[],
            most: 1,
            seconds: 1,
        };
        let message = Question::Search(&search).encode(1);
        assert_eq!(whole(&message), Ok(Some(message.len())));
    }
}
