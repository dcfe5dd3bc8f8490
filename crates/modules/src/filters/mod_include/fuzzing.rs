//! The entry point of the fuzz target `ssi`.

use bytes::Bytes;

use super::expand::{Coding, decode_entities, pieces};
use super::legacy;
use super::scan::{Part, Scanner};

/// Reads a page whole and in pieces of this size, and what its elements say.
///
/// # Panics
/// If the parts differ.
pub fn ssi(page: &[u8], piece: usize) {
    let whole = parts(page, page.len().max(1));
    assert_eq!(parts(page, piece.max(1)), whole);
    for part in whole {
        let Part::Element(element) = part else { continue };
        for value in element.arguments.into_iter().filter_map(|argument| argument.value) {
            let _ = legacy::parse(&value);
            let _ = pieces(&value);
            let _ = decode_entities(&value);
            for coding in Coding::list("none url urlencoded entity base64").flatten() {
                let text = coding.encode(&value);
                if matches!(coding, Coding::Url | Coding::UrlEncoded | Coding::Base64) {
                    assert_eq!(coding.decode(&text), value);
                }
                let _ = coding.decode(&value);
            }
        }
    }
}

/// The parts of a page. Neighbouring texts are joined.
fn parts(page: &[u8], piece: usize) -> Vec<Part> {
    let mut scanner = Scanner::new("<!--#", "-->");
    let mut parts = Vec::new();
    let mut add = |part: Part| match (parts.last_mut(), part) {
        (Some(Part::Text(have)), Part::Text(more)) => *have = Bytes::from([&have[..], &more[..]].concat()),
        (_, part) => parts.push(part),
    };
    for piece in page.chunks(piece) {
        scanner.feed(Bytes::copy_from_slice(piece));
        std::iter::from_fn(|| scanner.next()).for_each(&mut add);
    }
    scanner.end().into_iter().for_each(&mut add);
    parts
}
