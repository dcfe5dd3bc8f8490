//! A head parses the same in one piece and byte by byte. A head that passes in strict mode also passes in `Unsafe` mode
//! and in httparse, and every accessor works on it.

#![no_main]

use http::{Framing, Head, HeadError, Limits, Parse, Persistence};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let strict = Limits::default();
    let lax = Limits { strict: false, ..strict };
    for limits in [strict, lax, Limits { line: 20, fields: 2, field_size: 20, ..strict }] {
        assert_eq!(outcome(data, &limits, data.len()), outcome(data, &limits, 1));
    }
    let mut head = Head::default();
    if let Ok(Parse::Complete { len }) = Head::parse(data, &strict, &mut head) {
        assert!(matches!(Head::parse(data, &lax, &mut Head::default()), Ok(Parse::Complete { len: l }) if l == len));
        read_everything(data, &head);
        agree_with_httparse(&data[..len], &head);
    }
});

/// The outcome of feeding `step` bytes at a time: the length of the head and its fields, or the error.
fn outcome(data: &[u8], limits: &Limits, step: usize) -> Result<Option<(usize, Vec<Vec<u8>>)>, HeadError> {
    let mut head = Head::default();
    let mut end = 0;
    while end < data.len() {
        end = (end + step).min(data.len());
        if let Parse::Complete { len } = Head::parse(&data[..end], limits, &mut head)? {
            let mut parts = vec![head.method(data).to_vec(), head.target(data).to_vec(), head.path(data).to_vec()];
            parts.extend(head.fields(data).flat_map(|(name, value)| [name.to_vec(), value.to_vec()]));
            return Ok(Some((len, parts)));
        }
    }
    Ok(None)
}

fn read_everything(data: &[u8], head: &Head) {
    for (name, _) in head.fields(data) {
        let name = std::str::from_utf8(name).expect("strict names are ASCII");
        let first = head.field(data, name).expect("a listed field is found");
        let combined = head.combined(data, name).expect("a listed field is found");
        assert!(combined.starts_with(first));
        assert!(!combined.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
    }
    let _ = (head.query(data), head.host(data), Framing::of(head, data), Persistence::of(head, data));
    let range = head.combined(data, "range").unwrap_or_default();
    if let http::range::Resolved::Parts(parts) = http::range::resolve(&range, 1000, &Default::default()) {
        assert!(!parts.is_empty() && parts.iter().all(|part| part.first <= part.last && part.last < 1000));
    }
    let _ = http::conditional::evaluate(&(head, data), &Default::default(), 0);
    for value in head.values(data, "accept") {
        assert!(http::accept::preferences(value).all(|p| p.quality <= http::accept::QUALITY_MAX));
    }
}

/// Compares with httparse, which must see the same fields. It does not support folded lines and limits the number of
/// fields.
fn agree_with_httparse(data: &[u8], head: &Head) {
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut fields);
    let has_fold = data.windows(3).any(|three| three[..2] == *b"\r\n" && matches!(three[2], b' ' | b'\t'));
    // httparse 1 accepts HTTP/1.0 and HTTP/1.1 only.
    let is_1_x = data.windows(9).any(|nine| nine.starts_with(b" HTTP/1.") && nine[8] > b'1');
    if has_fold || is_1_x {
        return;
    }
    match request.parse(data) {
        Ok(httparse::Status::Complete(len)) => {
            assert_eq!(len, data.len());
            assert_eq!(request.method.map(str::as_bytes), Some(head.method(data)));
            assert!(request.headers.iter().map(|f| (f.name.as_bytes(), f.value)).eq(head.fields(data)));
        }
        // httparse refuses some bytes in a target, although a path may contain any bytes.
        Err(httparse::Error::Token) if !head.target(data).is_ascii() => {}
        other => panic!("httparse: {other:?}"),
    }
}
