//! A head accepted over HTTP/2 is also valid in HTTP/1: written as text, it parses to the same fields, so no field
//! becomes two, and there is exactly one host.
//!
//! An input is a head with one field per line: `name: value`, with percent-encoded bytes as in URLs. The HTTP/2 library
//! parses it first.

#![no_main]

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::uri::unescape_lenient;
use http::{Head, Limits, Parse, Version};
use libfuzzer_sys::fuzz_target;
use server::RequestHead;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

fuzz_target!(|data: &[u8]| {
    let limits = Limits::default();
    let head = received(block(data)).and_then(|parts| server::served_over_http2(&parts, &limits));
    if let Some(head) = head {
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

/// The request that HTTP/2 parses from a head; `None` if it refuses the head.
fn received(block: Vec<u8>) -> Option<http_types::request::Parts> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    bytes.extend(&(block.len() as u32).to_be_bytes()[1..]);
    // HEADERS on stream 1, with END_HEADERS and END_STREAM.
    bytes.extend([1, 5, 0, 0, 0, 1]);
    bytes.extend(block);
    let mut cx = Context::from_waker(Waker::noop());
    let mut builder = h2::server::Builder::new();
    builder.enable_connect_protocol();
    let greeting = builder.handshake::<_, Bytes>(Wire(bytes.into()));
    let Poll::Ready(Ok(mut connection)) = pin!(greeting).poll(&mut cx) else { return None };
    match connection.poll_accept(&mut cx) {
        Poll::Ready(Some(Ok((request, _)))) => Some(request.into_parts().0),
        _ => None,
    }
}

/// Encodes the fields without compression (RFC 7541 section 6.2.2).
fn block(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let middle = line.windows(2).position(|two| two == b": ").unwrap_or(line.len());
        out.push(0);
        for part in [&line[..middle], line.get(middle + 2..).unwrap_or_default()] {
            let part = unescape_lenient(part);
            length(part.len(), &mut out);
            out.extend(&*part);
        }
    }
    out
}

/// Encodes an integer with a 7-bit prefix (RFC 7541 section 5.1).
fn length(length: usize, out: &mut Vec<u8>) {
    let Some(mut rest) = length.checked_sub(127) else { return out.push(length as u8) };
    out.push(127);
    while rest >= 128 {
        out.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// A client that has sent these bytes and accepts all output.
struct Wire(Bytes);

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let rest = &mut self.get_mut().0;
        if rest.is_empty() {
            return Poll::Pending;
        }
        into.put_slice(&rest.split_to(rest.len().min(into.remaining())));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(from.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
