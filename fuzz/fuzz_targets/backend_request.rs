//! What is written for a backend is read as it was meant: lengths fit, and no variable becomes two.
//!
//! An input is a list of texts, each ended by a NUL: names and values by turns. A text that is longer than its line says
//! nothing new, so the first byte tells how often each value is repeated.

#![no_main]

use gateway::protocol::{fastcgi, plain, script_runtime};
use libfuzzer_sys::fuzz_target;

/// Names and values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|data: &[u8]| {
    let Some((repeats, rest)) = data.split_first() else { return };
    let mut texts = rest.split(|byte| *byte == 0);
    let pairs =
        std::iter::from_fn(|| Some((texts.next()?.to_vec(), texts.next()?.repeat(usize::from(*repeats % 32) + 1))));
    let pairs: Pairs = pairs.collect();
    let given = || pairs.iter().map(|(name, value)| (&name[..], &value[..]));

    assert_eq!(parameters(&fastcgi::open(fastcgi::Role::Responder, true, given())), pairs);
    is_netstring(&plain::scgi(7, given()), &pairs);
    match plain::uwsgi(given()) {
        Ok(block) => assert_eq!(variables(&block), pairs),
        Err(length) => assert!(length > usize::from(u16::MAX)),
    }
    let mut handler = Vec::new();
    given().for_each(|(name, value)| script_runtime::add(name, value, &mut handler));
    if let Ok(bytes) = script_runtime::open(&handler, given()) {
        let mut rest = &bytes[..];
        for frame in ["HANDLER", "ENVIRONMENT"] {
            let length = u32::from_be_bytes(rest[4..8].try_into().expect("four bytes")) as usize;
            let (list, after) = rest[8..].split_at(length);
            assert_eq!(list.iter().filter(|byte| **byte == 0).count(), 2 * pairs.len(), "{frame}");
            rest = after;
        }
        assert!(rest.is_empty());
    }
});

/// The parameters in a FastCGI request without a body.
fn parameters(mut bytes: &[u8]) -> Pairs {
    let mut whole = Vec::new();
    while let Some((&[1, kind, 0, 1, high, low, 0, 0], rest)) = bytes.split_first_chunk() {
        let (record, rest) = rest.split_at(usize::from(u16::from_be_bytes([high, low])));
        if kind == 4 {
            whole.extend_from_slice(record);
        }
        bytes = rest;
    }
    assert!(bytes.is_empty());
    let (mut content, mut pairs) = (&whole[..], Vec::new());
    while !content.is_empty() {
        let (name, value) = (length(&mut content), length(&mut content));
        let (text, rest) = content.split_at(name + value);
        pairs.push((text[..name].to_vec(), text[name..].to_vec()));
        content = rest;
    }
    pairs
}

/// A length of one or four bytes.
fn length(content: &mut &[u8]) -> usize {
    let (&first, rest) = content.split_first().expect("a length");
    if first < 0x80 {
        *content = rest;
        return first.into();
    }
    let (bytes, rest) = content.split_first_chunk().expect("four bytes");
    *content = rest;
    (u32::from_be_bytes(*bytes) & 0x7fff_ffff) as usize
}

/// An SCGI head has the length that it says, and the variables by turns.
fn is_netstring(bytes: &[u8], pairs: &Pairs) {
    let colon = bytes.iter().position(|byte| *byte == b':').expect("a netstring");
    let length: usize = std::str::from_utf8(&bytes[..colon]).expect("digits").parse().expect("a length");
    let content = &bytes[colon + 1..];
    assert_eq!((content.len(), content.last()), (length + 1, Some(&b',')));
    assert!(content.starts_with(b"CONTENT_LENGTH\x007\0SCGI\x001\0"));
    let own = pairs.iter().filter(|(name, _)| matches!(&name[..], b"CONTENT_LENGTH" | b"SCGI")).count();
    let texts = content.iter().filter(|byte| **byte == 0).count();
    assert_eq!(texts, 4 + 2 * (pairs.len() - own));
}

/// The variables in a uwsgi block.
fn variables(block: &[u8]) -> Pairs {
    let mut rest = &block[4..];
    assert_eq!(usize::from(u16::from_le_bytes([block[1], block[2]])), rest.len());
    let mut text = || {
        let (length, after) = rest.split_first_chunk()?;
        let (text, after) = after.split_at(usize::from(u16::from_le_bytes(*length)));
        rest = after;
        Some(text)
    };
    std::iter::from_fn(|| Some((text()?.to_vec(), text()?.to_vec()))).collect()
}
