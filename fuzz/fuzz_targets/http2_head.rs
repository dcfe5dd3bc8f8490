//! A head accepted over HTTP/2 is also valid in HTTP/1: written as text, it parses to the same fields, so no field
//! becomes two, and there is exactly one host.
//!
//! An input is a head with one field per line: `name: value`, with percent-encoded bytes as in URLs.

#![no_main]

use http::h2::FieldList;
use http::uri::unescape_lenient;
use http::{Head, Limits, Parse, Version};
use libfuzzer_sys::fuzz_target;
use server::RequestHead;

fuzz_target!(|data: &[u8]| {
    let fields = fields(data);
    if fields.check_request(true).is_err() {
        return;
    }
    if let Some(head) = server::served_over_http2(&fields, &Limits::default()) {
        is_let_in(&head);
    }
});

fn is_let_in(head: &RequestHead) {
    assert_eq!(head.version(), Version::Http2);
    let authority = head.authority().expect("a host");
    let named =
        |wanted: &'static str| head.fields().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()));
    assert!(named("host").map(|(_, value)| value).eq([authority]));
    assert!(named("content-length").count() <= 1);
    assert_eq!(named("transfer-encoding").count(), 0);

    let mut text = [head.method(), b" ", head.target(), b" HTTP/1.1\r\n"].concat();
    head.fields().for_each(|(name, value)| text.extend([name, b": ", value, b"\r\n"].concat()));
    text.extend(b"\r\n");
    // HTTP/2 applies its own limits before it joins fields.
    let limits = Limits { line: text.len(), fields: 0, field_size: text.len(), strict: true };
    let mut again = Head::default();
    let parsed = Head::parse(&text, &limits, &mut again);
    let written = || String::from_utf8_lossy(&text);
    assert!(matches!(parsed, Ok(Parse::Complete { len }) if len == text.len()), "{parsed:?}: {}", written());
    assert_eq!((again.method(&text), again.target(&text)), (head.method(), head.target()), "{}", written());
    assert_eq!((again.path(&text), again.query(&text)), (head.path(), head.query()), "{}", written());
    assert!(again.fields(&text).eq(head.fields()), "{}", written());
}

/// The fields of the lines.
fn fields(text: &[u8]) -> FieldList {
    let mut fields = FieldList::default();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let middle = line.windows(2).position(|two| two == b": ").unwrap_or(line.len());
        let (name, value) = (&line[..middle], line.get(middle + 2..).unwrap_or_default());
        fields.push(&unescape_lenient(name), &unescape_lenient(value), 256 * 1024);
    }
    fields
}
